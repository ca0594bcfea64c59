"""The card as one bar: who takes which part of it. In characters, for the shell and the screen."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Part(Enum):
    """What a stretch of the bar is; the values are its characters: it reads without colours."""

    OTHERS = "×"
    WEIGHTS = "█"
    CACHE = "▓"
    REST = "▒"
    FREE = "·"


PARTS: Final = {"weights": Part.WEIGHTS, "cache": Part.CACHE, "rest": Part.REST}
"""By the use of an allocation (`Use`)."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Cells of each part, from left to right."""

    parts: tuple[tuple[Part, int], ...]
    end: int | None
    """The cell at which the card ends, where more is wanted than it has."""


def bar_of(sizes: Iterable[tuple[str, int | None]], card: int | None, foreign: int | None, width: int) -> Bar | None:
    """Allocations by their use, and the card, in `width` cells; None where nothing can be drawn to scale."""
    parts = {Part.OTHERS: foreign or 0, Part.WEIGHTS: 0, Part.CACHE: 0, Part.REST: 0}
    for use, size in sizes:
        if size is None:
            return None
        parts[PARTS[use]] += size
    wanted = sum(parts.values())
    whole = max(wanted, card or 0)
    if whole == 0 or width < 1:
        return None
    parts[Part.FREE] = whole - wanted
    return Bar(_cells(parts, whole, width), None if card is None or wanted <= card else card * width // whole)


def _cells(sizes: dict[Part, int], whole: int, width: int) -> tuple[tuple[Part, int], ...]:
    """Each part ends where all before it and it itself end, so that rounding adds up."""
    found: list[tuple[Part, int]] = []
    done, before = 0, 0
    for part, size in sizes.items():
        before += size
        ends = round(before * width / whole)
        if ends > done:
            found.append((part, ends - done))
        done = max(done, ends)
    return tuple(found)
