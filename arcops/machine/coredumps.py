"""Dumps that a driver has kept of a device (devcoredump): of which device. Their data are root's, and are not read."""

import os
import re

CLASS = "class/devcoredump"
_NAME = re.compile(r"devcd\d{1,10}")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def present(sys: str = "/sys") -> tuple[tuple[str, str], ...]:
    """Name and PCI address of each dump of a PCI device that is there now. May hang with its driver, as sysfs may."""
    try:
        names = sorted(os.listdir(f"{sys}/{CLASS}"))
    except OSError:
        return ()  # a kernel without devcoredump has no such class
    found = ((name, device_of(name, sys)) for name in names if _NAME.fullmatch(name))
    return tuple((name, card) for name, card in found if card is not None)


def device_of(name: str, sys: str = "/sys") -> str | None:
    """PCI address of the device that a dump is of; None where it is of another, or gone again."""
    try:
        target = os.readlink(f"{sys}/{CLASS}/{name}/failing_device")
    except OSError:
        return None
    last = target.rstrip("/").rpartition("/")[2]
    return last if _ADDRESS.fullmatch(last) else None
