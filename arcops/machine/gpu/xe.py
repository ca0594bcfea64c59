"""Intel's cards with the driver xe: Arc B-series, and what else is bound to it.

Sources: the DOC comments of the driver on frequency, throttling and idle states of a gt, Documentation/ABI/testing
(sysfs-driver-intel-xe-hwmon), and include/uapi/drm/xe_drm.h. A gt is a group of engines with a clock of its own: gt0
computes and renders, gt1 is for media (on cards of several tiles each has its own).
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from arcops.core.cards.measures import CardReading, Detail, Measure, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import about, hwmon, link, memory, throttle, xe_query
from arcops.machine.gpu.base import MACHINE, CardIdentity, Roots
from arcops.machine.gpu.sysfs import PAGE, Folder
from arcops.machine.gpu.uapi import Kernel, opened

EXPECTED = (Quantity.CLOCK, Quantity.IDLE_TIME, Quantity.ENERGY, Quantity.TEMPERATURE)
"""What this driver has for its cards: where it is missing that is said."""

_MEMORY = memory.Query("ioctl MEM_REGIONS", xe_query.memories, "needs CAP_PERFMON, or Linux 6.18")


@dataclass(frozen=True, slots=True)
class _Gt:
    folder: Folder
    part: str
    """`gt0`."""
    path: str
    """`tile0/gt0`."""
    media: bool


class XeReader:
    """Reads the cards of the driver xe."""

    def __init__(self, kernel: Kernel = opened) -> None:
        self._kernel = kernel

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"xe"})

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, as of `at` (seconds, monotonic). Whatever cannot be read is an absence in it."""
        device = about.device_of(card, at, roots)
        gts = tuple(_gts(device))
        lanes, lane_words = link.link(device)
        measures = (
            *self._memory(card, device, roots),
            *(measure for gt in gts for measure in _gt(device, gt)),
            *hwmon.sensors(device),
            *lanes,
        )
        reading = CardReading(
            card.address,
            at,
            about.always(measures, EXPECTED, at),
            throttle.of([_throttling(gt) for gt in gts], at),
            (*about.details(card, device, roots), self._firmware(card, device, roots), lane_words),
        )
        return about.there(reading, card, device)

    def _memory(self, card: CardIdentity, device: Folder, roots: Roots) -> tuple[Measure, Measure]:
        return memory.together(
            memory.asked(_MEMORY, card, device.at, roots, self._kernel),
            lambda: memory.from_debugfs(card, device, roots),
            total=lambda: memory.from_window(card, device),
        )

    def _firmware(self, card: CardIdentity, device: Folder, roots: Roots) -> Detail:
        """GuC's release, which only root may read, else the version of its interface."""
        release = about.firmware(card, device, roots)
        if isinstance(release.reading, Known):
            return release
        return Detail("firmware", self._interface(card, device, roots), "ioctl UC_FW_VERSION")

    def _interface(self, card: CardIdentity, device: Folder, roots: Roots) -> Reading[str]:
        if card.render_node is None:
            return Unknown("the driver has made no render node", device.at)
        node = os.path.basename(card.render_node)
        try:
            with self._kernel(os.path.join(roots.dev, "dri", node)) as ask:
                return Known(f"GuC submission {xe_query.guc_submission(ask)}", device.at)
        except OSError as error:
            return Unknown(memory.why_not(error, node), device.at)
        except (ValueError, struct.error) as error:
            return Unknown(str(error), device.at)


def _gts(device: Folder) -> Iterator[_Gt]:
    """Every gt of every tile, the computing ones first. Their numbers are the device's, not the tile's."""
    found: list[_Gt] = []
    for tile in device.names(r"tile[0-9]+"):
        for name in device.below(tile).names(r"gt[0-9]+"):
            folder = device.below(tile, name)
            part = name if all(one.part != name for one in found) else f"{tile}/{name}"
            found.append(_Gt(folder, part, f"{tile}/{name}", _is_media(folder, name)))
    return iter(sorted(found, key=lambda gt: gt.media))


def _is_media(folder: Folder, name: str) -> bool:
    """The idle state of a media gt is called `gt1-mc`, of the others `gt0-rc`."""
    idle = folder.words("gtidle/name")
    return idle.value.endswith("-mc") if isinstance(idle, Known) else name == "gt1"


def _gt(device: Folder, gt: _Gt) -> Iterator[Measure]:
    role = "media" if gt.media else "compute"
    for quantity, file in ((Quantity.CLOCK, "freq0/act_freq"), (Quantity.CLOCK_MAX, "freq0/max_freq")):
        yield gt.folder.measure(quantity, file, f"{gt.path}/{file} ({role})", gt.part)
    idle = "gtidle/idle_residency_ms"
    counted = gt.folder.measure(Quantity.IDLE_TIME, idle, f"{gt.path}/{idle} ({role})", gt.part, 1e-3)
    yield about.idle_time(device, counted)
    timeout = "engines/ccs/job_timeout_ms"
    if not gt.media:
        yield gt.folder.measure(Quantity.JOB_TIMEOUT, timeout, f"{gt.path}/{timeout}", gt.part, 1e-3)


def _throttling(gt: _Gt) -> throttle.Throttling:
    """From `throttle/reasons` where the kernel has it, else from a file for each reason."""
    folder = gt.folder.below("freq0", "throttle")
    suffix = f" ({gt.part})" if gt.media else ""
    named = folder.words("reasons", PAGE)
    if isinstance(named, Known):
        return throttle.Throttling(Known(tuple(throttle.words(named.value)), folder.at), suffix)
    return throttle.Throttling(throttle.by_file(folder, folder.number("status", Unit.COUNT), r"reason_(\w+)"), suffix)
