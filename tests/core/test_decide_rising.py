"""The way up: locks, looks, launch, readiness, first answer; and who is in the way."""

from dataclasses import replace

import pytest

from arcops.core.action import Ask, Look, ReleaseLocks, Spawn, TakeLocks
from arcops.core.decide import decide
from arcops.core.decide.moves import KEEPER_SILENT
from arcops.core.decide.sight import LOOK_KEEPS
from arcops.core.errors import ExitCode
from arcops.core.launch import Checks
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, Order, State
from arcops.core.world import Answer, AnswerState, Card, Cause, Holder, Port, Server
from tests.core.simulated import Conduct, Machine, holder, launch
from tests.core.supervised import Supervisor, serving, supervised

ALPHA = launch("alpha")


def reborn(machine: Machine, supervisor: Supervisor) -> Supervisor:
    supervisor.die()
    return Supervisor(machine)


def standing(machine: Machine, profile: str = "alpha") -> Supervisor:
    """A supervisor that starts with a committed order and nothing running, as after a reboot."""
    machine.orders[1] = (Order(1, Goal.RUN, profile, launch(profile)), "committed")
    return Supervisor(machine)


# -- launching --------------------------------------------------------------------------------------------------------
def test_lock_then_look_then_launch_in_that_order() -> None:
    _, supervisor = supervised()
    supervisor.switch(ALPHA)
    seen: list[type] = []
    while supervisor.state.phase is Phase.STOPPED:
        seen += [type(action) for action in supervisor.step(0.02).actions]
    assert [kind for number, kind in enumerate(seen) if kind not in seen[:number]] == [TakeLocks, Look, Spawn]


def test_a_look_older_than_the_lock_does_not_count() -> None:
    _, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.perform(TakeLocks(ALPHA))
    supervisor.step(0.0)
    before = supervisor.locked_at - 0.01
    supervisor.port = Known(Port((), ours=False, bindable=True), before)
    supervisor.card = Known(Card(), before)
    assert supervisor.step().actions == (Look(),)


def test_a_look_grows_too_old_to_launch_on() -> None:
    machine, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.step(0.0)
    supervisor.perform(Look())
    machine.advance(LOOK_KEEPS + 1.0)
    assert supervisor.step().actions == (Look(),)


def test_a_holder_that_was_ended_just_before_the_order_is_not_held_against_it() -> None:
    machine, supervisor = supervised()
    machine.foreign_listener = holder("port 8000")
    supervisor.switch(ALPHA)
    while supervisor.state.outcome_of(1) is None:
        supervisor.step(0.05)
    machine.foreign_listener = None
    supervisor.switch(ALPHA)
    supervisor.until(Phase.SERVING)


def test_an_allowed_holder_of_memory_is_not_in_the_way() -> None:
    machine, supervisor = supervised()
    machine.foreign_memory = holder("90 MiB", "Xorg")
    supervisor.switch(ALPHA)
    supervisor.until(Phase.SERVING)
    assert machine.violations == []


def block(machine: Machine, what: str) -> None:
    match what:
        case "lock":
            machine.foreign_lock = holder("lock of the card")
        case "port":
            machine.foreign_listener = holder("port 8000")
        case "memory":
            machine.foreign_memory = holder("900 MiB")
        case "residue":
            machine.residue = True
        case _:
            machine.unreadable = {what.removeprefix("unknown ")}


WAYS = ["lock", "port", "memory", "residue", "unknown lock", "unknown port", "unknown card"]


@pytest.mark.parametrize("what", WAYS)
def test_a_switch_from_stopped_that_is_blocked_is_refused_with_the_reason(what: str) -> None:
    machine, supervisor = supervised()
    block(machine, what)
    number = supervisor.switch(ALPHA)
    supervisor.run(8.0)
    assert isinstance(number, int)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.returned_to) == (ExitCode.BLOCKED, "stopped")
    assert "alpha was refused: " in outcome.summary
    if not what.startswith(("unknown", "residue")):
        assert "pid 4242 (python3) of user guest holds" in outcome.summary
    assert (supervisor.state.phase, machine.spawns, supervisor.locks) == (Phase.STOPPED, [], frozenset())
    assert outcome.summary in supervisor.state.reason


