"""A card's sensors, from the hwmon folders below its device: by label, never by number.

Sources: Documentation/hwmon/sysfs-interface.rst and Documentation/ABI/testing/sysfs-driver-intel-{xe,i915}-hwmon.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from arcops.core.cards.measures import Measure, Quantity
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu.sysfs import Folder

LONGEST_LABEL = 40
"""Characters: a label is an interface, and comes from the driver."""
MOST = 64
"""Sensors of one kind that are read: a B70 has twenty temperatures."""

_ATTRIBUTE = re.compile(r"(temp|fan|power|energy)([0-9]{1,3})_(input|average|max|cap|crit)")
_SLOW = re.compile(r"vram_ch_[0-9]+")
"""A sensor for each channel of the memory: 16 of them, some 100 ms each. `vram` is the hottest of them."""
_GT = re.compile(r"(?:i915|xe)_(gt[0-9]+)")
"""A hwmon folder of one gt: there are some beside the card's own."""
_NO_LIMIT = "no limit is set"


@dataclass(frozen=True, slots=True)
class _Kind:
    quantity: Quantity
    scale: float
    """From the file's unit to the quantity's."""
    also: str = ""
    """Added to the sensor's label where one sensor has several values of the quantity."""


_KINDS: dict[tuple[str, str], _Kind] = {
    ("temp", "input"): _Kind(Quantity.TEMPERATURE, 1e-3),
    ("fan", "input"): _Kind(Quantity.FAN, 1),
    ("energy", "input"): _Kind(Quantity.ENERGY, 1e-6),
    ("power", "average"): _Kind(Quantity.POWER, 1e-6),
    ("power", "input"): _Kind(Quantity.POWER, 1e-6),
    ("power", "max"): _Kind(Quantity.POWER_LIMIT, 1e-6, "sustained"),
    ("power", "cap"): _Kind(Quantity.POWER_LIMIT, 1e-6),
    ("power", "crit"): _Kind(Quantity.POWER_LIMIT, 1e-6, "peak"),
}
"""In millidegrees, rotations a minute, microjoules, microwatts."""


def sensors(device: Folder) -> tuple[Measure, ...]:
    """Every sensor of the card that has a value of its own, by number. One that cannot be read is an absence."""
    folders = device.below("hwmon").names(r"hwmon[0-9]+")
    found = [measure for name in folders for measure in _sensors(device.below("hwmon", name))]
    return tuple(_told_apart(found))


def _sensors(folder: Folder) -> Iterator[Measure]:
    files = {match.group(): match for name in folder.names(_ATTRIBUTE.pattern) if (match := _ATTRIBUTE.fullmatch(name))}
    chip = folder.words("name")
    gt = _GT.fullmatch(chip.value) if isinstance(chip, Known) else None
    seen: dict[str, int] = {}
    for name, match in files.items():
        what, number, attribute = match.groups()
        kind = _KINDS.get((what, attribute))
        if kind is None or (attribute == "input" and f"{what}{number}_average" in files):
            continue
        label = folder.words(f"{what}{number}_label")
        part = label.value[:LONGEST_LABEL] if isinstance(label, Known) else gt.group(1) if gt else f"{what}{number}"
        seen[what] = seen.get(what, 0) + 1
        if _SLOW.fullmatch(part) or seen[what] > MOST:
            continue
        called = f" ({part})" if part != f"{what}{number}" else ""
        named = f"{part} {kind.also}".strip()
        yield _checked(folder.measure(kind.quantity, name, f"hwmon {name}{called}", named, kind.scale))


def _checked(measure: Measure) -> Measure:
    """A limit of 0 is none at all."""
    match measure.reading:
        case Known(value=0, at=at) if measure.quantity is Quantity.POWER_LIMIT:
            return replace(measure, reading=Unknown(_NO_LIMIT, at))
        case _:
            return measure


def _told_apart(measures: list[Measure]) -> Iterator[Measure]:
    """Sensors with the same label get the number in which they come."""
    seen: dict[tuple[Quantity, str], int] = {}
    for measure in measures:
        key = (measure.quantity, measure.part)
        seen[key] = seen.get(key, 0) + 1
        yield measure if seen[key] == 1 else replace(measure, part=f"{measure.part} {seen[key]}")
