"""A launch's cards in four numbers: what the history keeps of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one card, or of several together. None is unknown, and never 0."""

    memory: float | None = None
    """Bytes in use, together."""
    power: float | None = None
    """Watts, together."""
    temperature: float | None = None
    """°C, of the hottest."""
    clock: float | None = None
    """MHz of the compute engines, of the slowest."""


NO_FIGURES: Final = Figures()


def together(cards: Sequence[Figures]) -> Figures:
    """Several cards as one. What is unknown of one of them is unknown of all: a sum of the others would be too low."""
    return Figures(
        memory=_folded(sum, [card.memory for card in cards]),
        power=_folded(sum, [card.power for card in cards]),
        temperature=_folded(max, [card.temperature for card in cards]),
        clock=_folded(min, [card.clock for card in cards]),
    )


def _folded(fold: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fold(known) if known and len(known) == len(values) else None
