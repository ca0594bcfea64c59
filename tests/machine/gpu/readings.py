"""What tests of the readers share: a reading laid out, taken, and looked into."""

import math
from pathlib import Path

from arcops.core.cards.measures import CardReading, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import find_cards
from arcops.machine.gpu.base import CardIdentity, Roots
from tests.trees.sysfs import Card, lay

AT = 100.0
LONGEST = 200
"""Characters of any text in a reading."""


def laid(root: Path, *cards: Card) -> tuple[Roots, dict[str, CardIdentity]]:
    """These cards laid out, and what is found of them, by address."""
    roots = lay(root, *cards)
    return roots, {card.address: card for card in find_cards(roots.sys)}


def value(reading: CardReading, quantity: Quantity, part: str | None = None) -> float:
    """The one value of this quantity (and part)."""
    found = reading.reading(quantity, part)
    assert isinstance(found, Known), found
    return found.value


def absence(reading: CardReading, quantity: Quantity, part: str | None = None) -> str:
    """Why there is no such value."""
    found = reading.reading(quantity, part)
    assert isinstance(found, Unknown), found
    return found.reason


def parts(reading: CardReading, quantity: Quantity) -> list[str]:
    return [one.part for one in reading.measures if one.quantity is quantity]


def source(reading: CardReading, quantity: Quantity, part: str = "") -> str:
    return next(one.source for one in reading.measures if one.quantity is quantity and one.part == part)


def detail(reading: CardReading, name: str) -> str:
    """The text of a detail, or why there is none."""
    found = next(one.reading for one in reading.details if one.name == name)
    return found.value if isinstance(found, Known) else f"absent: {found.reason}"


def reasons(reading: CardReading) -> tuple[str, ...]:
    assert isinstance(reading.throttling, Known), reading.throttling
    return reading.throttling.value


def is_sound(reading: CardReading) -> None:
    """Whatever the files held: each measure is a number that can be true of a card, or an absence with its reason."""
    for one in reading.measures:
        _is_told(one.reading)
        assert len(one.source) + len(one.part) <= LONGEST
        assert f"{one.source}{one.part}".isprintable()
        if isinstance(one.reading, Known):
            number = one.reading.value
            assert math.isfinite(number)
            assert number >= (-60 if one.quantity.unit is Unit.CELSIUS else 0), one
            assert number <= 1 or one.quantity.unit is not Unit.SHARE, one
    keys = [(one.quantity, one.part) for one in reading.measures]
    assert len(keys) == len(set(keys)), "a measure is there twice"
    total, used = (reading.reading(one) for one in (Quantity.MEMORY_TOTAL, Quantity.MEMORY_USED))
    if isinstance(total, Known) and isinstance(used, Known):
        assert used.value <= total.value
    _is_told(reading.throttling)
    for entry in reading.details:
        _is_told(entry.reading)
        if isinstance(entry.reading, Known):
            assert entry.reading.value.isprintable()
            assert 0 < len(entry.reading.value) <= LONGEST


def _is_told(reading: Reading[float] | Reading[str] | Reading[tuple[str, ...]]) -> None:
    assert reading.at == AT
    if isinstance(reading, Unknown):
        assert 0 < len(reading.reason) <= LONGEST
        assert reading.reason.isprintable()
