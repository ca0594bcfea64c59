"""The cards of this machine, from the PCI devices in sysfs."""

import os

from arcops.machine.gpu.base import CardIdentity

_DISPLAY = "0x03"
"""Base class 3: VGA, 3D and other display controllers. Source: PCI class codes."""
_INTEL = 0x8086
_NAMES = {
    (_INTEL, 0xE223): "Intel Arc Pro B70",
    (_INTEL, 0xE211): "Intel Arc Pro B60",
    (_INTEL, 0xE212): "Intel Arc Pro B50",
    (_INTEL, 0xE20B): "Intel Arc B580",
    (_INTEL, 0xE20C): "Intel Arc B570",
}


def find_cards(root: str = "/sys") -> tuple[CardIdentity, ...]:
    """Every display-class device, in address order; empty where there is no PCI bus."""
    devices = os.path.join(root, "bus", "pci", "devices")
    try:
        addresses = sorted(os.listdir(devices))
    except OSError:
        return ()
    found = (_card(os.path.join(devices, address), address) for address in addresses)
    return tuple(card for card in found if card is not None)


def _card(folder: str, address: str) -> CardIdentity | None:
    try:
        if not _text(folder, "class").startswith(_DISPLAY):
            return None
        vendor, device = int(_text(folder, "vendor"), 16), int(_text(folder, "device"), 16)
    except (OSError, ValueError):
        return None
    return CardIdentity(
        address=address,
        vendor=vendor,
        device=device,
        driver=_driver(folder),
        name=_NAMES.get((vendor, device)),
        render_node=_render_node(folder),
    )


def _text(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
        return file.read().strip()


def _driver(folder: str) -> str | None:
    try:
        return os.path.basename(os.readlink(os.path.join(folder, "driver")))
    except OSError:
        return None


def _render_node(folder: str) -> str | None:
    try:
        nodes = sorted(name for name in os.listdir(os.path.join(folder, "drm")) if name.startswith("renderD"))
    except OSError:
        return None
    return f"/dev/dri/{nodes[0]}" if nodes else None
