"""arcops' reading of a card against nvidia-smi's figures, measure by measure. Pure.

nvidia-smi is asked between two readings of ours. A figure agrees that lies between them, or no further from the nearer
one than the tolerance; where both say that the card has no such thing, they agree as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu.nvml_measures import TRANSFERS, reasons

MIB = 1024 * 1024

Figures: TypeAlias = Mapping[str, str]
"""nvidia-smi's, by field."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A measure and the field of nvidia-smi's that says the same."""

    quantity: Quantity
    part: str
    field: str
    scale: float
    """nvidia-smi's unit in ours."""
    tolerance: float
    """In our unit: what can pass between two looks a moment apart."""


PAIRS = (
    Pair(Quantity.MEMORY_TOTAL, "", "memory.total", MIB, MIB),
    Pair(Quantity.MEMORY_USED, "", "memory.used", MIB, 2 * MIB),
    Pair(Quantity.MEMORY_RESERVED, "", "memory.reserved", MIB, 2 * MIB),
    Pair(Quantity.CLOCK, "sm", "clocks.sm", 1, 300),
    Pair(Quantity.CLOCK, "memory", "clocks.mem", 1, 1),
    Pair(Quantity.CLOCK_MAX, "sm", "clocks.max.sm", 1, 0),
    Pair(Quantity.CLOCK_MAX, "memory", "clocks.max.mem", 1, 0),
    Pair(Quantity.BUSY, "", "utilization.gpu", 0.01, 0.2),
    Pair(Quantity.BUSY, "memory", "utilization.memory", 0.01, 0.3),
    Pair(Quantity.POWER, "", "power.draw", 1, 50),
    Pair(Quantity.POWER_LIMIT, "", "enforced.power.limit", 1, 0.01),
    Pair(Quantity.TEMPERATURE, "gpu", "temperature.gpu", 1, 2),
    Pair(Quantity.TEMPERATURE, "memory", "temperature.memory", 1, 2),
    Pair(Quantity.FAN, "fan1", "fan.speed", 1, 0),
    Pair(Quantity.LINK_WIDTH, "", "pcie.link.width.current", 1, 0),
    Pair(Quantity.MEMORY_ERRORS, "", "ecc.errors.uncorrected.volatile.total", 1, 0),
)
"""The fan is compared in its absence only: nvidia-smi gives per cent, and we rotations."""

GENERATION, EVENTS = "pcie.link.gen.current", "clocks_event_reasons.active"
WORDS = {"name": "name", "driver": "driver_version", "vbios": "vbios_version"}
"""Details, and the fields that say the same, letter by letter."""

FIELDS = (*(one.field for one in PAIRS), GENERATION, EVENTS, *WORDS.values())


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    what: str
    before: float | str
    """Ours; words where it is absent."""
    nvidia_smi: str
    after: float | str
    tolerance: float
    agree: bool


def figures(line: str) -> Figures:
    """A line of `--format=csv,noheader,nounits`, by field. Raises ValueError where it is not as long as was asked."""
    return dict(zip(FIELDS, (part.strip() for part in line.split(",")), strict=True))


def compare(before: CardReading, said: Figures, after: CardReading) -> tuple[Row, ...]:
    """Every measure and detail that both have a word for."""
    return (
        *(_number(pair, before, said[pair.field], after) for pair in PAIRS),
        _speed(before, said[GENERATION], after),
        _throttling(before, said[EVENTS], after),
        *(_words(name, before, said[field], after) for name, field in WORDS.items()),
    )


def as_figures(rows: Sequence[Row]) -> Mapping[str, object]:
    """For the figures of a scene: how many agree, which do not, and all of them."""
    return {
        "compared": len(rows),
        "agree": sum(one.agree for one in rows),
        "disagree": [one.what for one in rows if not one.agree],
        "rows": [asdict(one) for one in rows],
    }


def _number(pair: Pair, before: CardReading, said: str, after: CardReading) -> Row:
    first, second = before.reading(pair.quantity, pair.part), after.reading(pair.quantity, pair.part)
    theirs = _parsed(said)
    if isinstance(first, Unknown) or isinstance(second, Unknown) or theirs is None:
        agree = theirs is None and isinstance(first, Unknown) and isinstance(second, Unknown)
    else:
        low, high = sorted((first.value, second.value))
        agree = low - pair.tolerance <= theirs * pair.scale <= high + pair.tolerance
    what = f"{pair.quantity.label} {pair.part}".strip()
    return Row(what, _shown(first), said, _shown(second), pair.tolerance, agree)


def _speed(before: CardReading, said: str, after: CardReading) -> Row:
    first, second = before.reading(Quantity.LINK_SPEED), after.reading(Quantity.LINK_SPEED)
    expected = TRANSFERS.get(int(_parsed(said) or 0))
    agree = expected is not None and expected in (_shown(first), _shown(second))
    return Row("link_speed", _shown(first), f"generation {said}", _shown(second), 0, agree)


def _throttling(before: CardReading, said: str, after: CardReading) -> Row:
    first, second = _reasons(before), _reasons(after)
    expected = ", ".join(reasons(int(said, 16))) if said.startswith("0x") else None
    agree = expected in (first, second)
    return Row("throttling", first or "", said, second or "", 0, agree)


def _reasons(reading: CardReading) -> str | None:
    found = reading.throttling
    return ", ".join(found.value) if isinstance(found, Known) else None


def _words(name: str, before: CardReading, said: str, after: CardReading) -> Row:
    first, second = _detail(before, name), _detail(after, name)
    return Row(name, first, said, second, 0, first == second == said)


def _detail(reading: CardReading, name: str) -> str:
    found = next((one.reading for one in reading.details if one.name == name), None)
    return found.value if isinstance(found, Known) else "absent"


def _shown(reading: Known[float] | Unknown) -> float | str:
    return reading.value if isinstance(reading, Known) else f"absent: {reading.reason}"


def _parsed(said: str) -> float | None:
    """None for `[N/A]`, `N/A`, `[Not Supported]`."""
    try:
        return float(said)
    except ValueError:
        return None