@pytest.mark.parametrize("what", WAYS)
def test_a_standing_order_that_is_blocked_waits_and_goes_on_when_the_way_is_free(what: str) -> None:
    machine = Machine()
    block(machine, what)
    supervisor = standing(machine)
    supervisor.run(60.0)
    assert (supervisor.state.phase, machine.spawns) == (Phase.BLOCKED, [])
    machine.foreign_lock = machine.foreign_listener = machine.foreign_memory = None
    machine.residue, machine.unreadable = False, set()
    supervisor.until(Phase.SERVING, within=15.0)
    assert machine.violations == []


def test_waiting_for_a_holder_does_not_look_at_every_turn() -> None:
    machine = Machine()
    machine.foreign_memory = holder("900 MiB")
    supervisor = standing(machine)
    supervisor.until(Phase.BLOCKED)
    looks = sum(isinstance(action, Look) for _ in range(600) for action in supervisor.step(0.1).actions)
    assert 15 <= looks <= 40


def test_the_reason_for_being_blocked_follows_the_facts() -> None:
    machine = Machine()
    machine.foreign_memory = holder("900 MiB")
    supervisor = standing(machine)
    supervisor.until(Phase.BLOCKED)
    machine.foreign_memory, machine.foreign_listener = None, holder("port 8000")
    supervisor.run(5.0)
    assert "holds port 8000" in supervisor.state.reason


def test_a_blocked_switch_brings_back_what_served_before_and_says_why() -> None:
    machine, supervisor = serving()
    machine.requests = 0
    beta = launch("beta", allow_holders=())
    machine.foreign_memory = holder("90 MiB", "Xorg")
    number = supervisor.switch(beta)
    supervisor.until(Phase.STARTING)
    assert "back after order 2: beta was refused: pid 4242 (Xorg)" in supervisor.state.reason
    supervisor.until(Phase.SERVING)
    assert "beta was refused" in supervisor.state.reason
    assert isinstance(number, int)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.returned_to) == (ExitCode.BLOCKED, "alpha")
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "alpha"]


def test_a_blocked_switch_without_a_way_back_waits_where_it_is() -> None:
    machine, supervisor = serving()
    machine.requests = 0
    machine.foreign_memory = holder("90 MiB", "Xorg")
    number = supervisor.switch(launch("beta", allow_holders=()), rollback=False)
    supervisor.until(Phase.BLOCKED)
    assert isinstance(number, int)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.returned_to) == (ExitCode.BLOCKED, None)
    assert "beta: pid 4242 (Xorg)" in outcome.summary
    assert (supervisor.state.order.profile, supervisor.state.order.committed) == ("beta", True)
    supervisor.run(60.0)
    assert [profile for _, _, profile in machine.spawns] == ["alpha"], "what served before is not brought back"
    machine.foreign_memory = None
    supervisor.until(Phase.SERVING)
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta"]


def test_a_switch_without_a_way_back_that_cannot_be_resolved_any_more_is_latched() -> None:
    machine, supervisor = serving()
    number = supervisor.switch(launch("beta"), rollback=False)
    supervisor.until(Phase.CLEARING)
    supervisor.state = replace(supervisor.state, order=replace(supervisor.state.order, launch=None))
    supervisor.until(Phase.FAILED)
    assert isinstance(number, int)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.returned_to) == (ExitCode.INVALID, None)
    supervisor.run(60.0)
    assert len(machine.spawns) == 1


@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.CLEARING])
def test_a_blocked_switch_without_a_way_back_to_anything_that_ran_ends_stopped(phase: Phase) -> None:
    machine, supervisor = serving()
    supervisor.stop()
    supervisor.until(phase)
    machine.foreign_listener = holder("port 8000")
    number = supervisor.switch(launch("beta"), replaces=True, rollback=False)
    supervisor.until(Phase.STOPPED)
    assert isinstance(number, int)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert outcome.returned_to == "stopped"


