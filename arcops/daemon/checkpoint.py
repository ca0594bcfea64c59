"""The points at which the supervisor's own death is tried out, each with a name.

In production nothing happens at any of them, and nothing in the environment changes that: only a test that wires the
daemon itself can pass another `Checkpoints`.
"""

from enum import StrEnum
from typing import get_args

from arcops.core.action import Action
from arcops.core.phase import Phase


class Point(StrEnum):
    """Between two steps that a crash may part; beside these: before and after each action, and each move."""

    ORDER_UNWRITTEN = "order: admitted, not written"
    ORDER_WRITTEN = "order: written, not in force"
    ORDER_TAKEN = "order: in force, not acknowledged"
    SPAWN_RECORDED = "spawn: recorded, not spawned"
    SPAWN_SPAWNED = "spawn: spawned, keeper not named"
    KEEPER_NAMED = "keeper: named, not saved"
    KEEPER_SAVED = "keeper: saved"
    MAIN_NAMED = "main: named, not saved"
    MAIN_SAVED = "main: saved"
    FORGET_CLEARED = "forget: enclosure removed, status file there"
    FORGET_UNLINKED = "forget: status file removed, record there"
    SETTLE_UNWRITTEN = "settle: on its thread, not written"
    SETTLE_WRITTEN = "settle: written"
    ADOPT_READ = "adopt: record read"
    ADOPT_TAKEN = "adopt: taken up, order not known"
    RESTORED = "restored: order in force, loop not turning"
    LEAVING = "leave: told to end"
    LEFT = "leave: loop ended, server still there"


class Checkpoints:
    """Passed at each point; does nothing."""

    def reach(self, point: str) -> None:
        """The supervisor is at `point` now. Called from any of its threads."""


NOWHERE = Checkpoints()


def before(kind: type[Action]) -> str:
    return f"before {kind.__name__}"


def after(kind: type[Action]) -> str:
    return f"after {kind.__name__}"


def decided(phase: Phase) -> str:
    """The phase has changed in memory, and nobody was told."""
    return f"decided: {phase.value}"


def recorded(phase: Phase) -> str:
    """The change was told to the journal, and its actions are still to come."""
    return f"recorded: {phase.value}"


def every_point() -> tuple[str, ...]:
    """All there are."""
    kinds: tuple[type[Action], ...] = get_args(Action)
    around = (words(kind) for kind in kinds for words in (before, after))
    moves = (words(phase) for phase in Phase for words in (decided, recorded))
    return (*Point, *around, *moves)
