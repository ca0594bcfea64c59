"""The cards' memory in the decisions: before a launch, after a stop, and what is learnt of an idle card."""

from dataclasses import replace

from arcops.core.action import KeepBaseline, Look
from arcops.core.cards.attribution import MIB
from arcops.core.cards.clean import KEPT_AFTER
from arcops.core.decide.sight import RETURNS_WITHIN
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order, Outcome
from tests.core.simulated import LIMITS, Conduct, Machine, holder, launch
from tests.core.simulated_memory import TOTAL
from tests.core.supervised import Supervisor, serving, supervised

CARD = "0000:03:00.0"
IDLE = 300 * MIB


def outcome(supervisor: Supervisor, number: int) -> Outcome:
    found = supervisor.state.outcome_of(number)
    assert found is not None
    return found


def told(supervisor: Supervisor, number: int, within: float = 60.0) -> Outcome:
    """The outcome of an order, once there is one."""
    end = supervisor.machine.now + within
    while supervisor.state.outcome_of(number) is None:
        assert supervisor.machine.now < end, supervisor.trail
        supervisor.step()
    return outcome(supervisor, number)


# -- before a launch --------------------------------------------------------------------------------------------------
def test_memory_that_nobody_is_named_for_refuses_a_switch_and_says_how_much_and_what_to_do() -> None:
    machine, supervisor = supervised()
    machine.memory.hidden, machine.memory.unreadable = 6_000 * MIB, 12
    began = machine.now
    supervisor.switch(launch())
    refused = told(supervisor, 1)
    assert RETURNS_WITHIN <= machine.now - began < RETURNS_WITHIN + 2.0
    assert refused.exit_code is ExitCode.BLOCKED
    assert "6,300 MiB of card 0000:03:00.0 are in use" in refused.summary
    assert "12 processes of other users may not be looked into" in refused.summary
    assert "sudo arcops doctor" in refused.hint
    assert machine.spawns == []


def test_memory_on_its_way_back_is_waited_for_and_blocks_nobody() -> None:
    """Somebody was ended a moment ago: he has no name any more, and the card still has his memory."""
    machine, supervisor = supervised()
    machine.memory.hidden = 20_000 * MIB

    def comes_back() -> None:
        machine.memory.hidden = 0

    machine.later(RETURNS_WITHIN - 1.0, comes_back)
    supervisor.switch(launch())
    supervisor.run(1.0)
    assert "waiting whether the memory comes back: 20,300 MiB of card" in supervisor.state.reason
    supervisor.until(Phase.SERVING)
    assert outcome(supervisor, 1).exit_code is ExitCode.DONE
    assert machine.violations == []


def test_a_standing_order_waits_for_memory_that_nobody_is_named_for_and_goes_on_when_it_is_back() -> None:
    machine = Machine()
    machine.memory.hidden = 6_000 * MIB
    machine.orders[1] = (Order(1, Goal.RUN, "alpha", launch()), "committed")
    supervisor = Supervisor(machine)
    supervisor.until(Phase.BLOCKED)
    looks = sum(isinstance(action, Look) for _ in range(600) for action in supervisor.step(0.1).actions)
    assert looks >= 15
    assert "nobody can be named" in supervisor.state.reason
    machine.memory.hidden = 0
    supervisor.until(Phase.SERVING, within=15.0)
    assert machine.violations == []


def test_a_card_on_which_nobody_can_be_seen_and_nothing_measured_is_launched_on() -> None:
    """Every user but root has processes beside his own that he may not look into; before 6.18 xe tells him no sizes."""
    machine, supervisor = supervised()
    machine.memory.dark, machine.memory.unreadable = True, 40
    supervisor.switch(launch())
    supervisor.until(Phase.SERVING)
    assert machine.baselines == {}


def test_strangers_that_have_next_to_nothing_are_not_in_the_way() -> None:
    machine, supervisor = supervised()
    machine.foreign_memory = holder("4 MiB of card 0000:03:00.0", "nvidia-persiste")
    supervisor.switch(launch())
    supervisor.until(Phase.SERVING)
    assert machine.violations == []


# -- after a stop -----------------------------------------------------------------------------------------------------
def test_a_stop_is_over_when_two_looks_agree_that_the_memory_is_back() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(lingers=6.0)})
    supervisor.stop()
    supervisor.until(Phase.CLEARING)
    ended = machine.now
    supervisor.until(Phase.STOPPED, within=10.0)
    assert machine.now - ended >= 5.9
    assert outcome(supervisor, 2).exit_code is ExitCode.DONE


