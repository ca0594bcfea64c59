"""A backend that serves: idle, busy, prefilling, hung, dead, or not wanted any more."""

from dataclasses import replace

import pytest

from arcops.core.action import Ask
from arcops.core.decide import decide
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.world import Answer, AnswerState, Cause
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor, serving

LIMITS = launch().limits


def suspected() -> tuple[Machine, Supervisor]:
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.SUSPECT)
    return machine, supervisor


def test_an_idle_backend_is_never_suspected() -> None:
    machine, supervisor = serving()
    supervisor.run(24 * 3600.0, step=60.0)
    assert supervisor.state.phase is Phase.SERVING
    assert machine.signals == []


@pytest.mark.parametrize("requests", [1, 5], ids=["alone", "with requests queued behind it"])
def test_a_prefill_of_ten_minutes_is_never_taken_for_a_hang(requests: int) -> None:
    """Every counter of vLLM stands still during a long prefill; only the KV gauge climbs."""
    machine, supervisor = serving()
    machine.requests, machine.prefilling = requests, True
    before = machine.counters
    supervisor.run(600.0)
    assert machine.counters == before
    assert [phase for phase, _ in supervisor.trail].count(Phase.SUSPECT) == 0


def test_work_in_flight_without_progress_is_doubted_asked_and_ended() -> None:
    machine, supervisor = suspected()
    began = machine.now
    assert "1 requests in flight and no progress for 30 s" in supervisor.state.reason
    assert supervisor.step().actions == (Ask(LIMITS.probe),)
    supervisor.until(Phase.STOPPING)
    assert machine.now - began >= LIMITS.probe - 0.2
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.HANG
    assert "no progress for 50 s, and no answer to the probe within 20 s" in supervisor.state.failure.summary
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    assert len(machine.spawns) == 2


def test_a_right_answer_to_the_probe_clears_the_doubt() -> None:
    machine, supervisor = suspected()
    machine.hung = False
    machine.requests = 0
    supervisor.run(1.0)
    assert (supervisor.state.phase, supervisor.state.reason) == (Phase.SERVING, "it answered the probe")


def test_progress_clears_the_doubt() -> None:
    machine, supervisor = suspected()
    supervisor.step()
    machine.hung = False
    supervisor.until(Phase.SERVING)
    assert supervisor.state.reason == "progress again"


@pytest.mark.parametrize(
    ("answer", "says"),
    [(AnswerState.WRONG, "the probe failed: HTTP 500"), (AnswerState.LATE, "no answer to the probe")],
)
def test_a_bad_answer_to_the_probe_ends_it_at_once(answer: AnswerState, says: str) -> None:
    _, supervisor = suspected()
    supervisor.run(LIMITS.probe if answer is AnswerState.LATE else 0.1)
    bad = replace(supervisor.world(), answer=Answer("L1", answer, "HTTP 500"))
    decision = decide(supervisor.state, bad)
    assert decision.state.phase is Phase.STOPPING
    assert says in decision.state.reason


def test_the_answer_of_another_launch_does_not_count() -> None:
    _, supervisor = suspected()
    supervisor.step()
    for answer in (Answer("another", AnswerState.RIGHT), None):
        assert decide(supervisor.state, replace(supervisor.world(), answer=answer)).state.phase is Phase.SUSPECT


@pytest.mark.parametrize(
    ("dark", "says"),
    [
        ({"activity"}, "no sign of life can be read (/metrics did not answer)"),
        ({"activity", "requests"}, "no sign of life can be read (/metrics did not answer)"),
    ],
)
def test_a_backend_that_cannot_be_read_is_doubted_and_not_ended_if_it_answers(dark: set[str], says: str) -> None:
    machine, supervisor = serving()
    machine.unreadable = dark
    supervisor.until(Phase.SUSPECT)
    assert says in supervisor.state.reason
    supervisor.run(600.0, step=0.5)
    assert machine.signals == []


def test_a_vllm_that_never_says_what_it_works_on_is_asked_and_not_doubted_for_that() -> None:
    """Metrics without the gauges of requests: that lasts as long as the launch, and is no news a minute later."""
    machine, supervisor = serving()
    machine.unreadable = {"requests"}
    asked, end = 0, machine.now + 3600.0
    while machine.now < end:
        asked += sum(isinstance(action, Ask) for action in supervisor.step(0.5).actions)
    assert asked == pytest.approx(3600.0 / LIMITS.stall_after, rel=0.1)
    assert [phase for phase, _ in supervisor.trail].count(Phase.SUSPECT) == 0


