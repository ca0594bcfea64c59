"""The way down: drain, SIGTERM, SIGKILL, clear, stuck; then back, again, on, or rest."""

from dataclasses import replace
from itertools import pairwise

import pytest

from arcops.core.action import Forget, KillEveryone, Look, Target, Terminate
from arcops.core.admit import Refusal
from arcops.core.decide import decide, falling
from arcops.core.decide.falling import DIAGNOSIS_PATIENCE, KILL_PATIENCE, LAST_WORDS, TERM_AGAIN
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, Outcome, Stopping
from arcops.core.world import Backend, Card, Port
from tests.core.simulated import Conduct, Machine, holder, launch
from tests.core.supervised import Supervisor, serving, supervised

LIMITS = launch().limits


def outcome(supervisor: Supervisor, number: int) -> Outcome:
    found = supervisor.state.outcome_of(number)
    assert found is not None
    return found


# -- draining ---------------------------------------------------------------------------------------------------------
def test_an_idle_backend_is_not_waited_for() -> None:
    machine, supervisor = serving()
    supervisor.stop()
    supervisor.until(Phase.STOPPING, within=0.3)
    supervisor.until(Phase.STOPPED, within=5.0)
    assert machine.processes == {}


def test_a_request_that_came_since_the_last_scrape_is_drained_too() -> None:
    _, supervisor = serving()
    supervisor.stop()
    world = supervisor.world()
    old = replace(world, requests=Known(0, world.now - 0.9))
    drained = decide(supervisor.state, old)
    assert drained.state.phase is Phase.DRAINING
    assert decide(drained.state, old).state.phase is Phase.DRAINING
    one_more = replace(old, requests=Known(1, world.now))
    assert decide(drained.state, one_more).state.phase is Phase.DRAINING
    assert decide(drained.state, replace(old, requests=Known(0, world.now))).state.phase is Phase.STOPPING


def test_a_drain_ends_as_soon_as_no_request_is_open() -> None:
    machine, supervisor = serving()
    machine.requests = 2
    supervisor.stop()
    supervisor.run(3.0)
    assert supervisor.state.phase is Phase.DRAINING
    machine.requests = 0
    supervisor.run(0.5)
    assert supervisor.trail[-1] == (Phase.STOPPING, "drained: no request is open")


def test_a_drain_ends_when_its_time_is_up_and_the_rest_is_left_to_vllm() -> None:
    machine, supervisor = serving()
    machine.requests = 2
    supervisor.stop()
    supervisor.until(Phase.DRAINING)
    began = machine.now
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(LIMITS.drain - LIMITS.shutdown_timeout, abs=0.3)
    assert supervisor.state.reason == "drain time is up; 2 open requests get 5 s more"


def test_a_drain_where_nobody_can_count_takes_its_full_time() -> None:
    machine, supervisor = serving()
    machine.unreadable = {"requests"}
    supervisor.stop()
    supervisor.until(Phase.STOPPING, within=LIMITS.drain)
    assert "an unknown number of open requests" in supervisor.state.reason


def test_a_count_from_before_the_drain_does_not_end_it() -> None:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop()
    supervisor.until(Phase.DRAINING)
    old = replace(supervisor.world(), requests=Known(0, supervisor.state.since - 0.5))
    assert decide(supervisor.state, old).state.phase is Phase.DRAINING


def test_a_second_order_without_drain_cuts_a_drain_short() -> None:
    machine, supervisor = serving()
    machine.requests = 2
    supervisor.stop(drain=600.0)
    supervisor.run(60.0)
    assert supervisor.state.phase is Phase.DRAINING
    supervisor.stop(drain=0.0)
    supervisor.until(Phase.STOPPED, within=5.0)
    assert (outcome(supervisor, 2).superseded, outcome(supervisor, 3).exit_code) == (True, ExitCode.DONE)
    assert outcome(supervisor, 2).summary == "overtaken by the order to stop"


