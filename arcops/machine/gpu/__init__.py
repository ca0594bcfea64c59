"""The cards: which there are, who holds their memory, and whether they answer. One reader per family of drivers."""

from arcops.machine.gpu.amdgpu import AmdgpuReader
from arcops.machine.gpu.answer import Asker
from arcops.machine.gpu.base import CardIdentity, CardReader
from arcops.machine.gpu.i915 import I915Reader
from arcops.machine.gpu.nvidia import NvidiaReader
from arcops.machine.gpu.pci import find_cards, is_discrete
from arcops.machine.gpu.xe import XeReader

READERS: tuple[CardReader, ...] = (XeReader(), I915Reader(), AmdgpuReader(), NvidiaReader())
"""A new driver is one file beside this one, and one line here."""


def reader_for(driver: str | None) -> CardReader | None:
    """The reader that understands a card's kernel driver, or None: then what the card holds is unknown."""
    return next((reader for reader in READERS if driver in reader.drivers), None)


__all__ = ["READERS", "Asker", "CardIdentity", "CardReader", "find_cards", "is_discrete", "reader_for"]
