"""Identity: are these the very tokens that the oracle gave?

The oracle is a run of the same workload on the same configuration without speculation, one request at a time.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Margin:
    """How near the two tokens were at the place where two answers part, by the server that gave the other answer."""

    oracle: float | None
    """Log-probability of the oracle's token; None where it was not among those that the server names."""
    other: float | None
    unknown: str = ""
    """Why there is none, in words."""

    @property
    def nats(self) -> float | None:
        """By how much the server preferred its own token to the oracle's; near 0 is a tie."""
        return None if self.oracle is None or self.other is None else self.other - self.oracle


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where an answer leaves the oracle's."""

    item: str
    position: int
    """Of the first token that differs, from 0; the length of the shorter answer where one is the other's beginning."""
    oracle_token: int | None
    """None: the oracle's answer has ended."""
    token: int | None
    """None: this answer has ended."""
    margin: Margin | None = None
    """None where one of the two has ended, or nobody asked."""


@dataclass(frozen=True, slots=True)
class StageIdentity:
    """A stage's answers beside the oracle's."""

    stage: str
    pass_number: int
    asked: int
    """Greedy requests of the stage: N of N/N."""
    exact: int
    """Those whose ids are all the oracle's."""
    unknown: int
    """Without ids, without an answer, or without an oracle's answer: never counted as exact."""
    divergences: tuple[Divergence, ...] = ()
    """One for each answer that differs."""

    @property
    def is_exact(self) -> bool:
        """N of N."""
        return self.asked > 0 and self.exact == self.asked


@dataclass(frozen=True, slots=True)
class Identity:
    """A run beside its oracle."""

    oracle: str
    """The digest of the oracle's record, or `itself` where the run made its own sequential pass first."""
    stages: tuple[StageIdentity, ...]
    not_compared: str = ""
    """Why there is nothing, in words: no oracle, another workload, another configuration, an oracle that speculated."""