def test_a_backend_that_ends_while_it_drains_is_no_failure() -> None:
    machine, supervisor = serving()
    machine.requests = 2
    supervisor.stop()
    supervisor.until(Phase.DRAINING)
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.STOPPED)
    assert (supervisor.state.failures, outcome(supervisor, 2).exit_code) == ((), ExitCode.DONE)


# -- stopping ---------------------------------------------------------------------------------------------------------
def actions_of(supervisor: Supervisor, kinds: tuple[type, ...], seconds: float) -> list[tuple[float, object]]:
    """Seconds since now, and the action, for the actions of these kinds."""
    began = supervisor.machine.now
    found: list[tuple[float, object]] = []
    while supervisor.machine.now < began + seconds and supervisor.state.phase is not Phase.STUCK:
        at = round(supervisor.machine.now - began, 1)
        found += [(at, action) for action in supervisor.step().actions if isinstance(action, kinds)]
    return found


def test_sigterm_is_repeated_and_sigkill_comes_last_and_is_repeated_too() -> None:
    _, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    supervisor.stop()
    supervisor.until(Phase.STOPPING, within=1.0)
    signals = actions_of(supervisor, (Terminate, KillEveryone), 60.0)
    terms = [at for at, action in signals if isinstance(action, Terminate)]
    kills = [at for at, action in signals if isinstance(action, KillEveryone)]
    assert terms[0] == 0.0
    assert all(late - early == pytest.approx(TERM_AGAIN, abs=0.15) for early, late in pairwise(terms))
    assert all(action == Terminate(Target.MAIN) for _, action in signals if isinstance(action, Terminate))
    assert kills[0] == pytest.approx(LIMITS.shutdown_timeout + LIMITS.stop_grace, abs=0.3)
    assert len(kills) == pytest.approx(KILL_PATIENCE / TERM_AGAIN, abs=1)
    assert supervisor.state.phase is Phase.STUCK


def test_a_deaf_backend_is_killed_after_the_grace() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(deaf=True)})
    supervisor.stop()
    supervisor.until(Phase.STOPPED, within=40.0)
    assert "KILL" in [what for _, _, what in machine.signals]
    assert machine.processes == {}


def test_an_api_server_whose_engine_has_ended_has_a_few_seconds_for_its_last_words() -> None:
    _, supervisor = serving(conduct={"alpha": Conduct(clings=True)})
    supervisor.stop()
    supervisor.until(Phase.STOPPING, within=1.0)
    kills = [at for at, _ in actions_of(supervisor, (KillEveryone,), 20.0)]
    assert kills[0] == pytest.approx(LAST_WORDS, abs=1.0)
    assert supervisor.state.phase is Phase.STOPPED


def test_a_forced_end_is_told_with_its_reason() -> None:
    for conduct, why in (
        (Conduct(clings=True), "its API server was still there 5 s after its engine had ended"),
        (Conduct(deaf=True), "it had not ended within"),
    ):
        _, supervisor = serving(conduct={"alpha": conduct})
        supervisor.stop()
        supervisor.until(Phase.CLEARING, within=40.0)
        assert f"; killed: {why}" in supervisor.state.reason
        assert supervisor.state.reason.count("killed") == 1


def test_what_was_killed_once_is_not_asked_to_end_again_whatever_turns_up() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(clings=True, immortal=True)})
    supervisor.stop()
    supervisor.until(Phase.STOPPING, within=1.0)
    supervisor.state = replace(
        supervisor.state, stopping=Stopping(began=machine.now, ran=True, last_term=machine.now, killed_at=machine.now)
    )
    # The engine that lives is known: no API server is alone.
    assert [action for _, action in actions_of(supervisor, (Terminate,), 8.0)] == []


def backend_of(engines: int | None, *, proven: bool = True) -> Backend:
    machine, _ = serving()
    found = machine.backend()
    assert found is not None
    return replace(found, stopping=True, engines=engines, proven=proven)


