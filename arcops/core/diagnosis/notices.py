"""From what the kernel tells (lines of its log, uevents, dumps) to incidents of cards.

Sources: Documentation/ABI/testing/sysfs-uevent and the format of NETLINK_KOBJECT_UEVENT (lib/kobject_uevent.c);
Documentation/gpu/drm-uapi.rst, "Device wedging"; drivers/base/devcoredump.c; pci_uevent() in drivers/pci.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arcops.core.cards.incidents import Incident, Kind, Source
from arcops.core.cards.measures import CardReading
from arcops.core.diagnosis.kernel import MAX_LINE, KernelEvent, Word
from arcops.core.quantity import Known

MAX_UEVENT = 8192
"""Bytes of a message that are looked at; the kernel's buffer for one is 2048 (UEVENT_BUFFER_SIZE)."""

_KINDS: Final[Mapping[Word, Kind]] = {word: Kind[word.name] for word in Word if word is not Word.OOM_KILL}
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DISPLAY_CLASS = 3
"""Base class of PCI devices that are graphics cards (include/linux/pci_ids.h)."""
RECOVERY_ACTION = "recovery_action"
"""The detail of an NVIDIA card's reading that says it."""
_WORKS_ON = frozenset({"none", "drain"})
"""What leaves a card at work: nothing is wanted, or only that nothing new is begun there."""
_RECOVERED_ALREADY = "none"
"""WEDGED=none: the driver reset the device itself, and only says that it did."""


@dataclass(frozen=True, slots=True)
class Uevent:
    """One message of the kernel about a device: what has happened, to which, and its words KEY=value."""

    action: str
    path: str
    """Below /sys, `/devices/pci0000:00/.../0000:03:00.0/drm/card0`."""
    words: Mapping[str, str]

    @property
    def subsystem(self) -> str:
        return self.words.get("SUBSYSTEM", "")

    @property
    def address(self) -> str | None:
        """The PCI device that the path leads through last; None where it leads through none."""
        found = [part for part in self.path.split("/") if _ADDRESS.fullmatch(part)]
        return found[-1] if found else None


def parse_uevent(message: bytes) -> Uevent | None:
    """`ACTION@DEVPATH` and words, each ended by NUL; None for anything else (udev's own begin with `libudev`)."""
    head, *words = message[:MAX_UEVENT].decode("utf-8", "replace").split("\0")
    action, at, path = head.partition("@")
    if not at or not action.isalpha() or not path.startswith("/"):
        return None
    parts = (word.partition("=") for word in words)
    return Uevent(action, path, {key: value for key, equals, value in parts if key and equals})


def of_line(event: KernelEvent, *, past: bool = False) -> Incident | None:
    """What a line of the kernel's log says of a card; None where it is about something else."""
    kind = _KINDS.get(event.word)
    if kind is None:
        return None
    return Incident(
        at=event.at,
        card=event.card,
        kind=kind,
        text=event.text,
        source=Source.KERNEL_LOG,
        driver=event.driver,
        engine=event.engine,
        pid=event.pid,
        command=event.command,
        reset=kind is Kind.RESET,
        closes=event.closes,
        past=past,
    )


def of_uevent(event: Uevent, at: float) -> Incident | None:
    """What a uevent says of a card; None for all the others (a dump names no card: see `dump_of`)."""
    if event.subsystem == "drm":
        return _wedged(event, at)
    if event.subsystem != "pci" or not _is_card(event):
        return None
    match event.action:
        case "remove":
            return _of_device(event, at, Kind.GONE, "it was removed from the PCI bus")
        case "unbind":
            return _of_device(event, at, Kind.GONE, "its driver was unbound from it")
        case "bind":
            return _of_device(event, at, Kind.RECOVERY, f"driver {event.words.get('DRIVER', '?')} was bound to it")
        case _:
            return None


def dump_of(event: Uevent) -> str | None:
    """The name below /sys/class/devcoredump of a dump that was added; None for every other message."""
    added = event.subsystem == "devcoredump" and event.action == "add"
    name = event.path.rpartition("/")[2]
    return name if added and re.fullmatch(r"devcd\d{1,10}", name) else None


def of_dump(card: str, name: str, at: float, *, past: bool = False) -> Incident:
    """A dump that lies below /sys/class/devcoredump; its data are root's, and are not read."""
    text = f"/sys/class/devcoredump/{name}: root can read `data` there for an hour or so"
    return Incident(at, card, Kind.COREDUMP, text, Source.DEVCOREDUMP, past=past)


def wanted_of(reading: CardReading) -> str | None:
    """What an NVIDIA card's driver wants done with it, in NVML's words; None where nobody says."""
    said = next((one.reading for one in reading.details if one.name == RECOVERY_ACTION), None)
    return said.value if isinstance(said, Known) else None


def of_wanted(card: str, before: str | None, wanted: str, at: float) -> Incident | None:
    """What it means that its driver wants this now, and wanted that `before`; None where it means nothing."""
    if wanted == before:
        return None
    if wanted not in _WORKS_ON:
        return _of_nvml(card, Kind.WEDGED, wanted, at)
    waited = before is not None and before not in _WORKS_ON
    return _of_nvml(card, Kind.RECOVERY, wanted, at) if waited else None


def _of_nvml(card: str, kind: Kind, action: str, at: float) -> Incident:
    return Incident(at, card, kind, f"recovery action: {_printable(action)}", Source.NVML, driver="nvidia")


def _wedged(event: Uevent, at: float) -> Incident | None:
    methods, card = event.words.get("WEDGED"), event.address
    if methods is None or card is None:
        return None
    itself = methods == _RECOVERED_ALREADY
    pid = event.words.get("PID", "")
    return Incident(
        at=at,
        card=card,
        kind=Kind.RESET if itself else Kind.WEDGED,
        text=_printable(f"{event.action} {event.path} WEDGED={methods}"),
        source=Source.UEVENT,
        pid=int(pid) if pid.isdecimal() and pid.isascii() and len(pid) <= 10 else None,
        command=_printable(event.words["TASK"])[:40] if event.words.get("TASK") else None,
        reset=itself,
        closes=itself,
    )


def _is_card(event: Uevent) -> bool:
    """The device itself, and a graphics card."""
    number = event.words.get("PCI_CLASS", "")
    if event.path.rpartition("/")[2] != event.address or not re.fullmatch(r"[0-9A-Fa-f]{4,6}", number):
        return False
    return int(number, 16) >> 16 == _DISPLAY_CLASS


def _of_device(event: Uevent, at: float, kind: Kind, what: str) -> Incident:
    text = _printable(f"{event.action} {event.path}: {what}")
    return Incident(at, event.address, kind, text, Source.UEVENT, driver=_printable(event.words.get("DRIVER", "")))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:MAX_LINE])
