"""The layers of a model that keep something of a sequence: attention (keys and values) and gated delta nets (a state).

Source: vllm/v1/kv_cache_interface.py and model_executor/layers/mamba/mamba_utils.py of vLLM 0.29.
"""

from dataclasses import dataclass
from enum import Enum


class Part(Enum):
    """Whose layer it is."""

    TARGET = "target"
    DRAFT = "draft"
    """A draft model's, or a multi-token-prediction head's."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer of attention on one rank."""

    kv_heads: int
    head_dim: int
    value_bytes: int
    """Of one element of its cache."""
    window: int | None = None
    """Tokens that it looks back at; None for all."""
    part: Part = Part.TARGET

    @property
    def token_bytes(self) -> int:
        """Keys and values of one token."""
        return 2 * self.kv_heads * self.head_dim * self.value_bytes


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """One layer of a gated delta net on one rank: a convolution's last inputs, and a matrix for each value head."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    """Width of the convolution, in tokens."""
    conv_bytes: int
    """Of one element of the convolution's state."""
    state_bytes: int
    """Of one element of the matrices."""

    def bytes_of(self, speculative: int) -> int:
        """One state; with `speculative` tokens the convolution remembers as many inputs more."""
        channels = 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
        conv = channels * (self.kernel - 1 + speculative) * self.conv_bytes
        return conv + self.value_heads * self.value_dim * self.key_dim * self.state_bytes


Layer = Attention | DeltaNet
