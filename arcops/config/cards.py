"""What a card is to vLLM: which kind of device, and which number it has there."""

from collections.abc import Mapping, Sequence

from arcops.machine.gpu import CardIdentity, is_discrete

_KINDS: Mapping[str, str] = {"xe": "xpu", "i915": "xpu", "nvidia": "cuda"}
"""The kind of device that a kernel driver offers. A card that is bound to another driver (vfio-pci: it was given to a
virtual machine) is not offered by Level Zero or CUDA, and so has no number there."""


def kind_of(card: CardIdentity) -> str | None:
    """xpu or cuda; None where vLLM has no use for the card as it is."""
    return _KINDS.get(card.driver or "")


def is_integrated(card: CardIdentity) -> bool:
    """Part of the processor."""
    return is_discrete(card) is False


def counted_cards(kind: str, found: Sequence[CardIdentity]) -> list[str]:
    """The addresses of the cards of a kind in the order in which its runtime numbers them.

    Level Zero: discrete ones first, then by address (ZE_ENABLE_PCI_ID_DEVICE_ORDER unset or 0). CUDA: by address
    (CUDA_DEVICE_ORDER=PCI_BUS_ID).
    """
    ours = [card for card in found if kind_of(card) == kind]
    return [card.address for card in sorted(ours, key=lambda card: (is_integrated(card), card.address))]
