"""A card's memory as a whole: from the driver's answer, else from debugfs (root), else the size of a PCI window."""

import errno
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from arcops.core.cards.measures import Measure, Quantity, Unit
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu import about, sysfs
from arcops.machine.gpu.base import CardIdentity, Roots
from arcops.machine.gpu.pci import memory_of
from arcops.machine.gpu.sysfs import Folder
from arcops.machine.gpu.uapi import Ask, Kernel

NOT_ITS_OWN = "it has no memory of its own, and uses the host's"
SMALL_WINDOW = 256 * 2**20
"""Bytes: without resizable BAR a card's window is of this size, whatever its memory."""
_PREFETCHABLE = 0x2000
"""IORESOURCE_PREFETCH of include/linux/ioport.h."""
_BARS = 6
"""A function's own windows come first in `resource`; after them its ROM, and those of its virtual functions."""
_DEBUGFS = re.compile(r"^\s*(size|usage):\s*([0-9]{1,20})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Region:
    """A memory of the card's own. Bytes."""

    total: int
    used: int | None
    """None where the driver does not tell this user. A card whose driver is up never has 0 in use: the driver's own
    buffers are there. So 0 is no reading."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What one source says of the memory."""

    total: Measure
    used: Measure


@dataclass(frozen=True, slots=True)
class Query:
    """What one driver is asked for its card's memories."""

    source: str
    memories: Callable[[Ask], tuple[Region, ...]]
    """Raises OSError where the driver refuses, ValueError for an answer that cannot be."""
    untold: str
    """Why `Region.used` may be missing."""


def asked(query: Query, card: CardIdentity, at: float, roots: Roots, kernel: Kernel) -> Sizes:
    """By the driver's own word, through the card's render node, which is closed at once."""
    source = query.source
    if card.render_node is None:
        return _absent("the driver has made no render node", at, source)
    name = os.path.basename(card.render_node)
    try:
        with kernel(os.path.join(roots.dev, "dri", name)) as ask:
            regions = query.memories(ask)
    except OSError as error:
        return _absent(why_not(error, name), at, source)
    except (ValueError, struct.error) as error:
        return _absent(str(error), at, source)
    if not regions:
        return _absent(NOT_ITS_OWN, at, source)
    used = [region.used for region in regions if region.used is not None]
    total = Known(float(sum(region.total for region in regions)), at)
    known = Known(float(sum(used)), at) if len(used) == len(regions) else Unknown(query.untold, at)
    return Sizes(Measure(Quantity.MEMORY_TOTAL, total, source), Measure(Quantity.MEMORY_USED, known, source))


def from_debugfs(card: CardIdentity, device: Folder, roots: Roots) -> Sizes:
    """From xe's `vramN_mm` in debugfs, which root may read; one for each memory of the card."""
    source = "debugfs vram0_mm"
    totals, usages = 0.0, 0.0
    folder = about.debugfs(card, device, roots)
    files = folder.names(r"vram[0-9]_mm") or ("vram0_mm",)
    for name in files:
        try:
            said = dict(_DEBUGFS.findall(sysfs.read(os.path.join(folder.path, name))))
        except OSError as error:
            return _absent(sysfs.reason(error), device.at, source)
        size = sysfs.number(said.get("size", ""), Unit.BYTES, device.at)
        usage = sysfs.number(said.get("usage", ""), Unit.BYTES, device.at)
        if isinstance(size, Unknown) or isinstance(usage, Unknown) or not 0 < usage.value <= size.value:
            return _absent("the driver's words there are not understood", device.at, source)
        totals, usages = totals + size.value, usages + usage.value
    return Sizes(
        Measure(Quantity.MEMORY_TOTAL, Known(totals, device.at), source),
        Measure(Quantity.MEMORY_USED, Known(usages, device.at), source),
    )


def from_window(card: CardIdentity, device: Folder) -> Measure:
    """The total alone, by the card's largest prefetchable PCI window: a power of two that its memory fits in."""
    source = "PCI resource (the largest window)"
    try:
        lines = sysfs.read(os.path.join(device.path, "resource")).splitlines()[:_BARS]
    except OSError as error:
        return Measure(Quantity.MEMORY_TOTAL, Unknown(sysfs.reason(error), device.at), source)
    window = max((_window(line) for line in lines), default=0)
    if window <= SMALL_WINDOW:
        why = "the card's PCI window is smaller than its memory (no resizable BAR)" if window else sysfs.NOT_THERE
        return Measure(Quantity.MEMORY_TOTAL, Unknown(why, device.at), source)
    size = min(window, memory_of(card) or window)
    return Measure(Quantity.MEMORY_TOTAL, sysfs.plausible(size, Unit.BYTES, device.at), source)


def together(first: Sizes, *others: Callable[[], Sizes], total: Callable[[], Measure]) -> tuple[Measure, Measure]:
    """The first source that knows each; a later one is looked at only where an earlier one has an absence."""
    said: list[Sizes] = [first]

    def source(index: int) -> Sizes:
        while len(said) <= index:
            said.append(others[len(said) - 1]())
        return said[index]

    if isinstance(first.total.reading, Unknown) and first.total.reading.reason == NOT_ITS_OWN:
        return first.total, first.used
    indexes = range(len(others) + 1)
    return (
        sysfs.first([*(lambda index=index: source(index).total for index in indexes), total]),
        sysfs.first([lambda index=index: source(index).used for index in indexes]),
    )


def why_not(error: OSError, node: str) -> str:
    match error.errno:
        case errno.EACCES:
            return f"this user may not open {node}; the group `render` may"
        case errno.ENOENT:
            return f"{node} is not there (not in this container, or not made by udev)"
        case errno.EPERM:
            return f"this user may not ask {node} (a container's rules?)"
        case errno.ENOTTY | errno.EINVAL:
            return sysfs.NOT_THERE
        case _:
            return sysfs.reason(error)


def _window(line: str) -> int:
    """Bytes of one window of `resource` (first address, last, flags), 0 for one that is not prefetchable."""
    fields = line.split()
    if len(fields) != 3 or not all(re.fullmatch(r"0x[0-9a-fA-F]{1,16}", field) for field in fields):
        return 0
    start, end, flags = (int(field, 16) for field in fields)
    return end - start + 1 if flags & _PREFETCHABLE and end > start else 0


def _absent(why: str, at: float, source: str) -> Sizes:
    unknown = Unknown(why, at)
    return Sizes(Measure(Quantity.MEMORY_TOTAL, unknown, source), Measure(Quantity.MEMORY_USED, unknown, source))
