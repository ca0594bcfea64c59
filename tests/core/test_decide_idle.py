"""A backend that nobody asks for anything: it is asked now and then, and is never judged at one strike."""

from dataclasses import replace

import pytest

from arcops.core.action import Ask, KeepEvidence
from arcops.core.launch import Checks
from arcops.core.phase import Phase
from arcops.core.world import AnswerState, Cause
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor, serving

PROBE = launch().limits.probe
EVERY = Checks().idle_probe


def asks(supervisor: Supervisor, seconds: float, step: float = 0.1) -> int:
    """How often it is asked within so many seconds."""
    count, end = 0, supervisor.machine.now + seconds
    while supervisor.machine.now < end:
        count += sum(isinstance(action, Ask) for action in supervisor.step(step).actions)
    return count


def answers(machine: Machine, fate: AnswerState) -> None:
    assert machine.record is not None
    machine.record.conduct = replace(machine.record.conduct, answer=fate)


def phases(supervisor: Supervisor) -> list[Phase]:
    return [phase for phase, _ in supervisor.trail]


def asked() -> tuple[Machine, Supervisor]:
    """It hangs without a request, and has just been asked."""
    machine, supervisor = serving()
    machine.hung = True
    while supervisor.state.asked_at is None:
        supervisor.step()
    return machine, supervisor


def test_an_idle_backend_is_asked_every_five_minutes_and_stays_in_its_phase() -> None:
    machine, supervisor = serving()
    assert asks(supervisor, EVERY - 1.0) == 0
    assert asks(supervisor, 2.0) == 1
    assert asks(supervisor, 10 * EVERY + 10.0, step=0.5) == 10, "each after the last answer"
    assert phases(supervisor)[-1] is Phase.SERVING
    assert machine.evidence == []


def test_without_an_interval_it_is_never_asked() -> None:
    _, supervisor = serving()
    machine = supervisor.machine
    assert machine.record is not None
    machine.record.launch = replace(machine.record.launch, checks=Checks(idle_probe=0.0))
    assert asks(supervisor, 100 * EVERY, step=5.0) == 0


def test_work_is_proof_enough_and_puts_the_question_off() -> None:
    machine, supervisor = serving()
    for _ in range(20):
        machine.requests = 1
        assert asks(supervisor, 5.0) == 0
        machine.requests = 0
        assert asks(supervisor, EVERY - 10.0, step=0.5) == 0


def test_a_backend_that_hangs_without_a_request_is_found_and_ended() -> None:
    machine, supervisor = serving()
    began, machine.hung = machine.now, True
    supervisor.until(Phase.SUSPECT, within=EVERY + PROBE + 1.0)
    assert "it was idle, and gave no answer within 20 s" in supervisor.state.reason
    assert machine.evidence == [("L1", "suspect")]
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(EVERY + 2 * PROBE, abs=2.0)
    failure = supervisor.state.failure
    assert failure is not None
    assert failure.cause is Cause.HANG
    assert f"no progress for {EVERY + 2 * PROBE:.0f} s, and no answer" in failure.summary
    assert machine.evidence == [("L1", "suspect"), ("L1", "hang")]
    supervisor.until(Phase.SERVING)


def test_a_late_answer_alone_is_no_reason_to_end_it() -> None:
    machine, supervisor = serving()
    machine.hung = True
    supervisor.until(Phase.SUSPECT, within=600.0)
    machine.hung = False
    supervisor.until(Phase.SERVING)
    assert supervisor.state.reason == "it answered the probe"
    assert machine.signals == []


def test_a_question_that_stands_behind_somebodys_prefill_is_not_waited_for() -> None:
    """The probe queues behind a prefill of ten minutes, which came a moment earlier and moves the KV gauge."""
    machine, supervisor = serving()
    machine.hung = True  # so that no answer comes
    while supervisor.state.asked_at is None:
        supervisor.step()
    machine.hung, machine.requests, machine.prefilling = False, 2, True
    answers(machine, AnswerState.LATE)
    supervisor.run(600.0, step=0.5)
    assert phases(supervisor).count(Phase.SUSPECT) == 0
    assert supervisor.state.asked_at is None


def test_a_probe_that_counts_as_a_request_and_gets_nowhere_is_doubted_after_the_usual_silence() -> None:
    machine, supervisor = serving()
    assert machine.record is not None
    limits = replace(launch().limits, stall_after=5.0)
    machine.record.launch = replace(machine.record.launch, limits=limits)
    machine.hung = True
    while supervisor.state.asked_at is None:
        supervisor.step()
    machine.requests = 1
    began = machine.now
    supervisor.until(Phase.SUSPECT)
    assert machine.now - began < PROBE
    assert "1 requests in flight and no progress" in supervisor.state.reason
    supervisor.until(Phase.STOPPING)


