"""A checkpoint's weights: what its tensors take on a card, without what the launch leaves out."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

_SIGHT: Final = ("visual.", "vision_tower.", "vision_model.", "audio_tower.", "audio_model.", "multi_modal_projector.")
"""What sees and hears, below `model.` or not: left out with --language-model-only."""
_MTP: Final = ("mtp.", "model.mtp.")
_EXPERTS: Final = ".experts."
_EMBEDDING: Final = ("embed_tokens.weight", "wte.weight")


class Share(Enum):
    """What a tensor is for."""

    TARGET = "target"
    EXPERTS = "experts"
    """Of which only some are read for a token."""
    EMBEDDING = "embedding"
    """Of which one row is read for a token."""
    MTP = "MTP head"
    SIGHT = "vision and audio"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor, as a safetensors header names it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    """Bytes in the file: a quantised packing at its real size."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on one card, by what they are for."""

    shares: tuple[tuple[Share, int], ...]
    skipped: tuple[tuple[Share, int], ...]
    """What is in the files and is not loaded."""

    @property
    def total(self) -> int:
        return sum(size for _, size in self.shares)

    def of(self, share: Share) -> int:
        return dict(self.shares).get(share, 0)


def weights_of(tensors: Iterable[Tensor], *, ranks: int = 1, text_only: bool = False, mtp: bool = False) -> Weights:
    """What these tensors take on each of `ranks` cards.

    Matrices are divided over the cards, vectors (norms, biases, scales of a channel) are on each of them. `text_only`
    leaves out what sees and hears; without `mtp` the head for multi-token prediction is left out.
    """
    loaded: dict[Share, int] = {}
    skipped: dict[Share, int] = {}
    for tensor in tensors:
        share = share_of(tensor.name)
        left_out = (share is Share.SIGHT and text_only) or (share is Share.MTP and not mtp)
        size = tensor.size if _is_whole(tensor) else -(-tensor.size // ranks)
        kept = skipped if left_out else loaded
        kept[share] = kept.get(share, 0) + size
    return Weights(tuple(loaded.items()), tuple(skipped.items()))


def share_of(name: str) -> Share:
    """What a tensor is for, by its name."""
    if name.startswith(_MTP):
        return Share.MTP
    plain = name.removeprefix("model.")
    if plain.startswith(_SIGHT):
        return Share.SIGHT
    if _EXPERTS in name:
        return Share.EXPERTS
    return Share.EMBEDDING if name.endswith(_EMBEDDING) else Share.TARGET


def active(weights: Weights, experts: int, used: int, *, tied: bool) -> int:
    """Bytes that are read for one token of one sequence: all but the experts and rows that it does not use.

    A tied embedding is the output matrix too, and that is read whole.
    """
    read = weights.of(Share.TARGET)
    read += weights.of(Share.EXPERTS) * used // experts if experts else weights.of(Share.EXPERTS)
    return read + (weights.of(Share.EMBEDDING) if tied else 0)


def _is_whole(tensor: Tensor) -> bool:
    """On each card in whole."""
    return sum(1 for size in tensor.shape if size > 1) < 2