def test_a_blocked_switch_does_not_unlatch_what_had_failed() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(dies_after=1.0, deterministic=True)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.FAILED)
    failure = supervisor.state.failure
    machine.foreign_listener = holder("port 8000")
    supervisor.switch(launch("beta"))
    supervisor.run(10.0)
    machine.foreign_listener = None
    supervisor.run(600.0, step=1.0)
    assert (supervisor.state.phase, supervisor.state.order.profile) == (Phase.FAILED, "alpha")
    assert supervisor.state.failure == failure
    assert len(machine.spawns) == 1
    assert supervisor.locks == frozenset(), "who is latched holds nothing"


def test_a_standing_order_that_cannot_be_resolved_fails_and_says_so() -> None:
    machine = Machine()
    machine.orders[1] = (Order(1, Goal.RUN, "gone", problem="there is no profile gone"), "committed")
    supervisor = Supervisor(machine)
    supervisor.run(5.0)
    assert (supervisor.state.phase, supervisor.state.reason) == (Phase.FAILED, "there is no profile gone")


def test_a_switch_that_cannot_be_resolved_after_a_crash_is_refused_and_the_standing_order_is_back() -> None:
    machine, supervisor = serving()
    supervisor.switch(launch("beta"))
    order, fate = machine.orders[2]
    machine.orders[2] = (replace(order, launch=None), fate)
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.SERVING)
    outcome = supervisor.state.outcome_of(2)
    assert outcome is not None
    assert outcome.exit_code is ExitCode.INVALID
    assert "profile beta cannot be resolved" in outcome.summary
    assert supervisor.state.order.profile == "alpha"


def test_at_rest_the_locks_go_back_and_also_where_nobody_can_tell() -> None:
    machine, supervisor = serving()
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    supervisor.step()
    assert supervisor.locks == frozenset()
    assert supervisor.step().actions == ()
    dark = replace(supervisor.world(), lock=Unknown("/proc/locks cannot be read", machine.now))
    assert decide(supervisor.state, dark).actions == (ReleaseLocks(),)


def test_a_standing_order_waits_while_its_profile_is_being_read() -> None:
    machine = Machine()
    machine.orders[1] = (Order(1, Goal.RUN, "alpha", resolving=True), "committed")
    supervisor = Supervisor(machine)
    supervisor.run(60.0)
    assert (supervisor.state.phase, supervisor.state.reason) == (Phase.STOPPED, "reading profile alpha")
    supervisor.state = replace(supervisor.state, order=Order(1, Goal.RUN, "alpha", ALPHA))
    supervisor.until(Phase.SERVING)


# -- starting ---------------------------------------------------------------------------------------------------------
def test_a_start_that_shows_progress_may_take_an_hour() -> None:
    _, supervisor = supervised(conduct={"alpha": Conduct(ready_after=3600.0)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.SERVING, within=3700.0, step=1.0)


def test_a_start_without_progress_is_stalled() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(ready_after=3600.0, silent=True)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.FAILED, within=120.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.START_STALLED
    assert machine.now - machine.spawns[0][0] > ALPHA.limits.start_stall


@pytest.mark.parametrize("conduct", [Conduct(no_record=True), Conduct(never_starts=True)])
def test_a_launch_of_which_nothing_comes_is_a_counted_failure(conduct: Conduct) -> None:
    machine, supervisor = serving(conduct={})
    machine.conduct["alpha"] = conduct
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.FAILED, within=3600.0, step=0.5)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.SPAWN_FAILED
    assert len(machine.spawns) == ALPHA.restart.per_hour + 1


def test_a_launch_of_which_nothing_comes_is_not_blamed_on_the_order_that_replaces_it() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(no_record=True)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    supervisor.switch(launch("beta"), replaces=True)
    supervisor.until(Phase.SERVING)
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta"]


def test_a_stop_while_the_launch_is_being_written_down_waits_for_what_comes_of_it() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(keeper_after=3.0, main_after=4.0)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    supervisor.stop()
    supervisor.run(2.0)
    assert supervisor.state.phase is Phase.STOPPING, "nothing is forgotten that may still come up"
    supervisor.until(Phase.STOPPED)
    assert (machine.processes, machine.violations) == ({}, [])