def test_a_vllm_that_never_says_what_it_works_on_and_hangs_is_found() -> None:
    machine, supervisor = serving()
    machine.unreadable = {"requests"}
    began, machine.hung = machine.now, True
    supervisor.until(Phase.SUSPECT)
    assert supervisor.state.reason == "it showed no work, and gave no answer within 20 s"
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(LIMITS.stall_after + 2 * LIMITS.probe, abs=2.0)


def test_time_in_which_nobody_looked_is_no_silence() -> None:
    """The machine stood still, or the supervisor did: the last reading is from before, and the next one will tell."""
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.run(5.0)
    before = supervisor.world()
    later = replace(before, now=machine.now + 600.0)
    assert decide(supervisor.state, later).state.phase is Phase.SERVING
    seen = replace(later, activity=replace(before.activity, at=later.now))
    assert decide(supervisor.state, seen).state.phase is Phase.SERVING, "the same as before, and nobody saw it stand"


def test_silence_from_before_and_after_a_standstill_adds_up() -> None:
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.run(LIMITS.stall_after - 5.0)
    machine.now += 600.0
    began = machine.now
    supervisor.until(Phase.SUSPECT)
    assert machine.now - began == pytest.approx(5.0, abs=1.0)


def test_counters_that_move_are_progress_even_where_requests_are_unknown() -> None:
    machine, supervisor = serving()
    machine.requests, machine.unreadable = 1, {"requests"}
    supervisor.run(300.0)
    assert [phase for phase, _ in supervisor.trail].count(Phase.SUSPECT) == 0


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.SUSPECT])
def test_a_death_that_nobody_ordered_is_a_failure_whatever_the_exit_code(phase: Phase) -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(exit_code=0)})
    if phase is Phase.SUSPECT:
        machine.requests, machine.hung = 1, True
        supervisor.until(Phase.SUSPECT)
    machine.end(machine.of("L1", "main")[0])
    supervisor.step()
    assert supervisor.state.phase is Phase.STOPPING
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.summary == "alpha ended with exit code 0"
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.SUSPECT])
def test_a_death_under_a_switch_is_not_blamed_on_what_was_switched_to(phase: Phase) -> None:
    machine, supervisor = serving()
    if phase is Phase.SUSPECT:
        machine.requests, machine.hung = 1, True
        supervisor.until(Phase.SUSPECT)
    supervisor.switch(launch("beta"))
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.SERVING)
    if supervisor.state.order.profile != "beta":
        supervisor.run(1.0)
    assert (supervisor.state.order.profile, supervisor.state.failures) == ("beta", ())


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.SUSPECT])
def test_a_record_that_goes_away_is_counted_as_a_failure(phase: Phase) -> None:
    machine, supervisor = serving()
    if phase is Phase.SUSPECT:
        machine.requests, machine.hung = 1, True
        supervisor.until(Phase.SUSPECT)
    record, machine.record = machine.record, None
    supervisor.step()
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.LOST
    supervisor.run(30.0)
    assert len(machine.spawns) == 1, "its processes still hold card and lock, and are not launched beside"
    assert supervisor.state.phase is Phase.BLOCKED
    machine.record, machine.hung = record, False
    supervisor.until(Phase.SERVING)
    assert (machine.signals, machine.violations) == ([], [])


def test_a_suspect_backend_that_is_not_wanted_any_more_is_not_drained() -> None:
    _, supervisor = suspected()
    supervisor.stop()
    supervisor.step()
    assert supervisor.state.phase is Phase.STOPPING


def test_a_failure_does_not_linger_once_it_serves_again() -> None:
    machine, supervisor = serving()
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.BACKOFF)
    assert supervisor.state.failure is not None
    supervisor.until(Phase.SERVING)
    assert (supervisor.state.failure, supervisor.state.retry_at) == (None, None)
    assert len(supervisor.state.failures) == 1
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    assert supervisor.state.failures == ()


def test_open_requests_are_given_their_time_also_where_nobody_can_count_them() -> None:
    machine, supervisor = serving()
    supervisor.stop()
    dark = replace(supervisor.world(), requests=Unknown("/metrics did not answer", machine.now))
    decision = decide(supervisor.state, dark)
    assert decision.state.phase is Phase.DRAINING
    assert "open requests unknown (/metrics did not answer)" in decision.state.reason
    for count, words in ((1, "1 request is open"), (2, "2 requests are open")):
        busy = replace(dark, requests=Known(count, machine.now))
        assert words in decide(supervisor.state, busy).state.reason
