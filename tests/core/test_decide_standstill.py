"""A machine, or its supervisor, that stood still: that is no silence of the backend's, and nothing lasts for ever."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcops.core.action import Ask
from arcops.core.decide import decide
from arcops.core.decide.moves import KEEPER_SILENT
from arcops.core.decide.standstill import ASKED_FOR, COUNTED, STOOD_STILL
from arcops.core.launch import Checks
from arcops.core.phase import Phase
from arcops.core.state import State
from arcops.core.world import AnswerState, Cause
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor, serving, supervised

ALPHA = launch("alpha")
LIMITS = ALPHA.limits
LONG = 600.0
"""Seconds, longer than every limit."""
SEVERAL = 8
"""Looks that each find a standstill; by far more than a hang survives at one a second."""


def rising(conduct: Conduct, phase: Phase) -> tuple[Machine, Supervisor]:
    machine, supervisor = supervised(conduct={"alpha": conduct})
    supervisor.switch(ALPHA)
    supervisor.until(phase)
    return machine, supervisor


def serves_after_all(machine: Machine, supervisor: Supervisor) -> None:
    supervisor.until(Phase.SERVING, within=LIMITS.start_stall + 60.0)
    assert (len(machine.spawns), machine.signals, supervisor.state.failures) == (1, [], ())


# -- the way up -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seconds", [40.0, LONG])
@pytest.mark.parametrize("before", [0.05, 5.0, 40.0], ids=["at once", "early", "late"])
def test_a_silent_start_is_not_stalled_by_a_machine_that_stood_still(seconds: float, before: float) -> None:
    machine, supervisor = rising(Conduct(ready_after=50.0, silent=True), Phase.STARTING)
    supervisor.run(before)
    supervisor.stand_still(seconds)
    serves_after_all(machine, supervisor)


def test_the_silence_of_a_start_from_before_and_after_a_standstill_adds_up() -> None:
    machine, supervisor = rising(Conduct(ready_after=1e9, silent=True), Phase.STARTING)
    supervisor.run(LIMITS.start_stall - 10.0)
    supervisor.stand_still(LONG)
    began = machine.now
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(10.0, abs=COUNTED + 1.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.START_STALLED


@pytest.mark.parametrize("conduct", [Conduct(keeper_after=9.0, main_after=10.0), Conduct(main_after=20.0)])
def test_a_process_that_had_no_time_to_come_up_is_waited_for(conduct: Conduct) -> None:
    machine, supervisor = rising(conduct, Phase.STARTING)
    supervisor.run(1.0)
    supervisor.stand_still(KEEPER_SILENT + 10.0)
    serves_after_all(machine, supervisor)


def test_a_launch_record_that_there_was_no_time_to_write_is_waited_for() -> None:
    machine, supervisor = rising(Conduct(no_record=True), Phase.STARTING)
    supervisor.stand_still(KEEPER_SILENT + 10.0)
    supervisor.run(KEEPER_SILENT - 5.0)
    assert supervisor.state.phase is Phase.STARTING
    supervisor.until(Phase.CLEARING, within=10.0)
    assert machine.record is None


def test_who_listens_is_looked_for_as_long_after_a_standstill_as_before() -> None:
    machine, supervisor = supervised()
    supervisor.switch(ALPHA)
    supervisor.until(Phase.STARTING)
    machine.unreadable = {"port"}
    supervisor.run(10.0)
    supervisor.stand_still(LONG)
    supervisor.run(1.0)
    machine.unreadable = set()
    serves_after_all(machine, supervisor)


def test_which_model_is_served_is_waited_for_as_long_after_a_standstill_as_before() -> None:
    machine, supervisor = rising(Conduct(), Phase.STARTING)
    machine.unlisted = True
    supervisor.until(Phase.CHECKING)
    supervisor.run(LIMITS.probe / 2)
    supervisor.stand_still(LONG)
    supervisor.run(1.0)
    machine.unlisted = False
    serves_after_all(machine, supervisor)


def asked_first(conduct: Conduct) -> tuple[Machine, Supervisor]:
    """In `checking`, and the first answer was asked for a moment ago."""
    machine, supervisor = rising(conduct, Phase.CHECKING)
    while supervisor.state.asked_at is None:
        supervisor.step(0.05)
    return machine, supervisor


def test_a_first_answer_that_a_standstill_cut_short_is_asked_for_again() -> None:
    machine, supervisor = asked_first(Conduct())
    supervisor.stand_still(40.0)
    assert supervisor.answer is not None
    assert supervisor.answer.state is AnswerState.LATE
    assert supervisor.step().actions == (Ask(LIMITS.probe),)
    serves_after_all(machine, supervisor)


def test_a_first_answer_that_never_comes_fails_the_start_standstill_or_not() -> None:
    machine, supervisor = asked_first(Conduct(answer=AnswerState.LATE))
    supervisor.stand_still(40.0)
    began = machine.now
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(LIMITS.probe, abs=2.0)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.WRONG_ANSWER


# -- serving and doubted ----------------------------------------------------------------------------------------------
def suspected(*, hung: bool) -> tuple[Machine, Supervisor]:
    """Doubted for its silence, and asked a moment ago."""
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.SUSPECT)
    machine.hung, machine.requests = hung, int(hung)
    supervisor.step(0.05)
    return machine, supervisor


def test_a_probe_that_a_standstill_cut_short_is_put_again_and_its_answer_counts() -> None:
    machine, supervisor = suspected(hung=False)
    supervisor.stand_still(40.0)
    assert supervisor.step().actions == (Ask(LIMITS.probe),)
    supervisor.until(Phase.SERVING)
    assert (len(machine.spawns), machine.signals) == (1, [])


def test_a_probe_without_an_answer_ends_a_hung_backend_standstill_or_not() -> None:
    machine, supervisor = suspected(hung=True)
    supervisor.stand_still(40.0)
    began = machine.now
    supervisor.until(Phase.STOPPING)
    assert machine.now - began == pytest.approx(LIMITS.probe, abs=2.0)
    assert supervisor.state.failure is not None
    assert "no answer to the probe within 20 s" in supervisor.state.failure.summary


def test_the_question_of_an_idle_backend_that_a_standstill_cut_short_is_put_again() -> None:
    checks = Checks()
    machine, supervisor = serving()
    supervisor.run(checks.idle_probe - 1.0)
    while supervisor.state.asked_at is None:
        supervisor.step(0.05)
    supervisor.stand_still(40.0)
    asked = [action for _ in range(20) for action in supervisor.step(0.05).actions if isinstance(action, Ask)]
    assert len(asked) == 1
    supervisor.run(30.0)
    assert [phase for phase, _ in supervisor.trail].count(Phase.SUSPECT) == 0
    assert machine.signals == []


# -- the way down -----------------------------------------------------------------------------------------------------
def test_a_backend_that_is_ending_is_not_killed_for_the_time_in_which_it_stood_still() -> None:
    machine, supervisor = serving()
    supervisor.stop(drain=0.0)
    supervisor.until(Phase.STOPPING)
    supervisor.step(0.05)
    supervisor.stand_still(LONG)
    supervisor.until(Phase.STOPPED)
    assert [what for _, _, what in machine.signals if what == "KILL"] == []


def test_what_was_killed_is_not_stuck_before_it_had_time_to_go() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(deaf=True)})
    supervisor.stop(drain=0.0)
    while not any(what == "KILL" for _, _, what in machine.signals):
        supervisor.step(0.02)
    supervisor.stand_still(LONG)
    supervisor.until(Phase.STOPPED)
    assert [phase for phase, _ in supervisor.trail].count(Phase.STUCK) == 0


def test_port_and_card_have_their_time_to_come_back() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(lingers=15.0)})
    supervisor.stop(drain=0.0)
    supervisor.until(Phase.CLEARING)
    supervisor.run(1.0)
    supervisor.stand_still(LONG)
    supervisor.until(Phase.STOPPED)
    assert [phase for phase, _ in supervisor.trail].count(Phase.STUCK) == 0
    assert machine.violations == []


def test_a_drain_goes_by_the_clock_of_the_one_who_granted_it() -> None:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop(drain=60.0)
    supervisor.until(Phase.DRAINING)
    supervisor.stand_still(LONG)
    supervisor.step()
    assert supervisor.state.phase is Phase.STOPPING
    assert "drain time is up" in supervisor.state.reason


@pytest.mark.parametrize("turn", [STOOD_STILL + 1.0, 60.0, LONG])
def test_a_stop_ends_also_where_each_look_takes_as_long_as_a_standstill(turn: float) -> None:
    """Law 5: a deaf backend, and a supervisor that gets to look once in a while only."""
    machine, supervisor = serving(conduct={"alpha": Conduct(deaf=True, orphans=True, lingers=15.0)})
    supervisor.stop()
    looks = LIMITS.drain + LIMITS.shutdown_timeout + LIMITS.stop_grace + LIMITS.clear
    for _ in range(int(looks / COUNTED) + 10):
        supervisor.step(turn)
    assert (supervisor.state.phase, machine.processes, machine.record) == (Phase.STOPPED, {}, None)


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.SUSPECT])
def test_a_question_is_not_put_again_for_ever_where_each_one_is_cut_short(phase: Phase) -> None:
    if phase is Phase.CHECKING:
        machine, supervisor = asked_first(Conduct(answer=AnswerState.LATE))
    else:
        machine, supervisor = suspected(hung=True)
    asked = 0
    while supervisor.state.phase is phase:
        supervisor.stand_still(40.0)
        asked += sum(isinstance(action, Ask) for action in supervisor.step().actions)
        assert asked <= (ASKED_FOR + 1.0) * LIMITS.probe / COUNTED
    assert supervisor.state.phase is Phase.STOPPING
    assert asked > SEVERAL
    assert machine.violations == []


# -- the allowance itself ---------------------------------------------------------------------------------------------
def test_the_first_look_of_a_supervisor_finds_no_gap_and_a_usual_one_takes_nothing_off() -> None:
    machine, supervisor = serving()
    born = replace(supervisor.state, looked_at=None)
    for seconds in (0.1, 1.0, STOOD_STILL):
        later = replace(supervisor.world(), now=machine.now + seconds)
        for state in (born, replace(born, looked_at=machine.now)):
            after = decide(state, later).state
            assert (after.looked_at, after.unseen) == (later.now, 0.0)


def test_what_nobody_saw_is_counted_by_the_phase_and_forgotten_with_it() -> None:
    _, supervisor = serving()
    supervisor.run(1.0)
    supervisor.stand_still(40.0)
    supervisor.step()
    assert supervisor.state.unseen == pytest.approx(40.0 - COUNTED, abs=0.2)
    supervisor.stop()
    supervisor.step()
    assert (supervisor.state.phase, supervisor.state.unseen) == (Phase.DRAINING, 0.0)


standstills = st.lists(
    st.tuples(st.floats(min_value=0.0, max_value=30.0), st.floats(min_value=0.1, max_value=2000.0)), max_size=6
)
conducts = st.builds(
    Conduct,
    keeper_after=st.floats(min_value=0.1, max_value=9.0),
    main_after=st.floats(min_value=9.1, max_value=19.0),
    ready_after=st.floats(min_value=20.0, max_value=50.0),
    silent=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(pauses=standstills, conduct=conducts, answer_delay=st.floats(min_value=0.1, max_value=10.0))
def test_no_standstill_makes_a_start_fail_that_would_have_served(
    pauses: list[tuple[float, float]], conduct: Conduct, answer_delay: float
) -> None:
    machine, supervisor = supervised(conduct={"alpha": conduct})
    supervisor.answer_delay = answer_delay
    supervisor.switch(ALPHA)
    for seen, unseen in pauses:
        supervisor.run(seen, step=0.3)
        supervisor.stand_still(unseen)
    supervisor.until(Phase.SERVING, within=200.0, step=0.3)
    assert (len(machine.spawns), machine.signals, machine.violations) == (1, [], [])


@settings(max_examples=300, deadline=None)
@given(pauses=standstills, silent=st.booleans())
def test_every_standstill_only_puts_off_what_a_hung_start_comes_to(
    pauses: list[tuple[float, float]], silent: bool
) -> None:
    """Silent, or up and without an answer: either ends as failed after the time that it was given, as far as seen."""
    hung = Conduct(ready_after=1e9, silent=True) if silent else Conduct(answer=AnswerState.LATE)
    machine, supervisor = supervised(conduct={"alpha": hung})
    supervisor.switch(ALPHA)
    for seen, unseen in pauses:
        supervisor.run(seen, step=0.3)
        supervisor.stand_still(unseen)
    supervisor.until(Phase.FAILED, within=LIMITS.start_stall + 2 * LIMITS.probe + 60.0, step=0.3)
    assert len(machine.spawns) == 1
    assert machine.violations == []


def test_a_state_that_was_never_looked_at_is_looked_at_once() -> None:
    _, supervisor = supervised()
    assert decide(State(), supervisor.world()).state.looked_at == supervisor.machine.now