def test_a_launch_that_never_served_has_its_whole_grace() -> None:
    """Its workers may be on the card already under another name."""
    stopping = falling.watched(Stopping(began=0.0), backend_of(engines=1, proven=False), 0.1)
    assert falling.watched(stopping, backend_of(engines=0, proven=False), 1.0) == Stopping(began=0.0)


def test_an_engine_that_was_never_seen_or_cannot_be_counted_shortens_no_grace() -> None:
    for seen in (0, None):
        stopping = Stopping(began=0.0)
        for now in (0.1, LAST_WORDS + 1.0):
            stopping = falling.watched(stopping, backend_of(engines=seen), now)
            assert stopping == Stopping(began=0.0)
    ran = falling.watched(Stopping(began=0.0), backend_of(engines=2), 0.1)
    assert falling.watched(ran, backend_of(engines=None), 9.0) == ran
    missed = falling.watched(ran, backend_of(engines=0), 1.0)
    assert falling.watched(missed, backend_of(engines=0), 2.0).engineless_since == 1.0
    assert falling.watched(missed, backend_of(engines=1), 2.0).engineless_since is None


def test_what_outlives_the_main_process_is_told_at_once_and_again() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(orphans=True, deaf=True)})
    machine.end(machine.of("L1", "main")[0])
    supervisor.step()
    signals = actions_of(supervisor, (Terminate,), 5.0)
    assert [at for at, _ in signals] == pytest.approx([0.0, 2.0, 4.0], abs=0.3)
    assert all(action == Terminate(Target.EVERYONE) for _, action in signals)


def test_when_the_main_process_ends_the_others_are_told_without_waiting() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(orphans=True)})
    supervisor.stop()
    supervisor.run(0.7)
    assert [what for _, _, what in machine.signals] == ["TERM main", "TERM everyone"]


def test_a_stop_from_every_phase_on_the_way_ends_in_stopped() -> None:
    for steps in range(0, 60, 2):
        machine, supervisor = supervised(conduct={"alpha": Conduct(orphans=steps % 4 == 0)})
        supervisor.switch(launch())
        for _ in range(steps):
            supervisor.step()
        supervisor.stop()
        supervisor.step()
        supervisor.until(Phase.STOPPED, within=60.0)
        supervisor.step()
        assert outcome(supervisor, 2).exit_code is ExitCode.DONE
        assert (machine.processes, machine.violations, supervisor.locks) == ({}, [], frozenset())


# -- clearing ---------------------------------------------------------------------------------------------------------
def clearing(**conduct: object) -> tuple[Machine, Supervisor]:
    behaviour = replace(Conduct(lingers=5.0), **conduct)  # pyright: ignore[reportArgumentType] - names are Conduct's own
    machine, supervisor = serving(conduct={"alpha": behaviour})
    supervisor.stop()
    supervisor.until(Phase.CLEARING)
    return machine, supervisor


def test_stopped_is_not_said_before_port_and_card_were_seen_clear() -> None:
    machine, supervisor = clearing()
    began = machine.now
    kinds = {type(action) for _ in range(20) for action in supervisor.step().actions}
    assert kinds == {Look}
    supervisor.until(Phase.STOPPED)
    assert machine.now - began >= 4.5


def test_what_a_foreigner_holds_is_no_residue_of_ours() -> None:
    machine, supervisor = clearing(lingers=0.0)
    machine.foreign_listener = holder("port 8000")
    supervisor.until(Phase.STOPPED, within=5.0)


def test_a_late_process_is_ended_like_any_other() -> None:
    machine, supervisor = clearing(deaf=True, lingers=60.0)
    machine.start("stray", "L1", ("/card/0",))
    supervisor.step()
    assert supervisor.state.phase is Phase.STOPPING
    supervisor.until(Phase.CLEARING, within=60.0)
    assert machine.processes == {}


