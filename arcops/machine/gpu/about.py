"""What a card is, in words: its PCI ids, its driver, whether it sleeps, and whether it is there at all."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from arcops.core.cards.measures import CardReading, Detail, Measure, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import sysfs
from arcops.machine.gpu.base import CardIdentity, Roots
from arcops.machine.gpu.sysfs import GONE, NOT_THERE, PAGE, Folder

_ID = re.compile(r"0x[0-9a-fA-F]{4}")
_GUC_INFO = ("gt0/uc/guc_info", "tile0/gt0/uc/guc_info")
_FOUND = re.compile(r"found (?:release version )?([0-9]{1,5}(?:\.[0-9]{1,10}){1,3})")
"""xe: `found release version 70.36.0`; i915: `version: wanted 70.1.1, found 70.5.1`."""


def device_of(card: CardIdentity, at: float, roots: Roots) -> Folder:
    """The card's folder in sysfs, by its address."""
    return Folder(os.path.join(roots.sys, "bus", "pci", "devices", card.address), at)


def details(card: CardIdentity, device: Folder, roots: Roots) -> tuple[Detail, ...]:
    """Driver and its version, PCI ids, power state."""
    return (
        Detail("driver", _driver(card, device, roots), "sysfs module, else the kernel's release"),
        Detail("pci_id", Known(f"{card.vendor:04x}:{card.device:04x}", device.at), "sysfs vendor, device"),
        Detail("subsystem", _subsystem(device), "sysfs subsystem_vendor, subsystem_device"),
        device.detail("power_state", "power/runtime_status", "sysfs power/runtime_status"),
    )


def idle_time(device: Folder, counted: Measure) -> Measure:
    """A gt's idle time with the time added that the whole card slept: its own counter stands still meanwhile.

    Source: Documentation/ABI/testing/sysfs-devices-power; reading that does not wake the card.
    """
    slept = device.number("power/runtime_suspended_time", Unit.SECONDS, 1e-3)
    match counted.reading, slept:
        case Known(value=idle, at=at), Known(value=more):
            return replace(counted, reading=sysfs.plausible(idle + more, Unit.SECONDS, at))
        case _:
            return counted


def firmware(card: CardIdentity, device: Folder, roots: Roots) -> Detail:
    """The release of GuC, the firmware of Intel's cards that schedules their work; root alone may read it."""
    folder = debugfs(card, device, roots)
    absences: list[Unknown] = []
    for file in _GUC_INFO:
        words: Reading[str] = folder.words(file, PAGE)
        if isinstance(words, Unknown):
            absences.append(words)
        elif (found := _FOUND.search(words.value)) is not None:
            return Detail("firmware", Known(f"GuC {found.group(1)}", device.at), f"debugfs {file}")
    telling = [one for one in absences if one.reason != NOT_THERE]
    return Detail("firmware", (telling or [Unknown("only root may read it", device.at)])[0], "debugfs guc_info")


def debugfs(card: CardIdentity, device: Folder, roots: Roots) -> Folder:
    """Newer kernels name a card's folder by its address, older ones by its minor."""
    above = Folder(os.path.join(roots.sys, "kernel", "debug", "dri"), device.at)
    minors = [name.removeprefix("card") for name in device.below("drm").names(r"card[0-9]+")]
    found = [name for name in (card.address, *minors) if os.path.isdir(os.path.join(above.path, name))]
    return above.below(found[0] if found else card.address)


def there(reading: CardReading, card: CardIdentity, device: Folder) -> CardReading:
    """The reading as it stands if the card was there all the while, else without what says nothing any more.

    A card that is unbound or unplugged takes its files along: then "no such file" does not mean "not in this driver".
    """
    lost = _lost(card, device)
    if lost is None:
        return reading
    unknown = Unknown(lost, device.at)
    return CardReading(
        reading.address,
        reading.at,
        tuple(replace(measure, reading=unknown) for measure in reading.measures),
        unknown,
        tuple(replace(detail, reading=unknown) for detail in reading.details),
    )


def always(measures: Sequence[Measure], expected: Sequence[Quantity], at: float) -> tuple[Measure, ...]:
    """The measures, and for each expected quantity that none of them has an absence."""
    there = {measure.quantity for measure in measures}
    missing = [quantity for quantity in expected if quantity not in there]
    return (*measures, *(Measure(quantity, Unknown(NOT_THERE, at), "sysfs") for quantity in missing))


def _lost(card: CardIdentity, device: Folder) -> str | None:
    if not os.path.isdir(device.path):
        return GONE
    try:
        bound = os.path.basename(os.readlink(os.path.join(device.path, "driver")))
    except OSError:
        bound = None
    return None if bound == card.driver else f"driver {card.driver} is not bound to it any more"


def _driver(card: CardIdentity, device: Folder, roots: Roots) -> Reading[str]:
    """A driver of the kernel's own tree has the kernel's version; one that was built beside it says its own."""
    if card.driver is None:
        return Unknown("no driver is bound", device.at)
    own = Folder(os.path.join(roots.sys, "module", card.driver), device.at).words("version")
    if isinstance(own, Known):
        return own.map(lambda version: f"{card.driver} {version}")
    kernel = Folder(os.path.join(roots.proc, "sys", "kernel"), device.at).words("osrelease")
    return kernel.map(lambda release: f"{card.driver} of Linux {release}")


def _subsystem(device: Folder) -> Reading[str]:
    ids: list[str] = []
    for name in ("subsystem_vendor", "subsystem_device"):
        words = device.words(name)
        if isinstance(words, Unknown):
            return words
        if _ID.fullmatch(words.value) is None:
            return Unknown(f"the driver says {words.value[:20]!r}, which is no PCI id", device.at)
        ids.append(words.value.removeprefix("0x"))
    return Known(":".join(ids), device.at)
