"""The gate: what a profile has to show in an environment before it may replace what works."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

UNKNOWN_ENVIRONMENT: Final = "unknown"
"""In place of a digest: no launch has it, and no switch accepts it."""


class Verdict(Enum):
    """What came of one gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It could not be told: never counted as passed."""
    SKIPPED = "skipped"
    """It was not asked for, or there is nothing to hold it against yet; the detail says which."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One question, and what came of it."""

    name: str
    """`start`, `chat`, `tools`, `long-request`, `identity`, `image`, `soak`, `memory`, `undisturbed`."""
    verdict: Verdict
    detail: str
    """What was seen, in one sentence with its figures."""
    evidence: tuple[str, ...] = ()
    """What a person would want to see of a failure: the answer that was wrong, the places of a divergence."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Qualification:
    """All gates of one profile in one environment."""

    profile: str
    environment_digest: str
    gates: tuple[Gate, ...]

    @property
    def qualified(self) -> bool:
        """No gate failed or is unknown, it has really started and chatted, and of its tools is said what is to be said.

        That gate is skipped by the profile's own choice alone (`qualification.tools: false`), or where nothing serves.
        """
        bad = any(gate.verdict in (Verdict.FAILED, Verdict.UNKNOWN) for gate in self.gates)
        return not bad and not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """What has to be asked and was not."""
        passed = {gate.name for gate in self.gates if gate.verdict is Verdict.PASSED}
        said = {gate.name for gate in self.gates}
        return (*(name for name in ("start", "chat") if name not in passed), *({"tools"} - said))