@pytest.mark.parametrize(
    ("dark", "says"),
    [
        ("residue", "port 8000 is still held"),
        ("port", "/proc/net/tcp cannot be read"),
        ("card", "fdinfo cannot be read"),
        ("looks", "nobody could look"),
    ],
)
def test_what_does_not_clear_in_time_is_stuck_and_named_and_goes_on_when_it_has_cleared(dark: str, says: str) -> None:
    machine, supervisor = clearing(lingers=0.0)
    if dark == "residue":
        machine.residue = True
    elif dark == "looks":
        supervisor.look_delay = 1e6
    else:
        machine.unreadable = {dark}
    supervisor.until(Phase.STUCK, within=LIMITS.clear + 2.0)
    assert says in supervisor.state.reason
    assert outcome(supervisor, 2).exit_code is ExitCode.FAILED
    assert says in outcome(supervisor, 2).summary
    if dark == "looks":
        return
    supervisor.run(120.0)
    assert supervisor.state.phase is Phase.STUCK, "it does not flap"
    assert says in supervisor.state.reason
    machine.residue, machine.unreadable = False, set()
    supervisor.until(Phase.STOPPED, within=10.0)
    assert [one.order_id for one in supervisor.state.settled].count(2) == 1


def test_a_record_that_cannot_be_removed_is_stuck_and_named() -> None:
    machine, supervisor = clearing(lingers=0.0)
    supervisor.run(1.0)
    machine.record = None
    state = replace(supervisor.state, phase=Phase.CLEARING, since=machine.now - LIMITS.clear - 1.0)
    backend = serving()[0].backend()
    assert backend is not None
    gone = replace(backend, main_alive=False, keeper_alive=False, processes=(), exit_code=0)
    port, card = Known(Port((), ours=False, bindable=True), machine.now), Known(Card(), machine.now)
    clear = replace(supervisor.world(), backend=gone, port=port, card=card)
    decision = decide(state, clear)
    assert decision.state.phase is Phase.STUCK
    assert "the launch record cannot be removed" in decision.state.reason
    later = decide(decision.state, clear)
    assert (later.state.phase, later.actions) == (Phase.STUCK, (Forget(),))
    assert decide(later.state, replace(clear, backend=None)).state.phase is Phase.CLEARING


def test_being_stuck_does_not_look_at_every_turn() -> None:
    machine, supervisor = clearing(lingers=0.0)
    machine.residue = True
    supervisor.until(Phase.STUCK)
    looks = sum(isinstance(action, Look) for _ in range(600) for action in supervisor.step().actions)
    assert 10 <= looks <= 40


# -- stuck ------------------------------------------------------------------------------------------------------------
def test_a_stop_that_gets_stuck_says_which_process_and_is_tried_again_on_a_new_order() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    pid = machine.of("L1", "engine")[0]
    supervisor.stop()
    supervisor.until(Phase.STUCK)
    told = outcome(supervisor, 2)
    assert (told.exit_code, str(pid) in told.summary) == (ExitCode.FAILED, True)
    supervisor.run(60.0)
    assert supervisor.state.phase is Phase.STUCK
    supervisor.stop()
    supervisor.run(1.0)
    assert supervisor.state.phase is Phase.STOPPING
    supervisor.until(Phase.STUCK)
    machine.let_go()
    supervisor.until(Phase.STOPPED)
    assert outcome(supervisor, 3).exit_code is ExitCode.FAILED


def test_a_keeper_that_alone_is_left_is_named_so() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    supervisor.stop()
    supervisor.step()
    for role in ("main", "engine"):
        machine.processes.pop(machine.of("L1", role)[0])
    supervisor.until(Phase.STUCK)
    assert "the keeper outlived SIGKILL" in supervisor.state.reason


def test_a_switch_that_gets_stuck_is_told_so_and_goes_on_when_the_process_has_gone() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STUCK)
    assert outcome(supervisor, 2).exit_code is ExitCode.FAILED
    assert "outlived SIGKILL" in outcome(supervisor, 2).summary
    machine.let_go()
    supervisor.until(Phase.SERVING)
    assert (supervisor.state.order.profile, supervisor.state.order.committed) == ("beta", True)


