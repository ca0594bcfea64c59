"""The ceiling of decoding: how fast a card could read what a token needs, whatever computes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from arcops.core.budget.layers import Attention, DeltaNet, Layer, Part


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of memory that one step of decoding reads on each card."""

    weights: int
    cache: int
    state: int
    drafting: int = 0
    """All drafts of the step, with what they read of their cache."""

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.state + self.drafting


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Tokens per second of one sequence that no implementation can exceed on this card."""

    depth: int
    """Tokens in the cache."""
    plain: float
    speculative: float | None
    """None without speculation, or where the mean accepted length is not known."""
    reads: Reads


def ceiling_of(reads: Reads, bandwidth: float, depth: int, tokens_per_step: float | None = None) -> Ceiling:
    """`bandwidth` in bytes per second; `tokens_per_step` is the mean accepted length, one token a step included.

    The speculative step reads what a plain one does, more experts perhaps (see `weights_read`), and the drafts.
    """
    plain = Reads(reads.weights, reads.cache, reads.state)
    speculative = None if tokens_per_step is None else tokens_per_step * bandwidth / reads.total
    return Ceiling(depth, bandwidth / plain.total, speculative, reads)


def cache_read(layers: Sequence[Layer], depth: int, part: Part = Part.TARGET) -> int:
    """Bytes of keys and values that one step reads at a depth: a window no more than it is wide."""
    attention = [one for one in layers if isinstance(one, Attention) and one.part is part]
    return sum(one.token_bytes * (depth if one.window is None else min(depth, one.window)) for one in attention)


def state_read(layers: Sequence[Layer]) -> int:
    """Bytes of states that one step reads; they are written, too, and not counted twice."""
    return sum(one.bytes_of(0) for one in layers if isinstance(one, DeltaNet))


def experts_read(experts: int, used: int, tokens: int) -> float:
    """How many experts of a layer `tokens` tokens of one step want, if each chooses for itself: an expectation."""
    return experts * (1.0 - (1.0 - used / experts) ** tokens) if experts else 0.0
