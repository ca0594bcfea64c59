"""Time in which nobody looked: this machine stood still, or its supervisor did. It is no silence of a backend's.

A virtual machine that was paused, a supervisor that got no processor: what the backend did meanwhile was not seen, and
may not have been possible. So that time is taken off every clock that measures how long a backend has shown nothing,
or has taken to end. What was promised to people by the clock (a drain, the next attempt) goes by the clock.
"""

from dataclasses import replace

from arcops.core.phase import Phase
from arcops.core.state import State, Stopping
from arcops.core.world import World

STOOD_STILL = 5.0
"""Seconds between two looks that only a machine, or a supervisor, that stood still can explain."""
COUNTED = 1.0
"""Seconds that such a gap counts for all the same: where every look takes long, a stop still comes to its end."""

ASKED_FOR = 3.0
"""Times its deadline, seen, for which a question that was cut short is put again: then it is late whatever happened."""

_ASKING = frozenset({Phase.STARTING, Phase.CHECKING, Phase.SERVING, Phase.SUSPECT})
"""Phases in which `asked_at` is the beginning of a time that a backend is given."""


def unseen_left_out(state: State, world: World) -> State:
    """`state` as of this look, its clocks set forward by the time since the last one in which nobody looked."""
    gap = 0.0 if state.looked_at is None else world.now - state.looked_at
    looked = replace(state, looked_at=world.now)
    if gap <= STOOD_STILL:
        return looked
    unseen = gap - COUNTED
    asked_at = state.asked_at
    return replace(
        looked,
        unseen=state.unseen + unseen,
        progress_at=state.progress_at + unseen,
        shown_at=state.shown_at + unseen,
        asked_at=asked_at if asked_at is None or state.phase not in _ASKING else asked_at + unseen,
        stopping=None if state.stopping is None else _later(state.stopping, unseen),
    )


def _later(stopping: Stopping, seconds: float) -> Stopping:
    term, killed, engineless = stopping.last_term, stopping.killed_at, stopping.engineless_since
    return replace(
        stopping,
        began=stopping.began + seconds,
        last_term=None if term is None else term + seconds,
        killed_at=None if killed is None else killed + seconds,
        engineless_since=None if engineless is None else engineless + seconds,
    )


def spent(state: State, world: World) -> float:
    """Seconds in this phase in which somebody looked."""
    return world.now - state.since - state.unseen


def cut_short(world: World, asked_at: float, deadline: float) -> bool:
    """Whether a question that is late had less than its time: who asked it goes by a clock that no standstill stops."""
    return world.now - asked_at < deadline - COUNTED


def worth_asking_again(state: State, world: World, asked_at: float, deadline: float) -> bool:
    """The same of a question that the phase was entered for, and that it may not go on asking for ever."""
    return cut_short(world, asked_at, deadline) and spent(state, world) <= ASKED_FOR * deadline
