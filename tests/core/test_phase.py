"""The legal moves: each is reached by a story, and nothing that decide can do is outside of them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import pytest

from arcops.core.action import TakeLocks
from arcops.core.decide import decide
from arcops.core.phase import MOVES, IllegalMoveError, Phase, check_move, diagram
from arcops.core.quantity import Known
from arcops.core.state import NOTHING_ORDERED, Goal, Order, State
from arcops.core.world import AnswerState, Lock
from tests.core.simulated import Conduct, Machine, Record, holder, launch
from tests.core.supervised import Supervisor, serving, supervised

Story = Callable[[], Supervisor]
STORIES: dict[tuple[Phase, Phase], Story] = {}


def leads(old: Phase, new: Phase) -> Callable[[Story], Story]:
    """Register the story that shows a move."""

    def register(story: Story) -> Story:
        assert (old, new) not in STORIES
        STORIES[old, new] = story
        return story

    return register


def reborn(machine: Machine, supervisor: Supervisor) -> Supervisor:
    supervisor.die()
    return Supervisor(machine)


def failing(**conduct: object) -> Conduct:
    return replace(Conduct(dies_after=1.0), **conduct)  # pyright: ignore[reportArgumentType] - names are Conduct's own


@leads(Phase.STOPPED, Phase.STARTING)
@leads(Phase.STARTING, Phase.CHECKING)
@leads(Phase.CHECKING, Phase.SERVING)
def story_1() -> Supervisor:
    return serving()[1]


@leads(Phase.STOPPED, Phase.BLOCKED)
@leads(Phase.BLOCKED, Phase.STARTING)
def story_2() -> Supervisor:
    machine, supervisor = serving()
    supervisor.die()
    machine.let_go()
    machine.record, machine.foreign_memory = None, holder("memory")
    machine.advance(10.0)
    supervisor = Supervisor(machine)
    supervisor.until(Phase.BLOCKED)
    machine.foreign_memory = None
    supervisor.until(Phase.SERVING)
    return supervisor


def blocked() -> tuple[Machine, Supervisor]:
    machine, supervisor = serving()
    machine.requests, machine.foreign_memory = 0, holder("memory")
    supervisor.restart()
    supervisor.until(Phase.BLOCKED)
    return machine, supervisor


@leads(Phase.CLEARING, Phase.BLOCKED)
@leads(Phase.BLOCKED, Phase.STOPPED)
def story_3() -> Supervisor:
    _, supervisor = blocked()
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


def turns_up(machine: Machine, profile: str, *, proven: bool) -> None:
    """A backend that the record had hidden for a while."""
    machine.record = Record("late", launch(profile), Conduct(), machine.now - 60.0, proven=proven)
    machine.start("keeper", "late", ("/card/0",))
    machine.record.main = machine.start("main", "late", ("/card/0",))


@leads(Phase.BLOCKED, Phase.DRAINING)
def story_4() -> Supervisor:
    machine, supervisor = blocked()
    turns_up(machine, "beta", proven=True)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.BLOCKED, Phase.STOPPING)
def story_5() -> Supervisor:
    machine, supervisor = blocked()
    turns_up(machine, "beta", proven=False)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.BLOCKED, Phase.FAILED)
def story_6() -> Supervisor:
    _, supervisor = blocked()
    unresolved = replace(supervisor.state.order, launch=None, problem="profile alpha is gone")
    supervisor.state = replace(supervisor.state, order=unresolved)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.STOPPED, Phase.DRAINING)
@leads(Phase.DRAINING, Phase.STOPPING)
def story_7() -> Supervisor:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop()
    supervisor = reborn(machine, supervisor)
    supervisor.until(Phase.DRAINING)
    supervisor.until(Phase.STOPPED)
    return supervisor


@leads(Phase.STOPPED, Phase.STOPPING)
@leads(Phase.STOPPING, Phase.CLEARING)
@leads(Phase.CLEARING, Phase.STOPPED)
def story_8() -> Supervisor:
    machine, supervisor = supervised()
    supervisor.switch(launch())
    supervisor.until(Phase.STARTING)
    supervisor.run(1.0)
    supervisor.stop()
    supervisor = reborn(machine, supervisor)
    supervisor.run(5.0)
    return supervisor


@leads(Phase.STOPPED, Phase.FAILED)
def story_9() -> Supervisor:
    machine, supervisor = supervised()
    machine.orders[1] = (Order(1, Goal.RUN, "gone", problem="there is no profile gone"), "committed")
    supervisor = reborn(machine, supervisor)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.STARTING, Phase.STOPPING)
@leads(Phase.CLEARING, Phase.FAILED)
@leads(Phase.FAILED, Phase.STARTING)
def story_10() -> Supervisor:
    machine, supervisor = supervised(conduct={"alpha": failing()})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    machine.conduct.clear()
    supervisor.restart()
    supervisor.until(Phase.SERVING)
    return supervisor


@leads(Phase.FAILED, Phase.STOPPED)
def story_11() -> Supervisor:
    _, supervisor = supervised(conduct={"alpha": failing()})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


@leads(Phase.FAILED, Phase.STOPPING)
def story_12() -> Supervisor:
    machine, supervisor = supervised(conduct={"alpha": failing()})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    turns_up(machine, "alpha", proven=True)
    supervisor.run(30.0)
    assert supervisor.state.phase is Phase.FAILED, "the latch holds"
    return supervisor


@leads(Phase.CHECKING, Phase.STOPPING)
def story_13() -> Supervisor:
    _, supervisor = supervised(conduct={"alpha": Conduct(answer=AnswerState.WRONG)})
    supervisor.switch(launch())
    supervisor.until(Phase.FAILED)
    return supervisor


@leads(Phase.SERVING, Phase.DRAINING)
def story_14() -> Supervisor:
    machine, supervisor = serving()
    machine.requests = 1
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


@leads(Phase.SERVING, Phase.STOPPING)
def story_15() -> Supervisor:
    _, supervisor = serving()
    supervisor.stop(drain=0.0)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.SERVING, Phase.SUSPECT)
@leads(Phase.SUSPECT, Phase.SERVING)
def story_16() -> Supervisor:
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.SUSPECT)
    machine.hung = False
    supervisor.until(Phase.SERVING)
    return supervisor


@leads(Phase.SUSPECT, Phase.STOPPING)
@leads(Phase.CLEARING, Phase.BACKOFF)
@leads(Phase.BACKOFF, Phase.STARTING)
def story_17() -> Supervisor:
    machine, supervisor = serving()
    machine.requests, machine.hung = 1, True
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    return supervisor


def waiting() -> tuple[Machine, Supervisor]:
    machine, supervisor = serving()
    machine.end(machine.of("L1", "main")[0])
    supervisor.until(Phase.BACKOFF)
    return machine, supervisor


@leads(Phase.BACKOFF, Phase.BLOCKED)
def story_18() -> Supervisor:
    machine, supervisor = waiting()
    machine.foreign_listener = holder("port 8000")
    supervisor.run(10.0)
    return supervisor


@leads(Phase.BACKOFF, Phase.STOPPED)
def story_19() -> Supervisor:
    _, supervisor = waiting()
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


@leads(Phase.BACKOFF, Phase.FAILED)
def story_20() -> Supervisor:
    _, supervisor = waiting()
    unresolved = replace(supervisor.state.order, launch=None)
    supervisor.state = replace(supervisor.state, order=unresolved)
    supervisor.run(10.0)
    return supervisor


@leads(Phase.BACKOFF, Phase.STOPPING)
def story_21() -> Supervisor:
    machine, supervisor = waiting()
    turns_up(machine, "alpha", proven=True)
    supervisor.run(1.0)
    return supervisor


@leads(Phase.CLEARING, Phase.STARTING)
def story_22() -> Supervisor:
    _, supervisor = serving()
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.STARTING)
    return supervisor


@leads(Phase.CLEARING, Phase.STOPPING)
def story_23() -> Supervisor:
    machine, supervisor = serving(conduct={"alpha": Conduct(lingers=5.0)})
    supervisor.stop()
    supervisor.until(Phase.CLEARING)
    machine.start("stray", "L1", ("/card/0",))
    supervisor.until(Phase.STOPPED)
    return supervisor


@leads(Phase.STOPPING, Phase.STUCK)
@leads(Phase.STUCK, Phase.CLEARING)
def story_24() -> Supervisor:
    machine, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    supervisor.stop()
    supervisor.until(Phase.STUCK)
    machine.let_go()
    supervisor.until(Phase.STOPPED)
    return supervisor


@leads(Phase.STUCK, Phase.STOPPING)
def story_25() -> Supervisor:
    _, supervisor = serving(conduct={"alpha": Conduct(immortal=True)})
    supervisor.stop()
    supervisor.until(Phase.STUCK)
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


@leads(Phase.CLEARING, Phase.STUCK)
def story_26() -> Supervisor:
    machine, supervisor = serving()
    machine.residue = True
    supervisor.stop()
    supervisor.until(Phase.STUCK)
    return supervisor


def wedged() -> tuple[Machine, Supervisor]:
    machine, supervisor = supervised(conduct={"alpha": failing(wedges=True)})
    supervisor.switch(launch("alpha"))
    supervisor.until(Phase.WEDGED)
    machine.conduct.clear()
    return machine, supervisor


@leads(Phase.CLEARING, Phase.WEDGED)
@leads(Phase.WEDGED, Phase.STARTING)
def story_27() -> Supervisor:
    _, supervisor = wedged()
    supervisor.restart()
    supervisor.until(Phase.SERVING)
    return supervisor


@leads(Phase.WEDGED, Phase.STOPPED)
def story_28() -> Supervisor:
    _, supervisor = wedged()
    supervisor.stop()
    supervisor.run(1.0)
    return supervisor


@leads(Phase.WEDGED, Phase.STOPPING)
def story_29() -> Supervisor:
    machine, supervisor = wedged()
    turns_up(machine, "alpha", proven=True)
    supervisor.run(1.0)
    return supervisor


SICK = "card 0000:03:00.0 took a small product and did not finish it"


def served_then_lost() -> tuple[Machine, Supervisor]:
    """It served, was lost to its card, and waits to be tried again; a trial of the card would find it sick."""
    machine, supervisor = serving(conduct={"alpha": Conduct(dies_after=20.0, loses_device=True)})
    supervisor.until(Phase.BACKOFF)
    machine.sick_card = SICK
    return machine, supervisor


@leads(Phase.BACKOFF, Phase.WEDGED)
def story_30() -> Supervisor:
    machine, supervisor = served_then_lost()
    supervisor.until(Phase.WEDGED)
    assert len(machine.spawns) == 1
    return supervisor


@leads(Phase.BLOCKED, Phase.WEDGED)
def story_31() -> Supervisor:
    machine, supervisor = served_then_lost()
    machine.foreign_memory = holder("900 MiB of card 0000:03:00.0")
    supervisor.until(Phase.BLOCKED)
    machine.foreign_memory = None
    supervisor.until(Phase.WEDGED)
    return supervisor


@leads(Phase.STOPPED, Phase.WEDGED)
def story_32() -> Supervisor:
    """What stands in was read only when the latch had fallen, and needs the very card that lost the first one."""
    machine = Machine()
    machine.conduct["alpha"] = failing(loses_device=True, deterministic=True)
    machine.orders[1] = (Order(1, Goal.RUN, "alpha", launch("alpha", on_failure="beta")), "committed")
    supervisor = Supervisor(machine)
    supervisor.until(Phase.FAILED)
    machine.sick_card = SICK
    supervisor.state = replace(supervisor.state, order=replace(supervisor.state.order, fallback=launch("beta")))
    supervisor.until(Phase.WEDGED)
    return supervisor


def test_every_legal_move_has_its_story() -> None:
    assert set(STORIES) == set(MOVES)


@pytest.mark.parametrize("move", list(STORIES), ids=lambda move: f"{move[0].value}-{move[1].value}")
def test_each_move_is_made_in_its_story(move: tuple[Phase, Phase]) -> None:
    supervisor = STORIES[move]()
    assert move in set(pairwise(phase for phase, _ in supervisor.trail))
    assert supervisor.machine.violations == []


ALPHA, BETA = launch("alpha"), launch("beta")
ORDERS = {
    "nothing": NOTHING_ORDERED,
    "run alpha": Order(1, Goal.RUN, "alpha", ALPHA),
    "run what cannot be resolved": Order(1, Goal.RUN, "gone"),
    "switch to beta": Order(2, Goal.RUN, "beta", BETA, committed=False, previous=Order(1, Goal.RUN, "alpha", ALPHA)),
    "switch back": Order(
        2, Goal.RUN, "beta", BETA, committed=False, previous=Order(1, Goal.RUN, "a", ALPHA), returns=True
    ),
    "switch without anything before": Order(2, Goal.RUN, "beta", BETA, committed=False),
    "switch to what is gone": Order(2, Goal.RUN, "gone", committed=False, problem="no such profile"),
    "restart alpha": Order(2, Goal.RUN, "alpha", ALPHA, committed=False, replaces="L1"),
    "stop": Order(3, Goal.STOP, committed=False, replaces="L1"),
}


@pytest.mark.parametrize(("phase", "order"), list(product(Phase, ORDERS)), ids=lambda one: getattr(one, "value", one))
@pytest.mark.parametrize(
    "situation", ["nothing runs", "alpha serves", "alpha is dead", "alpha comes up", "all is dark"]
)
def test_every_order_in_every_phase_gets_a_decision_with_a_reason(phase: Phase, order: str, situation: str) -> None:
    machine, supervisor = supervised() if situation == "nothing runs" else serving()
    match situation:
        case "alpha is dead":
            machine.end(machine.of("L1", "main")[0])
        case "alpha comes up":
            assert machine.record is not None
            machine.record.proven = False
        case "all is dark":
            machine.unreadable = {"lock", "port", "card", "server", "activity", "requests"}
        case _:
            pass
    for later in (0.0, 50.0, 500.0):
        state = State(phase=phase, since=machine.now, order=ORDERS[order], reason="before")
        decision = decide(state, replace(supervisor.world(), now=machine.now + later))
        assert decision.state.reason


@pytest.mark.parametrize("order", ["run alpha", "switch to beta", "switch back", "restart alpha"])
@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.BLOCKED, Phase.BACKOFF, Phase.CLEARING, Phase.FAILED])
def test_nothing_is_launched_while_anything_is_unknown(phase: Phase, order: str) -> None:
    for dark in ("lock", "port", "card"):
        machine, supervisor = supervised()
        machine.unreadable = {dark}
        supervisor.perform(TakeLocks(ALPHA))
        supervisor.state = State(phase=phase, since=machine.now, order=ORDERS[order])
        machine.orders = {one.id: (one, "accepted") for one in (ORDERS[order], ORDERS["run alpha"])}
        supervisor.run(10.0)
        assert machine.spawns == []
        assert isinstance(supervisor.world().lock, Known) == (dark != "lock")


def test_an_illegal_move_is_refused_and_staying_is_always_legal() -> None:
    check_move(Phase.SERVING, Phase.SERVING)
    with pytest.raises(IllegalMoveError, match="serving -> stopped"):
        check_move(Phase.SERVING, Phase.STOPPED)


def test_names_and_numbers_of_the_phases_are_stable() -> None:
    assert {phase.value: phase.code for phase in Phase} == {
        "stopped": 0, "blocked": 1, "starting": 2, "checking": 3, "serving": 4, "suspect": 5, "draining": 6,
        "stopping": 7, "clearing": 8, "backoff": 9, "failed": 10, "stuck": 11, "wedged": 12,
    }  # fmt: skip


def test_the_diagram_shows_every_move_with_its_reason() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == len(MOVES) + 2
    assert all(f"{old.value} --> {new.value}: {why}" in diagram() for (old, new), why in MOVES.items())


def test_the_lock_of_another_supervisor_is_not_ours() -> None:
    machine, supervisor = supervised()
    machine.foreign_lock = holder()
    supervisor.switch(ALPHA)
    lock = supervisor.world().lock
    assert isinstance(lock, Known)
    assert lock.value == Lock(ours=False, holders=(holder(),), since=machine.now)
