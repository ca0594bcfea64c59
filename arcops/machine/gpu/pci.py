"""The cards of this machine, from the PCI devices in sysfs."""

import os
import re
from dataclasses import dataclass

from arcops.machine.gpu import sysfs
from arcops.machine.gpu.base import CardIdentity

_DISPLAY, _ACCELERATOR = "0x03", "0x12"
"""Base class 3: VGA, 3D and other display controllers; 12: processing accelerators, which cards for servers may say
they are. Source: PCI Code and ID Assignment Specification."""
_DRIVERS = frozenset({"xe", "i915", "amdgpu", "nvidia"})
_INTEL, _NVIDIA = 0x8086, 0x10DE
_GIB = 2**30
_INTEGRATED = re.compile(r"[0-9a-f]{4}:00:02\.0")
"""Where the graphics part of an Intel processor always is."""


@dataclass(frozen=True, slots=True)
class _Model:
    """Of an Intel card. Source of the names: the PCI ID Repository, and Intel's product pages."""

    name: str | None
    """None for an id that Intel has given to no product by name."""
    memory: int | None = None
    """GiB, where it is the same for all of the model and no power of two, so that its PCI window is larger."""


_MODELS: dict[int, _Model] = {
    # Battlemage
    0xE202: _Model(None),
    0xE209: _Model(None),
    0xE20B: _Model("Intel Arc B580", 12),
    0xE20C: _Model("Intel Arc B570", 10),
    0xE20D: _Model(None),
    0xE210: _Model(None),
    0xE211: _Model("Intel Arc Pro B60", 24),
    0xE212: _Model("Intel Arc Pro B50"),
    0xE215: _Model(None),
    0xE216: _Model(None),
    0xE220: _Model(None),
    0xE221: _Model(None),
    0xE222: _Model("Intel Arc Pro B65"),
    0xE223: _Model("Intel Arc Pro B70"),
    # Crescent Island
    0x674C: _Model(None),
    0x674D: _Model(None),
    0x674E: _Model(None),
    0x674F: _Model(None),
    0x6750: _Model(None),
    # Alchemist
    0x5690: _Model("Intel Arc A770M"),
    0x5691: _Model("Intel Arc A730M", 12),
    0x5692: _Model("Intel Arc A550M"),
    0x5693: _Model("Intel Arc A370M"),
    0x5694: _Model("Intel Arc A350M"),
    0x5695: _Model(None),
    0x5696: _Model("Intel Arc A570M"),
    0x5697: _Model("Intel Arc A530M"),
    0x56A0: _Model("Intel Arc A770"),
    0x56A1: _Model("Intel Arc A750"),
    0x56A2: _Model("Intel Arc A580"),
    0x56A3: _Model(None),
    0x56A4: _Model(None),
    0x56A5: _Model("Intel Arc A380", 6),
    0x56A6: _Model("Intel Arc A310"),
    0x56B0: _Model("Intel Arc Pro A30M"),
    0x56B1: _Model("Intel Arc Pro A40/A50"),
    0x56B2: _Model("Intel Arc Pro A60M"),
    0x56B3: _Model("Intel Arc Pro A60", 12),
    0x56BA: _Model("Intel Arc A380E", 6),
    0x56BB: _Model("Intel Arc A310E"),
    0x56BC: _Model("Intel Arc A370E"),
    0x56BD: _Model("Intel Arc A350E"),
    0x56BE: _Model("Intel Arc A750E"),
    0x56BF: _Model("Intel Arc A580E"),
    0x56C0: _Model("Intel Data Center GPU Flex 170"),
    0x56C1: _Model("Intel Data Center GPU Flex 140"),
    0x56C2: _Model("Intel Data Center GPU Flex 170V"),
    # Ponte Vecchio
    0x0B69: _Model("Intel Data Center GPU Max 1450"),
    0x0B6E: _Model("Intel Data Center GPU Max 1100C"),
    0x0BD0: _Model(None),
    0x0BD4: _Model("Intel Data Center GPU Max 1550VG"),
    0x0BD5: _Model("Intel Data Center GPU Max 1550"),
    0x0BD6: _Model("Intel Data Center GPU Max 1550"),
    0x0BD7: _Model("Intel Data Center GPU Max 1350"),
    0x0BD8: _Model("Intel Data Center GPU Max 1350"),
    0x0BD9: _Model("Intel Data Center GPU Max 1100"),
    0x0BDA: _Model("Intel Data Center GPU Max 1100"),
    0x0BDB: _Model("Intel Data Center GPU Max 1100"),
    # The first discrete ones
    0x4905: _Model("Intel Iris Xe MAX"),
    0x4906: _Model("Intel Iris Xe Pod"),
    0x4907: _Model("Intel Server GPU SG-18M"),
    0x4908: _Model("Intel Iris Xe (discrete)"),
    0x4909: _Model("Intel Iris Xe MAX 100"),
}
"""Intel's discrete cards. What stands in no line is part of a processor, or newer than this table."""


def is_discrete(card: CardIdentity) -> bool | None:
    """Whether it is a card of its own and no part of a processor; None where arcops cannot tell.

    In a virtual machine a card may sit where a processor's graphics is otherwise: what is in the table is a card.
    """
    if card.vendor == _INTEL:
        return card.device in _MODELS or _INTEGRATED.fullmatch(card.address) is None
    return True if card.vendor == _NVIDIA else None


def memory_of(card: CardIdentity) -> int | None:
    """Bytes that every card of this model has, where its PCI window is larger than that; None where it is not known."""
    model = _MODELS.get(card.device) if card.vendor == _INTEL else None
    return model.memory * _GIB if model is not None and model.memory is not None else None


def find_cards(root: str = "/sys") -> tuple[CardIdentity, ...]:
    """Every display-class device, and every accelerator that is bound to a graphics driver, in address order.

    Empty where there is no PCI bus.
    """
    devices = os.path.join(root, "bus", "pci", "devices")
    try:
        addresses = sorted(os.listdir(devices))
    except OSError:
        return ()
    found = (_card(os.path.join(devices, address), address) for address in addresses)
    return tuple(card for card in found if card is not None)


def _card(folder: str, address: str) -> CardIdentity | None:
    try:
        kind, driver = _text(folder, "class"), _driver(folder)
        if not (kind.startswith(_DISPLAY) or (kind.startswith(_ACCELERATOR) and driver in _DRIVERS)):
            return None
        vendor, device = _id(folder, "vendor"), _id(folder, "device")
    except (OSError, ValueError):
        return None
    return CardIdentity(
        address=address,
        vendor=vendor,
        device=device,
        driver=driver,
        name=_name(vendor, device),
        render_node=_render_node(folder),
    )


def _name(vendor: int, device: int) -> str | None:
    model = _MODELS.get(device) if vendor == _INTEL else None
    return model.name if model is not None else None


def _id(folder: str, name: str) -> int:
    """`0x8086`. Raises OSError and ValueError."""
    text = _text(folder, name)
    if re.fullmatch(r"0x[0-9a-fA-F]{4}", text) is None:
        raise ValueError(f"{name} is no PCI id")
    return int(text, 16)


def _text(folder: str, name: str) -> str:
    return sysfs.read(os.path.join(folder, name))


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
