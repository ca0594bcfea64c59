"""A card that is reset or given up under a backend: it is asked, blamed where that is right, and counted for itself."""

from dataclasses import replace

import pytest

from arcops.core import restart
from arcops.core.action import Ask
from arcops.core.cards.incidents import Kind
from arcops.core.launch import RestartPolicy
from arcops.core.phase import Phase
from arcops.core.world import AnswerState, Cause
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor, serving, supervised

CARD = "0000:03:00.0"
LIMITS = launch().limits


def doubted(kind: Kind = Kind.WEDGED) -> tuple[Machine, Supervisor]:
    """A backend that serves in peace, and a card that is said to be given up."""
    machine, supervisor = serving()
    supervisor.run(5.0)
    machine.befalls(kind)
    supervisor.step()
    return machine, supervisor


@pytest.mark.parametrize("kind", [Kind.WEDGED, Kind.GONE])
def test_a_backend_whose_card_is_given_up_is_doubted_at_the_next_look_and_asked(kind: Kind) -> None:
    _, supervisor = doubted(kind)
    assert supervisor.state.phase is Phase.SUSPECT
    assert supervisor.state.reason == f"card {CARD}: {kind.words}; asking whether it still answers"
    assert supervisor.step().actions == (Ask(LIMITS.probe),)


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.JOB_TIMEOUT, Kind.PAGE_FAULT, Kind.MEMORY_ERROR, Kind.COREDUMP])
def test_what_a_backend_may_survive_does_not_make_it_suspect(kind: Kind) -> None:
    _, supervisor = doubted(kind)
    assert supervisor.state.phase is Phase.SERVING


def test_one_that_answers_all_the_same_serves_on_and_is_not_asked_over_it_again() -> None:
    machine, supervisor = doubted()
    supervisor.until(Phase.SERVING)
    assert supervisor.state.reason == "it answered the probe"
    supervisor.run(200.0)
    assert [phase for phase, _ in supervisor.trail].count(Phase.SUSPECT) == 1
    machine.befalls(Kind.GONE)
    supervisor.step()
    assert supervisor.state.phase is Phase.SUSPECT, "that is another word"


def test_progress_alone_does_not_clear_a_card_that_was_given_up() -> None:
    machine, supervisor = doubted()
    machine.requests = 1
    machine.conduct["alpha"] = Conduct(answer=AnswerState.WRONG)
    assert machine.record is not None
    machine.record.conduct = Conduct(answer=AnswerState.WRONG)
    supervisor.until(Phase.STOPPING)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.GPU_WEDGED


def test_one_that_does_not_answer_is_taken_down_and_the_card_is_latched_with_what_helps_and_what_was_tried() -> None:
    machine, supervisor = doubted()
    machine.hung = True
    supervisor.until(Phase.STOPPING)
    failure = supervisor.state.failure
    assert failure is not None
    assert (failure.cause, failure.deterministic) == (Cause.GPU_WEDGED, True)
    assert failure.summary.startswith(f"card {CARD} is wedged: the driver has given the card up; and of the backend")
    assert "no answer to the probe within 20 s" in failure.summary
    assert failure.evidence == "the line about wedged"
    assert f"echo {CARD} > /sys/bus/pci/drivers/xe/unbind" in failure.hint
    supervisor.until(Phase.WEDGED)
    assert "a rebind of its driver, a reset or a reboot helps" in supervisor.state.reason
    assert "tried: to end the backend" in supervisor.state.reason
    supervisor.run(7200.0, step=10.0)
    assert (supervisor.state.phase, len(machine.spawns)) == (Phase.WEDGED, 1)


def test_restarts_that_did_not_help_are_told_as_tried() -> None:
    machine, supervisor = serving(conduct={"alpha": Conduct(dies_after=20.0, resets=True)})
    supervisor.until(Phase.BACKOFF)
    machine.conduct["alpha"] = Conduct(dies_after=20.0, wedges=True)
    supervisor.until(Phase.WEDGED)
    assert "tried: 1 restarts within the hour, and to end the backend" in supervisor.state.reason


def test_a_hang_after_the_card_was_brought_back_is_a_hang() -> None:
    machine, supervisor = doubted()
    machine.befalls(Kind.RECOVERY)
    machine.hung = True
    supervisor.until(Phase.STOPPING)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.HANG


def test_a_card_that_was_given_up_before_the_launch_is_not_held_against_the_backend() -> None:
    machine, supervisor = supervised()
    machine.befalls(Kind.WEDGED)
    supervisor.run(1.0)
    assert isinstance(supervisor.switch(launch()), int)
    supervisor.until(Phase.SERVING)
    supervisor.run(60.0)
    assert supervisor.state.phase is Phase.SERVING


def test_a_start_that_stalls_on_a_card_that_was_given_up_is_the_cards() -> None:
    machine, supervisor = supervised(conduct={"alpha": Conduct(silent=True, ready_after=9999.0)})
    assert isinstance(supervisor.switch(launch(), rollback=False), int)
    supervisor.until(Phase.STARTING)
    supervisor.step()
    machine.befalls(Kind.WEDGED)
    supervisor.until(Phase.WEDGED)
    assert supervisor.state.failure is not None
    assert supervisor.state.failure.cause is Cause.GPU_WEDGED
    assert "the start showed no progress" in supervisor.state.failure.summary


def test_a_supervisor_that_comes_while_a_card_is_given_up_asks_the_backend_that_it_adopts() -> None:
    machine, supervisor = serving()
    supervisor.run(5.0)
    supervisor.die()
    machine.befalls(Kind.WEDGED)
    machine.advance(1.0)
    heir = Supervisor(machine)
    heir.until(Phase.SUSPECT)
    heir.until(Phase.SERVING)
    assert machine.violations == []


def reset_again_and_again(policy: RestartPolicy) -> tuple[Machine, Supervisor]:
    machine, supervisor = supervised(conduct={"alpha": Conduct(dies_after=20.0, resets=True)})
    assert isinstance(supervisor.switch(replace(launch(), restart=policy)), int)
    supervisor.until(Phase.BACKOFF)
    return machine, supervisor


def test_a_card_that_was_reset_is_not_counted_against_its_profile() -> None:
    machine, supervisor = reset_again_and_again(RestartPolicy(per_hour=1))
    assert (supervisor.state.failures, len(supervisor.state.card_faults)) == ((), 1)
    assert "the card is to blame and not the profile" in supervisor.state.reason
    machine.conduct["alpha"] = Conduct(dies_after=20.0)
    supervisor.until(Phase.SERVING)
    supervisor.until(Phase.BACKOFF)
    assert (len(supervisor.state.failures), len(supervisor.state.card_faults)) == (1, 1)


def test_a_card_that_is_reset_over_and_over_latches_and_says_so() -> None:
    machine, supervisor = reset_again_and_again(RestartPolicy(per_hour=60))
    supervisor.until(Phase.FAILED, within=1800.0)
    assert f"{restart.CARD_FAULTS_PER_HOUR + 1} backends lost to the card within an hour" in supervisor.state.reason
    assert len(machine.spawns) == restart.CARD_FAULTS_PER_HOUR + 1
    assert machine.violations == []


def test_a_new_order_forgives_the_card() -> None:
    machine, supervisor = reset_again_and_again(RestartPolicy(per_hour=60))
    supervisor.until(Phase.FAILED, within=1800.0)
    machine.conduct.clear()
    assert isinstance(supervisor.restart(), int)
    supervisor.until(Phase.SERVING)
    assert supervisor.state.card_faults == ()