@pytest.mark.parametrize("fate", [AnswerState.DEGENERATE, AnswerState.WRONG])
def test_a_bad_answer_counts_though_its_own_tokens_are_progress(fate: AnswerState) -> None:
    """Sixteen tokens may take seconds, and vLLM's counters move with each."""
    machine, supervisor = serving()
    answers(machine, fate)
    supervisor.answer_delay = 8.0
    while supervisor.state.asked_at is None:
        supervisor.step()
    machine.requests = 1
    supervisor.run(4.0)
    assert supervisor.state.progress_at > supervisor.state.asked_at
    machine.requests = 0
    supervisor.until(Phase.SUSPECT, within=30.0)
    assert "its answer was bad" in supervisor.state.reason


@pytest.mark.parametrize("fate", [AnswerState.DEGENERATE, AnswerState.WRONG])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with work that moves"])
def test_a_bad_answer_is_asked_for_again_and_only_an_answer_clears_it(fate: AnswerState, busy: bool) -> None:
    machine, supervisor = serving()
    answers(machine, fate)
    supervisor.until(Phase.SUSPECT, within=600.0)
    assert "it was idle, and its answer was bad: it was" in supervisor.state.reason
    machine.requests = int(busy)  # a backend that answers nonsense is busy, and makes much progress
    supervisor.until(Phase.STOPPING)
    failure = supervisor.state.failure
    assert failure is not None
    assert failure.cause is (Cause.WRONG_ANSWER if fate is AnswerState.DEGENERATE else Cause.HANG)
    assert f"it was {fate.value}" in failure.summary


def test_a_bad_answer_that_does_not_come_again_is_forgotten() -> None:
    machine, supervisor = serving()
    answers(machine, AnswerState.DEGENERATE)
    supervisor.until(Phase.SUSPECT, within=600.0)
    answers(machine, AnswerState.RIGHT)
    supervisor.until(Phase.SERVING)
    assert machine.signals == []


def test_no_second_answer_while_the_work_of_others_goes_on_is_no_hang() -> None:
    machine, supervisor = serving()
    answers(machine, AnswerState.DEGENERATE)
    supervisor.until(Phase.SUSPECT, within=600.0)
    answers(machine, AnswerState.LATE)
    machine.requests, machine.prefilling = 1, True
    supervisor.until(Phase.SERVING)
    assert supervisor.state.reason == "no answer to the probe, but the work of others goes on"


def test_a_bad_answer_and_then_none_at_all_ends_it() -> None:
    machine, supervisor = serving()
    answers(machine, AnswerState.WRONG)
    supervisor.until(Phase.SUSPECT, within=600.0)
    machine.hung = True
    supervisor.until(Phase.STOPPING)
    assert "no answer to the probe within 20 s" in supervisor.state.reason


@pytest.mark.parametrize("fate", [AnswerState.OTHER, AnswerState.REFUSED])
def test_another_answer_than_the_known_one_and_a_refusal_are_no_reason_for_anything(fate: AnswerState) -> None:
    machine, supervisor = serving()
    answers(machine, fate)
    assert asks(supervisor, 3 * EVERY + 2.0, step=0.5) == 3
    assert phases(supervisor)[-1] is Phase.SERVING
    assert machine.signals == []


def test_another_answer_than_the_known_one_clears_a_doubt() -> None:
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.SUSPECT)
    machine.requests, machine.hung = 0, False
    answers(machine, AnswerState.OTHER)
    supervisor.until(Phase.SERVING)
    assert supervisor.state.reason == "it answered the probe"


def test_a_doubted_backend_that_refuses_the_probe_has_failed_it() -> None:
    machine, supervisor = serving()
    answers(machine, AnswerState.REFUSED)
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.SUSPECT)
    machine.hung, machine.unreadable = False, {"activity"}
    supervisor.until(Phase.STOPPING)
    assert "the probe failed: it was refused" in supervisor.state.reason


@pytest.mark.parametrize("fate", [AnswerState.OTHER, AnswerState.DEGENERATE, AnswerState.REFUSED])
def test_a_start_whose_answer_is_not_right_fails(fate: AnswerState) -> None:
    machine, supervisor = serving()
    machine.conduct["beta"] = Conduct(answer=fate)
    order = supervisor.switch(launch("beta"))
    assert isinstance(order, int)
    while supervisor.state.outcome_of(order) is None:
        supervisor.step()
    outcome = supervisor.state.outcome_of(order)
    assert outcome is not None
    assert f"the first answer failed: it was {fate.value}" in outcome.summary
    assert ("checks.known_answer" in outcome.hint) is (fate is AnswerState.OTHER)
    assert ("L2", "wrong_answer") in machine.evidence


def test_metrics_that_fall_silent_while_it_is_asked_are_doubted_after_the_usual_silence() -> None:
    machine, supervisor = asked()
    machine.unreadable = {"activity", "requests"}
    supervisor.until(Phase.SUSPECT)
    assert "no answer" in supervisor.state.reason or "no sign of life" in supervisor.state.reason


def test_evidence_is_kept_at_the_doubt_and_at_a_failure_and_not_where_all_is_ordered() -> None:
    machine, supervisor = serving()
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    assert machine.evidence == []
    supervisor.switch(launch("alpha"))
    supervisor.until(Phase.SERVING)
    machine.end(machine.of("L2", "main")[0])
    decision = supervisor.step()
    assert decision.actions[:1] == (KeepEvidence("engine_died"),)
