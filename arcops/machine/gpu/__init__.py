"""The cards: which there are, who holds their memory, and whether they answer. One reader per family of drivers."""

from arcops.machine.gpu.answer import Asker
from arcops.machine.gpu.base import CardIdentity, CardReader, Client
from arcops.machine.gpu.drm import DrmReader
from arcops.machine.gpu.nvidia import NvidiaReader
from arcops.machine.gpu.pci import find_cards

READERS: tuple[CardReader, ...] = (DrmReader(), NvidiaReader())
"""A new driver is one file beside this one, and one line here."""


def reader_for(driver: str | None) -> CardReader | None:
    """The reader that understands a card's kernel driver, or None: then what the card holds is unknown."""
    return next((reader for reader in READERS if driver in reader.drivers), None)


__all__ = ["READERS", "Asker", "CardIdentity", "CardReader", "Client", "find_cards", "reader_for"]
