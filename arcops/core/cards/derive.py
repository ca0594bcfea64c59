"""What follows from a card's measures: power and use from two looks at a counter, and which of them a line shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arcops.core.cards.measures import CardReading, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown

SHORTEST: Final = 0.05
"""Seconds between two looks: in less than that the counters' own steps are too coarse."""
MOST_POWER: Final = 5_000.0
"""Watts: no card takes more, so the counter was read wrongly."""

MAIN_PARTS: Final[dict[Quantity, tuple[str, ...]]] = {
    Quantity.POWER: ("card", "", "PPT", "energy1", "power1", "pkg"),
    Quantity.TEMPERATURE: ("pkg", "", "gpu", "edge"),
    Quantity.CLOCK: ("gt0", "", "sm", "sclk"),
    Quantity.BUSY: ("gt0", "", "gpu"),
}
"""Which part stands for the whole card, the best first: the card before the chip alone, the engines that compute."""


@dataclass(frozen=True, slots=True)
class Glance:
    """A card in a line: one reading of each."""

    memory_used: Reading[float]
    """Bytes."""
    memory_total: Reading[float]
    """Bytes."""
    power: Reading[float]
    """Watts."""
    temperature: Reading[float]
    """°C, of the package; where there is no such sensor, the hottest."""
    clock: Reading[float]
    """MHz, of the engines that compute."""
    busy: Reading[float]
    """0..1, of the engines that compute."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """A quantity that is the growth of a counter."""

    of: Quantity
    gives: Quantity
    value: Callable[[float], Reading[float]]
    """From the counter's growth a second; `at` is set afterwards."""


def derived(earlier: CardReading | None, later: CardReading) -> CardReading:
    """`later` with the power and the use that follow from what its counters have grown by since `earlier`.

    One for each part that has a counter; where the driver itself tells it, that stands. What cannot be derived is an
    absence with its reason.
    """
    if earlier is not None and earlier.address != later.address:
        earlier = None
    told = {(one.quantity, one.part) for one in later.measures if isinstance(one.reading, Known)}
    added = [
        Measure(rate.gives, _rate(rate, _counter(earlier, one), one.reading), f"{one.source}, two looks", one.part)
        for rate in _RATES
        for one in later.measures
        if one.quantity is rate.of and (rate.gives, one.part) not in told
    ]
    new = {(one.quantity, one.part) for one in added}
    kept = [one for one in later.measures if (one.quantity, one.part) not in new]
    return replace(later, measures=(*kept, *added))


def chosen(reading: CardReading) -> Glance:
    """The readings that a line of a screen shows."""
    return Glance(
        memory_used=reading.reading(Quantity.MEMORY_USED),
        memory_total=reading.reading(Quantity.MEMORY_TOTAL),
        power=_main(reading, Quantity.POWER),
        temperature=_main(reading, Quantity.TEMPERATURE, hottest=True),
        clock=_main(reading, Quantity.CLOCK),
        busy=_main(reading, Quantity.BUSY),
    )


def _main(reading: CardReading, quantity: Quantity, hottest: bool = False) -> Reading[float]:
    """Of the part that stands for the card; else of any, known ones before absences."""
    of: list[Measure] = [one for one in reading.measures if one.quantity is quantity]
    known = [(one.part, one.reading) for one in of if isinstance(one.reading, Known)]
    for part in MAIN_PARTS[quantity]:
        for name, value in known:
            if name == part:
                return value
    if hottest and known:
        return max((value for _, value in known), key=lambda one: one.value)
    return reading.reading(quantity)


def _counter(earlier: CardReading | None, later: Measure) -> Reading[float] | None:
    """The same counter at the earlier look; None where there was no such look, or no such counter."""
    if earlier is None:
        return None
    same: Sequence[Measure] = [
        one for one in earlier.measures if one.quantity is later.quantity and one.part == later.part
    ]
    return same[0].reading if same else None


def _rate(rate: _Rate, earlier: Reading[float] | None, later: Reading[float]) -> Reading[float]:
    match earlier, later:
        case _, Unknown():
            return later
        case None | Unknown(), Known(at=at):
            return Unknown("it takes two looks, and this is the first", at)
        case Known(value=first, at=began), Known(value=second, at=at):
            if at - began < SHORTEST:
                return Unknown("too little time between two looks", at)
            if second < first:
                return Unknown("its counter went back (the driver was loaded anew)", at)
            found = rate.value((second - first) / (at - began))
            return replace(found, at=at)


def _watts(growth: float) -> Reading[float]:
    """Joules a second."""
    return Known(growth, 0.0) if growth <= MOST_POWER else Unknown(f"{growth:g} W cannot be", 0.0)


def _share(growth: float) -> Reading[float]:
    """What is left of a second when it was idle for so much of it."""
    return Known(min(1.0, max(0.0, 1.0 - growth)), 0.0)


_RATES: Final = (_Rate(Quantity.ENERGY, Quantity.POWER, _watts), _Rate(Quantity.IDLE_TIME, Quantity.BUSY, _share))
