"""What befell a card: resets, wedges and losses, as kernel, driver and devices tell of them; each counted once.

One reset prints ten lines, sends an event and leaves a dump behind. What is told of one card within some seconds is one
incident: its gravest word stands, and whichever line names the engine and the process lends it those.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

TOGETHER = 5.0
"""Seconds from the first word of an incident within which what is said of its card is about the same one. xe ends a job
after 5 s (`job_timeout_ms`), so that two resets of one card are seldom closer."""
CLOSING = 60.0
"""Seconds within which a reset's end (`reset done`) belongs to the last incident: amdgpu's take some ten."""
KEPT = 32
"""Incidents that are kept of a card, the newest; the counts go on."""
MOST_CARDS = 64
"""Cards that are told apart; more than a machine has, and a bound for what untrusted lines may name."""


class Kind(Enum):
    """What befell a card, and what that means in a sentence. The names in lower case are an interface."""

    RECOVERY = "recovery", "it was brought back: bound anew, or its driver needs nothing any more"
    COREDUMP = "coredump", "the driver has kept a dump of the device"
    PAGE_FAULT = "page_fault", "a job used memory of the card that is not mapped"
    JOB_TIMEOUT = "job_timeout", "a job on the card took too long"
    RESET = "reset", "the driver reset the card or one of its engines"
    MEMORY_ERROR = "memory_error", "the card's memory had an error"
    GONE = "gone", "the card is gone from its bus, or answers no more"
    WEDGED = "wedged", "the driver has given the card up"

    def __init__(self, label: str, words: str) -> None:
        self.label = label
        self.words = words


_GRAVITY: Final[Mapping[Kind, int]] = MappingProxyType({kind: number for number, kind in enumerate(Kind)})
"""In the order above: what says most of a card's state stands for an incident."""
FATAL = frozenset({Kind.WEDGED, Kind.GONE})
"""Only a rebind or a reboot helps: no process restart recovers the card."""
OF_THE_CARD = FATAL | {Kind.RESET, Kind.JOB_TIMEOUT, Kind.MEMORY_ERROR}
"""The driver had to reset something, or the hardware failed. (A page fault alone may be a fault of what ran there.)"""


class Source(Enum):
    """Who told of it. The values are an interface."""

    KERNEL_LOG = "kernel log"
    UEVENT = "uevent"
    DEVCOREDUMP = "devcoredump"
    NVML = "NVML"


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that befell one card, or one line that tells of it. Everything in it is untrusted text's word."""

    at: float
    """Seconds, monotonic."""
    card: str | None
    """PCI address, as sysfs writes it; None where nobody said: it may be any card."""
    kind: Kind
    text: str
    """The line that says so."""
    source: Source
    driver: str = ""
    engine: str | None = None
    """Class of the engine (`ccs`), or its name where the driver gives one."""
    pid: int | None = None
    command: str | None = None
    reset: bool = False
    """The card, or an engine of it, was reset."""
    closes: bool = False
    """It tells of the end of a reset that was told of before."""
    past: bool = False
    """It was before this supervisor watched: it counts, and is not told anew."""

    def __str__(self) -> str:
        """What befell whom, in one sentence without the line."""
        which = "a card that the line does not name" if self.card is None else f"card {self.card}"
        who = f"{self.command} [{self.pid}]" if self.command and self.pid else f"process {self.pid}" if self.pid else ""
        where = ", ".join(part for part in (f"engine {self.engine}" if self.engine else "", who) if part)
        return f"{which}: {self.kind.words}" + (f" ({where})" if where else "")


def graver(one: Incident, other: Incident) -> bool:
    """`one` says worse of the card than `other`."""
    return _GRAVITY[one.kind] > _GRAVITY[other.kind]


def joined(first: Incident, later: Incident) -> Incident | None:
    """Both as one incident; None where `later` is another one.

    What brought a card back is never the same as what befell it.
    """
    if first.card != later.card or Kind.RECOVERY in (first.kind, later.kind):
        return None
    apart = later.at - first.at
    if not -TOGETHER <= apart <= (CLOSING if later.closes and first.reset else TOGETHER):
        return None
    stands = later if graver(later, first) else first
    return replace(
        stands,
        at=min(first.at, later.at),
        driver=stands.driver or first.driver or later.driver,
        engine=first.engine or later.engine,
        pid=first.pid if first.pid is not None else later.pid,
        command=first.command if first.pid is not None else later.command,
        reset=first.reset or later.reset,
        closes=False,
        past=first.past and later.past,
    )


def fatal(incidents: tuple[Incident, ...], since: float) -> Incident | None:
    """The last word of these, at `since` or later, after which a card does not work; None where it works.

    A card that was brought back is forgiven what was said of it before.
    """
    standing: dict[str | None, Incident] = {}
    for one in incidents:
        if one.kind is Kind.RECOVERY:
            standing.pop(one.card, None)
        elif one.kind in FATAL and one.at >= since:
            standing[one.card] = one
    return max(standing.values(), key=lambda one: one.at, default=None)


@dataclass(frozen=True, slots=True)
class Noted:
    """What came of a word."""

    incident: Incident
    new: bool
    """It began one."""


class Ledger:
    """The incidents of all cards since boot: the last ones of each, and how many there were."""

    def __init__(self) -> None:
        self._by_card: dict[str | None, deque[Incident]] = {}
        self._resets: dict[str | None, int] = {}
        self._given_up: dict[str | None, Incident] = {}
        """What still stands of those that are not kept any more: what comes later does not bring a card back."""

    def note(self, told: Incident) -> Noted | None:
        """Take up one line's word: a new incident, or the last one of its card, with that word in it.

        None for a card past `MOST_CARDS`: nothing is kept of it.
        """
        kept = self._by_card.get(told.card)
        if kept is None:
            if len(self._by_card) >= MOST_CARDS:
                return None
            kept = self._by_card[told.card] = deque(maxlen=KEPT)
        last = kept[-1] if kept else None
        both = None if last is None else joined(last, told)
        if last is None or both is None:
            self._count(told.card, told.reset)
            if len(kept) == KEPT:
                self._let_go(kept[0])
            kept.append(told)
            return Noted(told, new=True)
        self._count(told.card, both.reset and not last.reset)
        kept[-1] = both
        return Noted(both, new=False)

    def _count(self, card: str | None, counts: bool) -> None:
        self._resets[card] = self._resets.get(card, 0) + counts

    def _let_go(self, oldest: Incident) -> None:
        if oldest.kind in FATAL:
            self._given_up[oldest.card] = oldest
        elif oldest.kind is Kind.RECOVERY:
            self._given_up.pop(oldest.card, None)

    def of(self, card: str | None) -> tuple[Incident, ...]:
        """The last incidents of a card, oldest first; before them the one that gave it up, where that still stands."""
        given_up = self._given_up.get(card)
        return (*(() if given_up is None else (given_up,)), *self._by_card.get(card, ()))

    def resets(self, card: str) -> int:
        """How often it was reset, as far as anybody said."""
        return self._resets.get(card, 0)
