"""What the sections of the card's view are made from, and how their rows look."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcops import wire, words
from arcops.core.cards.measures import Quantity
from arcops.tui.ink import Ink, Line, Lines, Piece, length, padded, plain, quiet, rule, strong
from arcops.tui.snapshot import Snapshot

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

LABEL = 15
"""Cells of a row's name."""
NEW = 3.0
"""Seconds up to which what was read needs no age."""
OLD = 8.0
"""Seconds from which on nothing of it may look live: it is asked for every two."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that the sections need to know."""

    snapshot: Snapshot
    findings: "tuple[Finding, ...]"
    looked: str
    """How old the findings are, in words."""
    look_problem: str
    """Why there are none."""
    events: Sequence[wire.Event]
    """Those of the history that are about the card, oldest first."""
    events_told: str
    """How far back they were looked for, or why they were not, in words."""
    cards: wire.Cards | None = None
    """The daemon's newest word of the cards, however old."""
    cards_problem: str = ""
    """Why there is none, or no newer one."""
    looking: bool = False
    """Every process is being looked at."""

    @property
    def cards_age(self) -> float:
        """Seconds since the daemon said it, by its own clock."""
        return 0.0 if self.cards is None else max(0.0, self.snapshot.now - self.cards.at)

    @property
    def old(self) -> bool:
        """What is known of the cards may not look live."""
        return self.cards_age > OLD or self.snapshot.stale

    def age_of(self, at: float) -> float:
        """Seconds since something of the cards was read, which is at least as old as the daemon's word.

        0 where it never was: then its reason says so.
        """
        return max(0.0, self.snapshot.now - at) if at else 0.0


def missing(facts: CardFacts, title: str, width: int) -> Lines:
    """The first section where nothing is known of any card: it is said once. Nothing where something is."""
    if facts.cards is None:
        why = words.unknown(facts.cards_problem) if facts.cards_problem else "the daemon is asked…"
    elif not facts.cards.cards:
        why = "the daemon knows of no card in this machine"
    else:
        return ()
    return (rule(title, width), *wrapped("", why, width))


def heading(title: str, remarks: Iterable[str], width: int) -> Line:
    """`── Memory · every process, 3 s ago ──`, with those remarks that say something."""
    return rule(title, width, remark=" · ".join(filter(None, remarks)))


def ago(seconds: float) -> str:
    """`14 s ago`; nothing of what is as good as new."""
    return f"{words.duration(seconds)} ago" if seconds > NEW else ""


def named(facts: CardFacts, card: wire.CardInfo) -> Lines:
    """A line with the card's name above its rows, where there are several."""
    if facts.cards is None or len(facts.cards.cards) < 2:
        return ()
    return ((strong(words.clean(card.address)), quiet(f"  {name_of(card)}")),)


def name_of(card: wire.CardInfo) -> str:
    """What it is called, or that it is not."""
    if card.vendor == 0:
        return "not in this machine"
    return words.clean(card.name) if card.name else f"[{card.vendor:04x}:{card.device:04x}]"


def measures(card: wire.CardInfo, quantity: Quantity) -> list[wire.CardMeasure]:
    """Those of a quantity: one for each part of the card."""
    return [one for one in card.measures if one.quantity == quantity.label]


def value_of(card: wire.CardInfo, quantity: Quantity) -> float | None:
    """The first value of a quantity that is known."""
    return next((one.value for one in measures(card, quantity) if one.value is not None), None)


def absence(card: wire.CardInfo, quantity: Quantity) -> str:
    """Why a quantity has no value."""
    found = next((one.absent for one in measures(card, quantity) if one.value is None), "")
    return words.clean(found) or "not in this driver"


def row(label: str, pieces: Sequence[Piece], ink: Ink = Ink.QUIET) -> Line:
    """A row of one line."""
    return ((padded(label, LABEL), ink), *pieces)


def wrapped(label: str, text: str, width: int, ink: Ink = Ink.PLAIN, most: int = 3) -> Iterator[Line]:
    """A row that may take some lines, each under the first."""
    for number, part in enumerate(words.wrapped(text, width - LABEL, most=most)):
        yield (quiet(padded(label if number == 0 else "", LABEL)), (part, ink))


def dimmed(facts: CardFacts, lines: Lines) -> Lines:
    """The same, so that it does not look live where it is not."""
    if not facts.old:
        return lines
    return tuple(tuple(quiet(text) for text, _ in line) for line in lines)


def beside(left: Lines, right: Lines, width: int, gap: int) -> Lines:
    """Two columns; `width` cells are the left one's, and its lines fit."""
    most = max(len(left), len(right))
    pairs = zip((*left, *((),) * (most - len(left))), (*right, *((),) * (most - len(right))), strict=True)
    return tuple((*one, plain(" " * max(0, width + gap - length(one))), *other) for one, other in pairs)