def test_a_stop_does_not_wait_for_a_launch_of_which_there_is_no_record() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(no_record=True)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    supervisor.stop()
    supervisor.until(Phase.STOPPED, within=2.0)
    assert (supervisor.state.failures, len(machine.spawns)) == ((), 1)


def test_somebody_else_on_the_port_is_named() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(ready_after=30.0)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    machine.foreign_listener = Holder(77, "ollama", "guest", "port 8000")
    supervisor.until(Phase.FAILED)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.WRONG_LISTENER
    assert "pid 77 (ollama)" in supervisor.state.failure.summary


def test_a_stranger_that_shares_the_port_with_ours_is_refused_too() -> None:
    machine, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    machine.advance(4.0)
    assert machine.listening
    machine.foreign_listener = holder("port 8000")
    supervisor.until(Phase.FAILED)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.WRONG_LISTENER


def test_http_answers_but_nobody_can_tell_who_listens() -> None:
    machine, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    machine.unreadable = {"port"}
    supervisor.run(10.0)
    assert supervisor.state.phase is Phase.STARTING
    assert "/proc/net/tcp cannot be read" in supervisor.state.reason
    supervisor.until(Phase.STOPPING, within=ALPHA.limits.probe + 5.0)
    assert supervisor.state.failure is not None
    assert "nobody could tell who listens" in supervisor.state.failure.summary


def test_http_answers_but_nobody_is_seen_to_listen() -> None:
    machine, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    machine.advance(4.0)
    unseen = Known(Port((), ours=False, bindable=True), machine.now)
    decision = decide(supervisor.state, replace(supervisor.world(), port=unseen))
    assert decision.actions == (Look(),)
    assert "nobody is seen to listen on port 8000" in decision.state.reason


# -- checking ---------------------------------------------------------------------------------------------------------
def checking(conduct: Conduct) -> tuple[Machine, Supervisor]:
    machine, supervisor = supervised(conduct={"alpha": conduct})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.CHECKING)
    return machine, supervisor


def test_a_wrong_identity_is_named_and_not_tried_again() -> None:
    machine, supervisor = checking(Conduct(models=("another",)))
    supervisor.until(Phase.FAILED)
    assert supervisor.state.failure is not None
    assert "serves another, not alpha-model" in supervisor.state.failure.summary
    assert supervisor.state.failure.deterministic
    assert len(machine.spawns) == 1


