"""The judgement: from what was asked and what is true to what to do next, with the reason in words.

`decide` is called after every look at the world. It is level-triggered: it never relies on having seen an event, so
that a supervisor that starts in the middle of anything reaches the same end.
"""

from dataclasses import replace
from typing import assert_never

from arcops.core.decide import doubt, falling, resting, rising, standing, standstill
from arcops.core.decide.moves import Decision
from arcops.core.phase import Phase
from arcops.core.state import State
from arcops.core.world import World

__all__ = ["Decision", "decide"]


def decide(state: State, world: World) -> Decision:
    """One step: the next state and the actions that lead there."""
    state = standstill.unseen_left_out(state, world)
    decision = _judge(state, world)
    return replace(decision, state=doubt.remembered(state, decision.state, world))


def _judge(state: State, world: World) -> Decision:  # noqa: C901 - one branch a phase is the whole point
    match state.phase:
        case Phase.STOPPED:
            return resting.stopped(state, world)
        case Phase.BLOCKED:
            return resting.blocked(state, world)
        case Phase.STARTING:
            return rising.starting(state, world)
        case Phase.CHECKING:
            return rising.checking(state, world)
        case Phase.BACKOFF:
            return resting.backoff(state, world)
        case Phase.FAILED | Phase.WEDGED:
            return resting.latched(state, world)
        case Phase.SERVING:
            return standing.serving(state, world)
        case Phase.SUSPECT:
            return standing.suspect(state, world)
        case Phase.DRAINING:
            return falling.draining(state, world)
        case Phase.STOPPING:
            return falling.stopping(state, world)
        case Phase.CLEARING:
            return falling.clearing(state, world)
        case Phase.STUCK:
            return falling.stuck(state, world)
        case _:  # pragma: no cover - pyright proves that it is never reached
            assert_never(state.phase)
