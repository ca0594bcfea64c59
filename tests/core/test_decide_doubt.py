"""A card that a backend was lost to is tried before something is launched on it again, and no other card is."""

from dataclasses import replace

from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.world import Cause
from tests.core.simulated import Conduct, Machine, holder, launch
from tests.core.supervised import Supervisor, serving

LOST = Conduct(dies_after=20.0, loses_device=True)
SICK = "card 0000:03:00.0 took a small product and did not finish it within 120 s"
ELSEWHERE = launch("elsewhere", port=8001, locks=("/card/1",), cards=("0000:04:00.0",))


def lost() -> tuple[Machine, Supervisor]:
    """It served, its device was lost, and it waits to be tried again."""
    machine, supervisor = serving(conduct={"alpha": LOST})
    supervisor.until(Phase.BACKOFF)
    machine.conduct.clear()
    return machine, supervisor


def reasons(supervisor: Supervisor, phase: Phase) -> list[str]:
    return [reason for entered, reason in supervisor.trail if entered is phase]


def test_after_a_card_fault_the_card_is_tried_once_and_then_launched_on() -> None:
    machine, supervisor = lost()
    assert (supervisor.state.doubted, machine.trials) == (("0000:03:00.0",), 0)
    supervisor.until(Phase.SERVING)
    assert (machine.trials, len(machine.spawns)) == (1, 2)
    assert reasons(supervisor, Phase.STARTING)[-1] == "launching alpha; card 0000:03:00.0 computes"
    assert (supervisor.state.doubted, machine.violations) == ((), [])


def test_a_fault_that_is_not_the_cards_has_nobody_try_it() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(dies_after=20.0)})
    supervisor.until(Phase.BACKOFF)
    machine.conduct.clear()
    supervisor.until(Phase.SERVING)
    assert (machine.trials, len(machine.spawns)) == (0, 2)


def test_while_it_is_tried_the_reason_says_so_and_nobody_looks_at_what_the_trial_holds() -> None:
    machine, supervisor = lost()
    machine.trial_takes = 60.0
    supervisor.run(5.0)
    looked = supervisor.card.at
    supervisor.run(40.0)
    assert supervisor.state.reason == "a backend was lost to card 0000:03:00.0: trying whether it computes"
    assert supervisor.card.at == looked
    supervisor.until(Phase.SERVING)
    assert (machine.trials, machine.violations) == (1, [])


def test_a_card_that_does_not_compute_latches_wedged_in_the_trials_words_and_nothing_is_launched() -> None:
    machine, supervisor = lost()
    machine.sick_card = SICK
    supervisor.until(Phase.WEDGED)
    failure = supervisor.state.failure
    assert failure is not None
    assert (failure.cause, failure.summary, failure.hint) == (Cause.GPU_WEDGED, SICK, "reboot")
    assert (len(machine.spawns), supervisor.locks) == (1, frozenset())
    supervisor.run(3600.0, step=1.0)
    assert (supervisor.state.phase, machine.trials, machine.violations) == (Phase.WEDGED, 1, [])


def test_an_order_on_a_wedged_card_has_it_tried_anew_and_is_refused_by_what_is_found() -> None:
    machine, supervisor = lost()
    machine.sick_card = SICK
    supervisor.until(Phase.WEDGED)
    number = supervisor.restart()
    assert isinstance(number, int)
    supervisor.run(20.0)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.hint, machine.trials) == (ExitCode.WEDGED, "reboot", 2)
    assert SICK in outcome.summary
    assert (supervisor.state.phase, len(machine.spawns)) == (Phase.WEDGED, 1)


def test_an_order_after_the_card_was_brought_back_goes_ahead() -> None:
    machine, supervisor = lost()
    machine.sick_card = SICK
    supervisor.until(Phase.WEDGED)
    machine.sick_card = ""
    supervisor.restart()
    supervisor.until(Phase.SERVING)
    assert (machine.trials, supervisor.state.doubted, machine.violations) == (2, (), [])


def test_a_trial_from_which_nothing_is_learnt_stands_in_nobodys_way() -> None:
    machine, supervisor = lost()
    machine.untriable = "torch is not in the runtime"
    supervisor.until(Phase.SERVING)
    assert reasons(supervisor, Phase.STARTING)[-1] == "launching alpha; torch is not in the runtime"


def test_a_trial_that_cannot_be_made_stands_in_nobodys_way() -> None:
    machine, supervisor = lost()
    machine.unreadable.add("trial")
    supervisor.until(Phase.SERVING)
    assert "could not be tried: no thread can be started" in reasons(supervisor, Phase.STARTING)[-1]
    assert machine.violations == []


def test_another_card_is_not_doubted_and_the_first_one_stays_so() -> None:
    machine, supervisor = lost()
    supervisor.switch(ELSEWHERE)
    supervisor.until(Phase.SERVING)
    assert (machine.trials, supervisor.state.doubted) == (0, ("0000:03:00.0",))
    supervisor.switch(launch("alpha"))
    supervisor.run(5.0)
    supervisor.until(Phase.SERVING)
    assert (machine.trials, supervisor.state.doubted, machine.violations) == (1, (), [])


def test_a_holder_is_waited_for_first_and_what_was_tried_before_him_still_counts() -> None:
    machine, supervisor = lost()
    supervisor.run(7.0)
    assert machine.trials == 1
    machine.foreign_memory = holder("900 MiB of card 0000:03:00.0")
    supervisor.until(Phase.BLOCKED)
    machine.foreign_memory = None
    supervisor.until(Phase.SERVING)
    assert (machine.trials, machine.violations) == (1, [])


def test_a_backend_that_is_lost_again_has_the_card_tried_again() -> None:
    machine, supervisor = lost()
    machine.conduct["alpha"] = replace(LOST, dies_after=1.0)
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.BACKOFF)
    supervisor.run(40.0)
    assert machine.trials >= 2
    assert machine.violations == []
