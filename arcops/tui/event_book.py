"""The history's events that are kept for reading: bounded, filtered, in the order that was chosen."""

from bisect import bisect_left
from collections.abc import Collection

from arcops import wire
from arcops.core.phase import Phase

MOST = 10_000
"""Events that are kept; the oldest are dropped by the hundred."""
_DROPPED = 500

TROUBLED_PHASES: Collection[str] = frozenset(
    phase.value for phase in (Phase.BLOCKED, Phase.SUSPECT, Phase.BACKOFF, Phase.FAILED, Phase.STUCK, Phase.WEDGED)
)
TROUBLED_KINDS: Collection[str] = frozenset({"trouble", "quality", "stand_in", "evidence", "unit", "kernel", "host"})


def is_problem(event: wire.Event) -> bool:
    """Somebody should know, or should have known."""
    if event.cause is not None or event.kind in TROUBLED_KINDS:
        return True
    return event.kind == "phase" and event.phase in TROUBLED_PHASES


def matches(event: wire.Event, text: str) -> bool:
    """Every word of `text` is in what the event says: its kind, phase, profile, launch, cause or reason."""
    said = " ".join(filter(None, (event.kind, event.phase, event.profile, event.launch_id, event.cause, event.reason)))
    folded = said.casefold()
    return all(word in folded for word in text.casefold().split())


class EventBook:
    """Events in the order of their ids, and those of them that are shown."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._events: list[wire.Event] = []
        self._ids: list[int] = []
        self._shown: list[wire.Event] = []
        self.text = ""
        self.problems_only = False
        self.newest_first = True

    def __len__(self) -> int:
        return len(self._events)

    @property
    def last_id(self) -> int:
        """Of the newest event; 0 before the first."""
        return self._ids[-1] if self._ids else 0

    @property
    def newest(self) -> wire.Event | None:
        return self._events[-1] if self._events else None

    @property
    def count(self) -> int:
        """How many are shown."""
        return len(self._shown)

    def add(self, event: wire.Event) -> None:
        """A later event; one that is there already is overlooked."""
        if event.id <= self.last_id:
            return
        self._events.append(event)
        self._ids.append(event.id)
        if self._wanted(event):
            self._shown.append(event)
        if len(self._events) > self._most:
            over = min(_DROPPED, self._most // 2)
            del self._events[:over], self._ids[:over]
            self._choose()

    def clear(self) -> None:
        """Forget all events: they are another history's. What is shown and in which order stays."""
        self._events.clear()
        self._ids.clear()
        self._shown.clear()

    def filter(self, text: str, *, problems_only: bool) -> None:
        """Show only those."""
        self.text, self.problems_only = text, problems_only
        self._choose()

    def at(self, row: int) -> wire.Event | None:
        """The event in a row of what is shown; None where there is none."""
        if not 0 <= row < len(self._shown):
            return None
        return self._shown[-1 - row if self.newest_first else row]

    def row_of(self, event_id: int) -> int:
        """The row of that event; of its neighbour where it is not shown."""
        index = bisect_left(self._shown, event_id, key=lambda event: event.id)
        index = max(0, min(index, len(self._shown) - 1))
        return len(self._shown) - 1 - index if self.newest_first else index

    def before(self, event: wire.Event) -> wire.Event | None:
        """The one before it in the whole history, shown or not; None where it is not known."""
        index = bisect_left(self._ids, event.id)
        return self._events[index - 1] if index > 0 else None

    def following(self, row: int) -> bool:
        """The row is that of the newest event."""
        return not self._shown or row == (0 if self.newest_first else len(self._shown) - 1)

    def _wanted(self, event: wire.Event) -> bool:
        return (not self.problems_only or is_problem(event)) and matches(event, self.text)

    def _choose(self) -> None:
        self._shown = [event for event in self._events if self._wanted(event)]
