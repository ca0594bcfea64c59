"""How fast a card reads its memory, by its data sheet."""

from collections.abc import Mapping
from typing import Final

_INTEL: Final = 0x8086
_NVIDIA: Final = 0x10DE

DATA_SHEET: Final[Mapping[tuple[int, int], float]] = {
    (_INTEL, 0xE223): 608e9,
    (_INTEL, 0xE211): 456e9,
    (_INTEL, 0xE212): 224e9,
    (_INTEL, 0xE20B): 456e9,
    (_INTEL, 0xE20C): 380e9,
    (_NVIDIA, 0x2330): 3.35e12,
    (_NVIDIA, 0x2335): 4.8e12,
}
"""Bytes per second, by PCI vendor and device: Arc Pro B70, B60, B50, Arc B580, B570; H100 SXM, H200 SXM."""


def bandwidth_of(vendor: int, device: int) -> float | None:
    """Bytes per second; None for a card whose data sheet is not known here."""
    return DATA_SHEET.get((vendor, device))
