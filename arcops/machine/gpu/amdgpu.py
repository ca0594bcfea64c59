"""AMD's cards with the driver amdgpu.

Source: Documentation/gpu/amdgpu (driver-misc, thermal, ras). Why a card throttles is told in a binary file alone
(`gpu_metrics`, in as many versions as there are generations), and is not read.
"""

import os
import re
from collections.abc import Iterator

from arcops.core.cards.measures import CardReading, Detail, Measure, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import about, hwmon, link, sysfs
from arcops.machine.gpu.base import MACHINE, CardIdentity, Roots
from arcops.machine.gpu.sysfs import Folder

EXPECTED = (Quantity.TEMPERATURE, Quantity.POWER)
"""What this driver has for its cards: where it is missing that is said."""

_LEVEL = re.compile(r"\s*(?:[0-9]{1,3}|S):\s*([0-9]{1,6})\s*MHz\s*(\*?)\s*", re.IGNORECASE)
"""`1: 2500Mhz *`: the star is at the level that the clock is at; S is that of deep sleep."""
_CLOCKS = (("pp_dpm_sclk", "sclk"), ("pp_dpm_mclk", "mclk"))
_UNCORRECTED = re.compile(r"^ue:\s*([0-9]{1,20})\s*$", re.MULTILINE)
_THROTTLING = "only in the driver's binary gpu_metrics"


class AmdgpuReader:
    """Reads the cards of the driver amdgpu."""

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"amdgpu"})

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, as of `at` (seconds, monotonic). Whatever cannot be read is an absence in it."""
        device = about.device_of(card, at, roots)
        lanes, lane_words = link.link(device)
        measures = (
            *_memory(device),
            *(measure for file, part in _CLOCKS for measure in _clock(device, file, part)),
            device.measure(Quantity.BUSY, "gpu_busy_percent", "gpu_busy_percent", scale=1e-2),
            *hwmon.sensors(device),
            *lanes,
            *_errors(device),
        )
        firmware = device.detail("firmware", "vbios_version", "sysfs vbios_version")
        reading = CardReading(
            card.address,
            at,
            about.always(measures, EXPECTED, at),
            Unknown(_THROTTLING, at),
            (*about.details(card, device, roots), firmware, *_product(device), lane_words),
        )
        return about.there(reading, card, device)


def _memory(device: Folder) -> tuple[Measure, Measure]:
    total = device.measure(Quantity.MEMORY_TOTAL, "mem_info_vram_total", "sysfs mem_info_vram_total")
    used = device.measure(Quantity.MEMORY_USED, "mem_info_vram_used", "sysfs mem_info_vram_used")
    match total.reading, used.reading:
        case Known(value=size), Known(value=held) if held > size:
            why = Unknown(f"the driver says {held:g} of {size:g} bytes in use, which cannot be", device.at)
            return total, Measure(used.quantity, why, used.source)
        case Known(value=0), _:
            why = Unknown("the driver says that it has none", device.at)
            return Measure(total.quantity, why, total.source), Measure(used.quantity, why, used.source)
        case _:
            return total, used


def _clock(device: Folder, file: str, part: str) -> Iterator[Measure]:
    """The level that has the star, and the highest."""
    levels: list[tuple[float, bool]] = []
    reason = "the driver's levels there are not understood"
    try:
        lines = sysfs.read(os.path.join(device.path, file)).splitlines()
        levels = [(float(match[1]), bool(match[2])) for line in lines if (match := _LEVEL.fullmatch(line))]
    except OSError as error:
        reason = sysfs.reason(error)
    now = [clock for clock, here in levels if here]
    most = [clock for clock, _ in levels]
    for quantity, clocks in ((Quantity.CLOCK, now[:1]), (Quantity.CLOCK_MAX, most)):
        value: Reading[float] = Unknown(reason, device.at)
        if clocks:
            value = sysfs.plausible(max(clocks), Unit.MEGAHERTZ, device.at)
        yield Measure(quantity, value, f"sysfs {file}", part)


def _errors(device: Folder) -> Iterator[Measure]:
    """Errors of the memory that could not be corrected, where the card counts them (RAS)."""
    file = "ras/umc_err_count"
    try:
        found = _UNCORRECTED.search(sysfs.read(os.path.join(device.path, file)))
    except OSError as error:
        yield Measure(Quantity.MEMORY_ERRORS, Unknown(sysfs.reason(error), device.at), f"sysfs {file}", "vram")
        return
    count = sysfs.number(found.group(1) if found else "", Unit.COUNT, device.at)
    yield Measure(Quantity.MEMORY_ERRORS, count, f"sysfs {file}", "vram")


def _product(device: Folder) -> Iterator[Detail]:
    """What the card calls itself: only those for servers do."""
    detail = device.detail("product", "product_name", "sysfs product_name")
    if isinstance(detail.reading, Known):
        yield detail