def test_an_empty_list_of_models_is_no_wrong_identity_but_may_not_last() -> None:
    _, supervisor = checking(Conduct(models=()))
    supervisor.until(Phase.STOPPING, within=30.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.summary == (
        "for 20 s the server did not say which model it serves: it lists no model"
    )
    assert not supervisor.state.failure.deterministic


def test_a_start_whose_models_cannot_be_read_does_not_last_for_ever() -> None:
    machine, supervisor = supervised()
    machine.unlisted = True
    supervisor.switch(ALPHA)
    supervisor.until(Phase.CHECKING)
    supervisor.run(1.0)
    assert "waiting to be told which model it serves (it refuses our API key)" in supervisor.state.reason
    supervisor.until(Phase.FAILED, within=ALPHA.limits.probe + 10.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.WRONG_IDENTITY
    assert "it refuses our API key" in supervisor.state.failure.summary


def test_what_is_waited_for_in_checking_is_said_though_nothing_was_read() -> None:
    machine, supervisor = checking(Conduct(answer=AnswerState.WAITING))
    dark = replace(supervisor.world(), server=Unknown("no answer within 2 s", machine.now))
    assert "(no answer within 2 s)" in decide(supervisor.state, dark).state.reason
    old = replace(dark, server=Known(Server(healthy=True, models=()), supervisor.state.since - 1.0))
    assert "(it was not asked again yet)" in decide(supervisor.state, old).state.reason


def test_a_server_that_is_unwell_for_a_moment_is_not_misjudged() -> None:
    machine, supervisor = checking(Conduct())
    machine.unhealthy = True
    supervisor.run(5.0)
    assert supervisor.state.phase is Phase.CHECKING
    assert "it calls itself unhealthy" in supervisor.state.reason
    machine.unhealthy = False
    supervisor.until(Phase.SERVING)


@pytest.mark.parametrize("answer", [AnswerState.WRONG, AnswerState.LATE, AnswerState.NOT_ASKED, AnswerState.WAITING])
def test_a_first_answer_that_is_not_right_fails_the_start(answer: AnswerState) -> None:
    _, supervisor = checking(Conduct(answer=answer))
    supervisor.until(Phase.FAILED, within=60.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.WRONG_ANSWER


def test_an_answer_for_another_launch_is_no_answer() -> None:
    machine, supervisor = checking(Conduct(answer=AnswerState.WAITING))
    supervisor.run(1.0)
    foreign = replace(supervisor.world(), answer=Answer("another", AnswerState.RIGHT))
    assert decide(supervisor.state, foreign).state.phase is Phase.CHECKING
    assert decide(supervisor.state, replace(foreign, answer=None)).state.phase is Phase.CHECKING
    assert machine.violations == []


def test_where_no_first_answer_is_asked_for_the_identity_is_enough() -> None:
    _, supervisor = supervised()
    supervisor.switch(launch("alpha", checks=Checks(first_answer=False)))
    supervisor.until(Phase.SERVING)
    assert supervisor.answer is None


@pytest.mark.parametrize("plain", ["target-only", None])
@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.CHECKING])
def test_a_backend_that_dies_on_the_way_up_fails_the_switch_with_its_diagnosis(phase: Phase, plain: str | None) -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(points_at_draft=True, orphans=True)})
    supervisor.switch(launch("alpha", speculates=True, without_draft=plain))
    supervisor.until(phase)
    supervisor.run(0.3)
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.FAILED)
    outcome = supervisor.state.outcome_of(1)
    assert outcome is not None
    assert outcome.exit_code is ExitCode.BACKEND_FAILED
    assert outcome.evidence
    assert ("`arcops switch target-only`" in outcome.hint) == (plain is not None)
    assert machine.processes == {}


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.CHECKING])
def test_an_order_takes_a_backend_down_on_its_way_up(phase: Phase) -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(answer=AnswerState.WAITING)})
    supervisor.switch(ALPHA)
    supervisor.until(phase)
    assert isinstance(supervisor.switch(launch("beta"), replaces=True), int)
    supervisor.until(Phase.SERVING)
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta"]
    first = supervisor.state.outcome_of(1)
    assert first is not None
    assert (first.superseded, first.summary) == (True, "overtaken by the order to run beta")


def test_a_record_that_goes_away_is_a_failure_and_not_a_free_launch() -> None:
    machine, supervisor = checking(Conduct(answer=AnswerState.WAITING))
    machine.record = None
    supervisor.run(10.0)
    assert supervisor.state.phase is Phase.FAILED
    assert len(machine.spawns) == 1


# -- adoption ---------------------------------------------------------------------------------------------------------
def test_a_proven_backend_is_adopted_without_a_first_answer_and_without_a_signal() -> None:
    machine, supervisor = serving()
    supervisor = reborn(machine, supervisor)
    asked = False
    while supervisor.state.phase is not Phase.SERVING:
        asked = asked or any(isinstance(action, Ask) for action in supervisor.step().actions)
    assert (asked, machine.signals, len(machine.spawns)) == (False, [], 1)
    assert "adopted launch L1" in supervisor.state.reason


@pytest.mark.parametrize(
    ("models", "unlisted", "says"),
    [
        (None, True, "(but which model cannot be checked: it refuses our API key)"),
        (("another",), False, "(but lists another, not alpha-model)"),
        ((), False, "(but lists no model, not alpha-model)"),
    ],
)
def test_a_proven_backend_is_adopted_whatever_its_list_of_models_says(
    models: tuple[str, ...] | None, unlisted: bool, says: str
) -> None:
    machine, supervisor = serving()
    machine.unlisted = unlisted
    assert machine.record is not None
    machine.record.conduct = replace(machine.record.conduct, models=models)
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.SERVING, within=5.0)
    assert (machine.signals, len(machine.spawns)) == ([], 1)
    assert supervisor.state.reason == f"adopted launch L1, which serves {says}"


