"""Intel's cards with the driver i915: Arc A-series, Flex, and the graphics part of processors.

Sources: Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon, the driver's files below its primary node
(`drm/cardN/gt/gtM`; older kernels have one gt alone, in `drm/cardN`), and include/uapi/drm/i915_drm.h.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from arcops.core.cards.measures import CardReading, Measure, Quantity, Unit
from arcops.machine.gpu import about, hwmon, i915_query, link, memory, throttle
from arcops.machine.gpu.base import MACHINE, CardIdentity, Roots
from arcops.machine.gpu.sysfs import Folder
from arcops.machine.gpu.uapi import Kernel, opened

EXPECTED = (Quantity.CLOCK, Quantity.IDLE_TIME, Quantity.ENERGY, Quantity.TEMPERATURE)
"""What this driver has for its cards: where it is missing that is said."""

_MEMORY = memory.Query("ioctl MEMORY_REGIONS", i915_query.memories, "needs CAP_PERFMON")


@dataclass(frozen=True, slots=True)
class _Gt:
    folder: Folder
    part: str
    """`gt0`."""
    clock: str
    """What its clock's files are called, `rps_{}_freq_mhz`."""
    idle: str
    throttle: str
    """Before the name of a reason."""


class I915Reader:
    """Reads the cards of the driver i915."""

    def __init__(self, kernel: Kernel = opened) -> None:
        self._kernel = kernel

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"i915"})

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, as of `at` (seconds, monotonic). Whatever cannot be read is an absence in it."""
        device = about.device_of(card, at, roots)
        gts = tuple(_gts(device))
        lanes, lane_words = link.link(device)
        sizes = memory.together(
            memory.asked(_MEMORY, card, at, roots, self._kernel),
            total=lambda: memory.from_window(card, device),
        )
        measures = (*sizes, *(measure for gt in gts for measure in _gt(device, gt)), *hwmon.sensors(device), *lanes)
        reading = CardReading(
            card.address,
            at,
            about.always(measures, EXPECTED, at),
            throttle.of([_throttling(gt) for gt in gts], at),
            (*about.details(card, device, roots), about.firmware(card, device, roots), lane_words),
        )
        return about.there(reading, card, device)


def _gts(device: Folder) -> Iterator[_Gt]:
    for node in device.below("drm").names(r"card[0-9]+")[:1]:
        primary = device.below("drm", node)
        names = primary.below("gt").names(r"gt[0-9]+")
        for name in names:
            yield _Gt(primary.below("gt", name), name, "rps_{}_freq_mhz", "rc6_residency_ms", "throttle_reason_")
        if not names:
            yield _Gt(primary, "gt0", "gt_{}_freq_mhz", "power/rc6_residency_ms", "throttle_reason_")


def _gt(device: Folder, gt: _Gt) -> Iterator[Measure]:
    for quantity, file in ((Quantity.CLOCK, gt.clock.format("act")), (Quantity.CLOCK_MAX, gt.clock.format("max"))):
        yield gt.folder.measure(quantity, file, f"{gt.part} {file}", gt.part)
    counted = gt.folder.measure(Quantity.IDLE_TIME, gt.idle, f"{gt.part} {gt.idle}", gt.part, 1e-3)
    yield about.idle_time(device, counted)


def _throttling(gt: _Gt) -> throttle.Throttling:
    status = gt.folder.number(f"{gt.throttle}status", Unit.COUNT)
    suffix = "" if gt.part == "gt0" else f" ({gt.part})"
    return throttle.Throttling(throttle.by_file(gt.folder, status, rf"{gt.throttle}(\w+)"), suffix)