def test_what_comes_after_a_stop_waits_until_the_ordered_profile_has_been_read() -> None:
    machine, supervisor = serving()
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.CLEARING)
    read = supervisor.state.order
    supervisor.state = replace(supervisor.state, order=replace(read, launch=None, resolving=True))
    supervisor.run(30.0)
    assert supervisor.state.phase is Phase.CLEARING
    supervisor.state = replace(
        supervisor.state, order=replace(supervisor.state.order, launch=read.launch, resolving=False)
    )
    supervisor.until(Phase.SERVING)
    assert machine.violations == []


# -- afterwards -------------------------------------------------------------------------------------------------------
def test_a_switch_serves_and_is_committed() -> None:
    machine, supervisor = serving()
    machine.requests = 0
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    assert outcome(supervisor, 2).exit_code is ExitCode.DONE
    assert (supervisor.state.order.committed, supervisor.state.order.previous) == (True, None)
    assert machine.violations == []


def test_a_switch_that_fails_goes_back_and_the_reason_stays_visible() -> None:
    machine, supervisor = serving(conduct={"beta": Conduct(dies_after=1.0, deterministic=True)})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    told = outcome(supervisor, 2)
    assert (told.exit_code, told.returned_to) == (ExitCode.BACKEND_FAILED, "alpha")
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta", "alpha"]
    assert told.summary in supervisor.state.reason
    assert supervisor.state.failure is None


def test_a_switch_without_rollback_that_fails_stays_failed() -> None:
    machine, supervisor = serving(conduct={"beta": Conduct(dies_after=1.0)})
    supervisor.switch(launch("beta"), rollback=False)
    supervisor.until(Phase.FAILED)
    supervisor.run(3600.0, step=10.0)
    assert (outcome(supervisor, 2).returned_to, len(machine.spawns)) == (None, 2)
    assert (supervisor.state.phase, supervisor.state.order.profile) == (Phase.FAILED, "beta")


def test_the_first_switch_that_fails_has_nothing_to_go_back_to() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(dies_after=1.0)})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    assert outcome(supervisor, 1).exit_code is ExitCode.BACKEND_FAILED
    assert (supervisor.state.order.committed, len(machine.spawns)) == (True, 1)
    assert supervisor.locks or supervisor.step()


def test_a_restart_that_fails_for_good_is_not_tried_again_in_the_name_of_rollback() -> None:
    machine, supervisor = serving()
    machine.conduct["alpha"] = Conduct(dies_after=1.0, deterministic=True)
    supervisor.restart()
    supervisor.until(Phase.FAILED)
    assert len(machine.spawns) == 2
    assert outcome(supervisor, 2).exit_code is ExitCode.BACKEND_FAILED


def test_a_restart_that_fails_by_chance_leaves_the_standing_order_to_its_policy() -> None:
    machine, supervisor = serving()
    machine.conduct["alpha"] = Conduct(dies_after=1.0)
    supervisor.restart()
    supervisor.until(Phase.BACKOFF)
    machine.conduct.clear()
    supervisor.until(Phase.SERVING)
    assert outcome(supervisor, 2).returned_to == "alpha"


def test_failures_by_chance_are_tried_again_ever_later_and_then_latched() -> None:
    machine, supervisor = serving()
    machine.conduct["alpha"] = Conduct(dies_after=1.0)
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.FAILED, within=3600.0)
    gaps = [late - early for (early, _, _), (late, _, _) in pairwise(machine.spawns[1:])]
    assert gaps == sorted(gaps)
    assert len(machine.spawns) == launch().restart.per_hour + 1
    assert "the limit is 6" in supervisor.state.reason
    supervisor.run(2 * 3600.0, step=10.0)
    assert supervisor.state.phase is Phase.FAILED
    machine.conduct.clear()
    assert isinstance(supervisor.restart(), int)
    supervisor.until(Phase.SERVING)
    assert (supervisor.state.failures, supervisor.state.failure) == ((), None)


def test_failures_of_long_ago_do_not_count() -> None:
    machine, supervisor = serving()
    for _ in range(20):
        machine.end(machine.of(machine.spawns[-1][1], "main")[0])
        supervisor.until(Phase.BACKOFF)
        supervisor.until(Phase.SERVING)
        supervisor.run(1200.0, step=10.0)
    assert len(supervisor.state.failures) <= 3


