"""What a card is to vLLM: which kind of device, and which number it has there."""

import re
from collections.abc import Mapping, Sequence

from arcops.machine.gpu import CardIdentity

_KINDS: Mapping[str, str] = {"xe": "xpu", "i915": "xpu", "nvidia": "cuda"}
"""The kind of device that a kernel driver offers. A card that is bound to another driver (vfio-pci: it was given to a
virtual machine) is not offered by Level Zero or CUDA, and so has no number there."""
_INTEL = 0x8086
_INTEL_INTEGRATED = re.compile(r"[0-9a-f]{4}:00:02\.0")
"""Where the graphics part of an Intel processor always is."""


def kind_of(card: CardIdentity) -> str | None:
    """xpu or cuda; None where vLLM has no use for the card as it is."""
    return _KINDS.get(card.driver or "")


def is_integrated(card: CardIdentity) -> bool:
    """Part of the processor. In a virtual machine a card may sit at that place: one that has a name is a card."""
    return card.vendor == _INTEL and card.name is None and _INTEL_INTEGRATED.fullmatch(card.address) is not None


def counted_cards(kind: str, found: Sequence[CardIdentity]) -> list[str]:
    """The addresses of the cards of a kind in the order in which its runtime numbers them.

    Level Zero: discrete ones first, then by address (ZE_ENABLE_PCI_ID_DEVICE_ORDER unset or 0). CUDA: by address
    (CUDA_DEVICE_ORDER=PCI_BUS_ID).
    """
    ours = [card for card in found if kind_of(card) == kind]
    return [card.address for card in sorted(ours, key=lambda card: (is_integrated(card), card.address))]
