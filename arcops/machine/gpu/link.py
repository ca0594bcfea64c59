"""The PCIe link of a card to the machine, where it is really made.

An Arc card carries a PCIe switch: its graphics function always reports a link of 2.5 GT/s and one lane to that switch,
and the link to the slot is the one of the switch's upstream port, two bridges up. Radeon cards are built alike.
"""

import os
import re
from collections.abc import Sequence

from arcops.core.cards.measures import Detail, Measure, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import sysfs
from arcops.machine.gpu.sysfs import Folder

_INTEL = "0x8086"
_INNER_SPEED = 2.5
"""GT/s."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) GT/s\b.*")


def link(device: Folder) -> tuple[tuple[Measure, ...], Detail]:
    """Width and speed that the link runs at now, and in words what it could."""
    port = _port(device)
    if port.path == device.path and _is_inner(device):
        return _hidden(device.at)
    name = os.path.basename(port.path)
    where = "PCI" if port.path == device.path else f"PCI bridge {name}"
    width, speed = _width(port, "current_link_width"), _speed(port, "current_link_speed")
    measures = (
        Measure(Quantity.LINK_WIDTH, width, f"{where} current_link_width"),
        Measure(Quantity.LINK_SPEED, speed, f"{where} current_link_speed"),
    )
    most = (_width(port, "max_link_width"), _speed(port, "max_link_speed"))
    return measures, Detail("link_max", _words(most, device.at), f"{where} max_link_*")


def _is_inner(device: Folder) -> bool:
    """It shows the link to a switch on its own card, which nothing is told by."""
    most = (_width(device, "max_link_width"), _speed(device, "max_link_speed"))
    known = [one.value for one in most if isinstance(one, Known)]
    return _vendor(device) == _INTEL and known == [1, _INNER_SPEED]


def _hidden(at: float) -> tuple[tuple[Measure, ...], Detail]:
    """In a virtual machine the function is there without the switch that it sits behind."""
    unknown = Unknown("the bridge that has the link to the slot is not to be seen from here (a virtual machine?)", at)
    measures = (Measure(Quantity.LINK_WIDTH, unknown, "PCI"), Measure(Quantity.LINK_SPEED, unknown, "PCI"))
    return measures, Detail("link_max", unknown, "PCI")


def _port(device: Folder) -> Folder:
    """Whose end of the link to the slot is looked at: the card's switch, or the card itself where it has none."""
    path = os.path.realpath(device.path)
    inner, outer = os.path.dirname(path), os.path.dirname(os.path.dirname(path))
    both = [Folder(bridge, device.at) for bridge in (inner, outer)]
    if not all(_ADDRESS.fullmatch(os.path.basename(one.path)) for one in both):
        return device
    vendors = {_vendor(one) for one in (device, *both)}
    return both[1] if len(vendors) == 1 and None not in vendors else device


def _vendor(device: Folder) -> str | None:
    words = device.words("vendor")
    return words.value if isinstance(words, Known) else None


def _width(port: Folder, name: str) -> Reading[float]:
    return port.number(name, Unit.LANES)


def _speed(port: Folder, name: str) -> Reading[float]:
    """`16.0 GT/s PCIe`; `Unknown` while the link is down."""
    words = port.words(name)
    if isinstance(words, Unknown):
        return words
    match = _SPEED.fullmatch(words.value)
    if match is None:
        return Unknown(f"the link says {words.value[:20]!r}", port.at)
    return sysfs.plausible(float(match.group(1)), Unit.TRANSFERS, port.at)


def _words(parts: Sequence[Reading[float]], at: float) -> Reading[str]:
    values: list[float] = []
    for part in parts:
        if isinstance(part, Unknown):
            return part
        values.append(part.value)
    return Known(f"x{values[0]:g} at {values[1]:g} GT/s", at)