def test_an_adopted_backend_that_has_served_and_answers_nothing_is_given_what_one_that_serves_has() -> None:
    machine, supervisor = serving()
    machine.unreadable.add("server")
    supervisor = reborn(machine, supervisor)
    limit = ALPHA.limits.stall_after + ALPHA.limits.probe
    assert limit < ALPHA.limits.start_stall
    supervisor.run(limit - 10.0)
    assert supervisor.state.phase is Phase.STARTING
    assert supervisor.state.reason == "launch L1 has served before; waiting for HTTP to answer"
    assert machine.signals == []
    supervisor.until(Phase.STOPPING, within=20.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.HANG
    machine.unreadable.clear()
    supervisor.until(Phase.SERVING)
    assert len(machine.spawns) == 2


def test_an_adopted_backend_that_answers_again_in_time_is_kept() -> None:
    machine, supervisor = serving()
    machine.unreadable.add("server")
    supervisor = reborn(machine, supervisor)
    supervisor.run(ALPHA.limits.stall_after)
    machine.unreadable.clear()
    supervisor.until(Phase.SERVING, within=5.0)
    assert (machine.signals, len(machine.spawns)) == ([], 1)


def test_a_backend_is_adopted_though_its_profile_is_gone_and_started_again_as_it_was() -> None:
    machine, supervisor = serving()
    machine.orders[1] = (replace(machine.orders[1][0], launch=None, problem="profile alpha is gone"), "committed")
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.SERVING)
    assert supervisor.state.order.launch == ALPHA
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)


def test_a_half_started_backend_is_adopted_and_asked() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(ready_after=10.0)})
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    supervisor.run(2.0)
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.SERVING)
    assert len(machine.spawns) == 1
    outcome = supervisor.state.outcome_of(1)
    assert outcome is not None
    assert outcome.exit_code is ExitCode.DONE


def test_a_dead_backend_is_found_dead_and_the_policy_goes_on() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(orphans=True)})
    supervisor.die()
    machine.end(machine.of("L1", "main")[0])
    machine.advance(5.0)
    supervisor = Supervisor(machine)
    supervisor.until(Phase.BACKOFF)
    assert any("found dead: alpha ended with exit code 1" in reason for _, reason in supervisor.trail)
    supervisor.until(Phase.SERVING)


def test_an_unwanted_backend_that_serves_is_drained_first() -> None:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop()
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.DRAINING)
    machine.requests = 0
    supervisor.until(Phase.STOPPED)
    assert machine.violations == []


def test_a_supervisor_that_died_between_record_and_process_leaves_nothing_behind() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(keeper_after=5.0, main_after=6.0)})
    supervisor.switch(ALPHA)
    while not machine.spawns:
        supervisor.step(0.02)
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.SERVING, within=60.0)
    assert (len(machine.spawns), machine.violations) == (1, [])


def test_a_launch_that_was_written_down_and_never_came_is_forgotten_in_the_end() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(never_starts=True)})
    supervisor.switch(ALPHA)
    while not machine.spawns:
        supervisor.step(0.02)
    machine.conduct.clear()
    supervisor = reborn(machine, supervisor)
    supervisor.run(KEEPER_SILENT - 2.0)
    assert "was being started" in supervisor.state.reason
    supervisor.until(Phase.SERVING)
    assert len(machine.spawns) == 2


def test_state_and_order_are_enough_to_find_everything_again_at_every_step_of_a_switch() -> None:
    for steps in range(0, 120, 3):
        machine, supervisor = serving()
        machine.requests = 0
        supervisor.switch(launch("beta"))
        for _ in range(steps):
            supervisor.step()
        supervisor = reborn(machine, supervisor)
        supervisor.until(Phase.SERVING, within=120.0)
        supervisor.run(30.0)
        assert (supervisor.state.phase, supervisor.state.order.profile) == (Phase.SERVING, "beta")
        assert machine.violations == []
        assert len(machine.spawns) == 2


def test_a_state_without_any_order_rests() -> None:
    _, supervisor = supervised()
    assert decide(State(), supervisor.world()).state.phase is Phase.STOPPED
