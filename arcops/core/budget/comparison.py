"""The plan held against what vLLM reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many tokens the KV cache of one launch holds."""

    planned: int
    reported: int
    """By vLLM's own word."""
    estimated: bool = False
    """The pool was planned as the rest of something estimated: a difference was to be expected."""

    @property
    def equal(self) -> bool:
        return self.planned == self.reported

    @property
    def words(self) -> str:
        """Both, and by how much they differ, in one sentence."""
        if self.equal:
            return f"the KV cache holds {self.reported:,} tokens, as planned"
        by_estimate = " by estimate" if self.estimated else ""
        return (
            f"the KV cache holds {self.reported:,} tokens by vLLM's word, and {self.planned:,} were planned"
            f"{by_estimate}: {self._difference}"
        )

    @property
    def _difference(self) -> str:
        by = self.reported - self.planned
        share = f" ({abs(by) / self.planned:.1%})" if self.planned else ""
        return f"{abs(by):,} {'more' if by > 0 else 'fewer'}{share}"
