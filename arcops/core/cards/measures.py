"""The measures of a card: each a value with its unit, source and time, or an absence with its reason."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arcops.core.quantity import Reading, Unknown


class Unit(Enum):
    """Of a measure. The values are shown, and are an interface."""

    BYTES = "B"
    MEGAHERTZ = "MHz"
    CELSIUS = "°C"
    WATTS = "W"
    JOULES = "J"
    SECONDS = "s"
    SHARE = "1"
    """0..1."""
    ROTATIONS = "rpm"
    LANES = "lanes"
    TRANSFERS = "GT/s"
    COUNT = "count"


class Quantity(Enum):
    """What can be measured of a card: a name, which is an interface (API, metrics, history), and its unit."""

    MEMORY_TOTAL = "memory_total", Unit.BYTES
    MEMORY_USED = "memory_used", Unit.BYTES
    """By everybody and the driver's own needs left out where the driver tells them apart."""
    MEMORY_RESERVED = "memory_reserved", Unit.BYTES
    """What the driver keeps for itself, where it says so."""
    CLOCK = "clock", Unit.MEGAHERTZ
    """What an engine runs at now; labels name the engine."""
    CLOCK_MAX = "clock_max", Unit.MEGAHERTZ
    BUSY = "busy", Unit.SHARE
    IDLE_TIME = "idle_time", Unit.SECONDS
    """A counter: `BUSY` comes of two looks at it."""
    POWER = "power", Unit.WATTS
    ENERGY = "energy", Unit.JOULES
    """A counter: `POWER` comes of two looks at it."""
    POWER_LIMIT = "power_limit", Unit.WATTS
    TEMPERATURE = "temperature", Unit.CELSIUS
    FAN = "fan", Unit.ROTATIONS
    LINK_WIDTH = "link_width", Unit.LANES
    LINK_SPEED = "link_speed", Unit.TRANSFERS
    JOB_TIMEOUT = "job_timeout", Unit.SECONDS
    """After which the driver ends a job on the compute engines and resets them."""
    MEMORY_ERRORS = "memory_errors", Unit.COUNT
    """Uncorrected, since boot or since the driver was loaded."""

    def __init__(self, label: str, unit: Unit) -> None:
        self.label = label
        self.unit = unit


HAS_NONE: Final = "this card has no"
"""How the reason of an absence begins that leaves nothing unknown: a card without a fan has no speed of one."""

_NOT_READ = Unknown("not in this driver", 0.0)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of a card."""

    quantity: Quantity
    reading: Reading[float]
    """In the quantity's unit."""
    source: str
    """Where it was read, for a person: `hwmon temp2 (pkg)`, `NVML`, `ioctl MEM_REGIONS`."""
    part: str = ""
    """Of which part of the card, where it has several: `gt0`, `vram`, `fan1`."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Something about a card that is words and no number: a version, a link's place."""

    name: str
    """`driver`, `firmware`, ...: an interface."""
    reading: Reading[str]
    source: str


@dataclass(frozen=True, slots=True)
class CardReading:
    """One look at one card. `at` in seconds, monotonic."""

    address: str
    at: float
    measures: tuple[Measure, ...] = ()
    throttling: Reading[tuple[str, ...]] = _NOT_READ
    """Why the card is held below the clock that was asked for, in the driver's words; empty when it is not."""
    details: tuple[Detail, ...] = ()

    def reading(self, quantity: Quantity, part: str | None = None) -> Reading[float]:
        """The first measure of this quantity (of this part), known ones before absences."""
        found = [
            one.reading for one in self.measures if one.quantity is quantity and (part is None or one.part == part)
        ]
        known = [one for one in found if not isinstance(one, Unknown)]
        return known[0] if known else found[0] if found else Unknown("not in this driver", self.at)