def test_what_comes_back_slowly_is_not_taken_for_a_strangers_and_the_next_launch_goes_ahead() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(lingers=8.0)})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.CLEARING)
    supervisor.until(Phase.SERVING, within=30.0)
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "beta"]
    assert outcome(supervisor, 2).exit_code is ExitCode.DONE


def test_memory_that_does_not_come_back_is_stuck_and_named_and_goes_on_when_it_has() -> None:
    machine, supervisor = serving()
    machine.memory.kept = 9_000 * MIB
    supervisor.stop()
    supervisor.until(Phase.STUCK, within=LIMITS.drain + LIMITS.clear + 10.0)
    stuck = outcome(supervisor, 2)
    assert stuck.exit_code is ExitCode.FAILED
    assert "9,300 MiB of card 0000:03:00.0 are in use" in stuck.summary
    supervisor.run(60.0)
    assert supervisor.state.phase is Phase.STUCK
    machine.memory.kept = 0
    supervisor.until(Phase.STOPPED, within=10.0)


def test_the_longer_memory_takes_to_come_back_the_seldomer_it_is_looked_at() -> None:
    machine, supervisor = serving()
    machine.memory.kept = 9_000 * MIB
    supervisor.stop()
    supervisor.until(Phase.CLEARING)
    looked: list[float] = []
    while supervisor.state.phase is Phase.CLEARING:
        if Look() in supervisor.step(0.05).actions:
            looked.append(machine.now)
    half = looked[0] + LIMITS.clear / 2
    early, late = sum(at <= half for at in looked), sum(at > half for at in looked)
    assert 10 <= late <= early / 2


def test_a_stranger_who_was_there_before_is_no_residue_of_ours() -> None:
    machine, supervisor = serving()
    machine.foreign_memory = holder("5,000 MiB of card 0000:03:00.0")
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    assert outcome(supervisor, 2).exit_code is ExitCode.DONE
    supervisor.switch(launch())
    assert "pid 4242 (python3) of user guest holds 5,000 MiB of card" in told(supervisor, 3).summary


# -- what a card has when idle ----------------------------------------------------------------------------------------
def test_what_a_card_has_when_idle_is_learnt_when_ours_has_gone_and_outlives_the_supervisor() -> None:
    machine, supervisor = serving()
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    assert machine.baselines == {CARD: IDLE}
    supervisor.die()
    machine.memory.hidden = 600 * MIB
    machine.memory.unreadable = 3
    later = Supervisor(machine)
    later.switch(launch())
    assert "600 MiB more than when it is idle" in told(later, 3).summary


def test_without_a_baseline_a_sixteenth_of_the_card_passes_for_the_drivers_own() -> None:
    for hidden, launched in ((TOTAL // 16 - IDLE, True), (TOTAL // 16 - IDLE + MIB, False)):
        machine, supervisor = supervised()
        machine.memory.hidden = hidden
        supervisor.switch(launch())
        told(supervisor, 1)
        assert bool(machine.spawns) is launched


def test_a_baseline_is_learnt_before_a_launch_too_once_two_looks_agree() -> None:
    machine = Machine()
    machine.orders[1] = (Order(1, Goal.RUN, "alpha", launch()), "committed")
    supervisor = Supervisor(machine)
    supervisor.perform(Look())
    machine.advance(1.0)
    learnt: list[object] = []
    while not machine.spawns:
        learnt += [action for action in supervisor.step().actions if isinstance(action, KeepBaseline)]
    assert learnt == [KeepBaseline(CARD, IDLE)]


def test_a_driver_that_keeps_more_after_a_launch_than_before_is_believed_after_a_while() -> None:
    machine, supervisor = serving()
    machine.baselines = {CARD: IDLE}
    machine.memory.drivers += 500 * MIB
    machine.memory.unreadable = 12
    supervisor.stop()
    supervisor.until(Phase.CLEARING)
    ended = machine.now
    supervisor.until(Phase.STOPPED)
    assert KEPT_AFTER <= machine.now - ended < KEPT_AFTER + 2.0
    assert machine.baselines == {CARD: IDLE + 500 * MIB}
    supervisor.switch(launch())
    supervisor.until(Phase.SERVING)


def test_where_everybody_can_be_seen_a_driver_that_has_more_than_before_is_believed_at_once() -> None:
    machine, supervisor = supervised()
    machine.baselines = {CARD: IDLE}
    machine.memory = replace(machine.memory, drivers=IDLE + 500 * MIB)
    supervisor.switch(launch())
    supervisor.until(Phase.SERVING, within=RETURNS_WITHIN + 10.0)
    assert machine.baselines == {CARD: IDLE + 500 * MIB}