def test_a_deterministic_failure_is_not_tried_again() -> None:
    machine, supervisor = serving()
    machine.conduct["alpha"] = Conduct(dies_after=1.0, deterministic=True)
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.FAILED)
    assert len(machine.spawns) == 2
    assert "the same launch would fail again" in supervisor.state.reason


@pytest.mark.parametrize("late", [0.5, DIAGNOSIS_PATIENCE - 1.0])
def test_a_diagnosis_that_comes_late_takes_the_place_of_the_makeshift_one(late: float) -> None:
    behaviour = Conduct(dies_after=1.0, deterministic=True, ending_after=late, lingers=0.0)
    machine, supervisor = supervised(conduct={"alpha": behaviour})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    assert outcome(supervisor, 1).summary == "alpha: alpha ended with exit code 1"
    assert machine.violations == []


def test_a_diagnosis_that_never_comes_is_not_waited_for_for_ever() -> None:
    _, supervisor = supervised(conduct={"alpha": Conduct(dies_after=1.0, ending_after=1e6)})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED, within=30.0)
    assert "its log could not be read" in outcome(supervisor, 1).summary


def test_an_order_that_runs_is_refused_to_be_cut_across_but_may_be_replaced() -> None:
    machine, supervisor = serving(conduct={"beta": Conduct(ready_after=60.0)})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STARTING)
    assert isinstance(supervisor.switch(launch("gamma")), Refusal)
    assert isinstance(supervisor.switch(launch("gamma"), replaces=True), int)
    supervisor.until(Phase.SERVING)
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta", "gamma"]
    assert outcome(supervisor, 2).superseded


def test_what_replaces_a_switch_goes_back_to_what_served_before_both() -> None:
    _, supervisor = serving(conduct={"gamma": Conduct(dies_after=1.0)})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STARTING)
    supervisor.switch(launch("gamma"), replaces=True)
    supervisor.until(Phase.CLEARING)
    supervisor.until(Phase.SERVING)
    assert supervisor.state.order.profile == "alpha"
    assert outcome(supervisor, 3).returned_to == "alpha"


def test_a_stop_that_is_overtaken_by_a_refused_switch_still_stops() -> None:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop()
    supervisor.until(Phase.DRAINING)
    supervisor.switch(launch("beta"), replaces=True)
    machine.foreign_memory, machine.requests = holder("900 MiB"), 0
    supervisor.until(Phase.STOPPED)
    assert (supervisor.state.order.goal, supervisor.state.order.committed) == (Goal.STOP, True)
    assert outcome(supervisor, 3).returned_to == "stopped"
    supervisor.die()
    supervisor = Supervisor(machine)
    machine.foreign_memory = None
    supervisor.run(30.0)
    assert len(machine.spawns) == 1, "also after a crash nothing comes back that was stopped"


def test_a_failed_order_whose_launch_is_gone_stays_failed() -> None:
    machine, supervisor = serving()
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.STOPPING)
    unresolved = replace(supervisor.state.order, launch=None, problem="profile alpha is gone")
    supervisor.state = replace(supervisor.state, order=unresolved)
    supervisor.until(Phase.FAILED)
    assert supervisor.state.reason == "profile alpha is gone"


def test_the_latch_holds_where_a_leftover_has_to_be_ended() -> None:
    machine, supervisor = supervised()
    machine.orders[1] = (replace(supervisor.state.order, id=1, goal=Goal.RUN, profile="gone"), "committed")
    supervisor.die()
    supervisor = Supervisor(machine)
    supervisor.until(Phase.FAILED)
    other, _ = serving()
    leftover = replace(supervisor.world(), backend=other.backend(), card=Unknown("-", 0.0))
    decision = decide(supervisor.state, leftover)
    assert (decision.state.phase, decision.state.failure) == (Phase.STOPPING, None)
