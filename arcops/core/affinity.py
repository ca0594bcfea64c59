"""What ties a backend to its cards: the variables that the runtimes of the devices read."""

from collections.abc import Iterable, Mapping
from typing import Final

AFFINITY: Final[Mapping[str, Mapping[str, str]]] = {
    "xpu": {"ZE_AFFINITY_MASK": "", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "0"},
    "cuda": {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    "cpu": {},
}
"""By kind of device: the variable that takes the cards' numbers (empty here), and the one that makes the runtime count
as arcops does. Sources: Level Zero's specification, the CUDA C++ Programming Guide."""


def affinity(kind: str, ordinals: Iterable[int]) -> dict[str, str]:
    """The variables that let vLLM see the cards with these numbers and no other."""
    numbers = ",".join(str(number) for number in ordinals)
    return {name: value or numbers for name, value in AFFINITY[kind].items()}


def mask(kind: str, ordinal: int) -> str | None:
    """What a launch on one card sets, `ZE_AFFINITY_MASK=0`; None for a kind of device that has no such variable."""
    name = next((name for name, value in AFFINITY[kind].items() if not value), None)
    return None if name is None else f"{name}={ordinal}"
