"""The phases of a backend and the legal moves between them.

Names and numbers are stable: monitoring depends on them. The diagram in docs/architecture.md is generated from `MOVES`.
"""

from enum import Enum


class Phase(Enum):
    """Where the backend is in its life."""

    STOPPED = "stopped"
    BLOCKED = "blocked"
    STARTING = "starting"
    CHECKING = "checking"
    SERVING = "serving"
    SUSPECT = "suspect"
    DRAINING = "draining"
    STOPPING = "stopping"
    CLEARING = "clearing"
    BACKOFF = "backoff"
    FAILED = "failed"
    STUCK = "stuck"
    WEDGED = "wedged"

    @property
    def code(self) -> int:
        """The number that `/metrics` and `arcops status --json` give."""
        return _CODES[self]


LATCHED = frozenset({Phase.FAILED, Phase.WEDGED})
"""Phases that only an order ends."""

_CODES: dict[Phase, int] = {phase: number for number, phase in enumerate(Phase)}

MOVES: dict[tuple[Phase, Phase], str] = {
    (Phase.STOPPED, Phase.STARTING): "lock, card and port are ours; or a backend that runs already is adopted",
    (Phase.STOPPED, Phase.BLOCKED): "an order asks for a backend, but somebody else holds lock, card or port",
    (Phase.STOPPED, Phase.DRAINING): "an earlier supervisor's backend serves, but is not wanted",
    (Phase.STOPPED, Phase.STOPPING): "processes of an earlier launch are still there",
    (Phase.STOPPED, Phase.FAILED): "the ordered profile cannot be launched as it stands",
    (Phase.STOPPED, Phase.WEDGED): "the card was tried before the launch, and does not compute",
    (Phase.BLOCKED, Phase.STARTING): "the holder has gone; or it was a backend of ours, and is adopted",
    (Phase.BLOCKED, Phase.STOPPED): "an order to stop, or the blocked switch is given up",
    (Phase.BLOCKED, Phase.DRAINING): "a backend of an earlier launch turned up and serves, but is not wanted",
    (Phase.BLOCKED, Phase.STOPPING): "processes of an earlier launch are still there",
    (Phase.BLOCKED, Phase.FAILED): "the ordered profile cannot be launched as it stands",
    (Phase.BLOCKED, Phase.WEDGED): "the card was tried before the launch, and does not compute",
    (Phase.STARTING, Phase.CHECKING): "HTTP answers, and the listener is ours",
    (Phase.STARTING, Phase.STOPPING): "an order, a stall, a stranger on the port, or the process has ended",
    (Phase.CHECKING, Phase.SERVING): "the served identity is right, and the first answer came",
    (Phase.CHECKING, Phase.STOPPING): "an order, a wrong identity or answer, or the process has ended",
    (Phase.SERVING, Phase.DRAINING): "an order takes the backend down, and open requests have their time",
    (Phase.SERVING, Phase.STOPPING): "an order takes the backend down without a drain, or the process has ended",
    (Phase.SERVING, Phase.SUSPECT): "work in flight and no progress, nothing can be read, or an idle one answers badly",
    (Phase.SUSPECT, Phase.SERVING): "progress again, or it answered",
    (Phase.SUSPECT, Phase.STOPPING): "the probe failed, an order, or the process has ended",
    (Phase.DRAINING, Phase.STOPPING): "the open requests are done, or their time is up",
    (Phase.STOPPING, Phase.CLEARING): "no process of the launch is left",
    (Phase.STOPPING, Phase.STUCK): "a process outlived SIGKILL",
    (Phase.CLEARING, Phase.STOPPING): "a late process of the launch turned up",
    (Phase.CLEARING, Phase.STOPPED): "port and card are clear, and nothing is to run",
    (Phase.CLEARING, Phase.STARTING): "port and card are clear, and the next launch goes ahead",
    (Phase.CLEARING, Phase.BLOCKED): "ours is gone, but somebody else holds lock, card or port",
    (Phase.CLEARING, Phase.BACKOFF): "the backend failed, and may be tried again later",
    (Phase.CLEARING, Phase.FAILED): "the backend failed, and trying again would not help",
    (Phase.CLEARING, Phase.STUCK): "port or memory did not come back in time",
    (Phase.CLEARING, Phase.WEDGED): "the card needs a rebind or a reboot",
    (Phase.BACKOFF, Phase.STARTING): "the waiting time is over",
    (Phase.BACKOFF, Phase.BLOCKED): "the waiting time is over, but somebody else holds lock, card or port",
    (Phase.BACKOFF, Phase.STOPPED): "an order to stop",
    (Phase.BACKOFF, Phase.FAILED): "the ordered profile cannot be launched as it stands",
    (Phase.BACKOFF, Phase.WEDGED): "the card was tried before the launch, and does not compute",
    (Phase.BACKOFF, Phase.STOPPING): "processes of an earlier launch are still there",
    (Phase.FAILED, Phase.STARTING): "a new order",
    (Phase.FAILED, Phase.STOPPED): "an order to stop, or what stands in was read only now",
    (Phase.FAILED, Phase.STOPPING): "processes of an earlier launch are still there",
    (Phase.STUCK, Phase.STOPPING): "a new order: try once more to end what is left",
    (Phase.STUCK, Phase.CLEARING): "what was stuck has gone",
    (Phase.WEDGED, Phase.STOPPED): "an order to stop, or what stands in on another card was read only now",
    (Phase.WEDGED, Phase.STARTING): "a new order after the card was reset",
    (Phase.WEDGED, Phase.STOPPING): "processes of an earlier launch are still there",
}


class IllegalMoveError(Exception):
    """A move that `MOVES` does not know: a fault in `core/decide.py`, never in the world."""


def check_move(old: Phase, new: Phase) -> None:
    """Raise IllegalMoveError unless `old` to `new` is a legal move (staying is always legal)."""
    if old is not new and (old, new) not in MOVES:
        raise IllegalMoveError(f"{old.value} -> {new.value} is not a legal move")


def diagram() -> str:
    """The moves as a Mermaid state diagram, for docs/architecture.md."""
    lines = ["stateDiagram-v2", "    [*] --> stopped"]
    lines += [f"    {old.value} --> {new.value}: {why}" for (old, new), why in MOVES.items()]
    return "\n".join(lines)
