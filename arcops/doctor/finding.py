"""What a check finds: plain data."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from arcops import wire


class Verdict(Enum):
    """How it stands; the values are an interface."""

    OK = "ok"
    WARNING = "warning"
    """It works, or will until something happens; to be known."""
    PROBLEM = "problem"
    """It does not work, or not for long."""
    UNKNOWN = "unknown"
    """It could not be looked at."""


class FixKind(Enum):
    """What `--fix` may do: nothing of it can harm a backend, or end a process."""

    ENABLE_LINGERING = "enable lingering"
    DAEMON_RELOAD = "have the user's systemd read its unit files again"
    REMOVE_FILE = "remove a file that was left"
    REMOVE_CGROUP = "remove an empty cgroup that was left"
    REMOVE_FOLDER = "remove what a launch that is gone has left"


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One harmless thing that would help."""

    kind: FixKind
    target: str = ""
    """A path; empty where the kind says it all."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.target}" if self.target else self.kind.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the judge of a check says."""

    verdict: Verdict
    summary: str
    """One sentence: the answer to the check's question."""
    evidence: tuple[str, ...] = ()
    """What was seen, and where."""
    remedy: str = ""
    """A command, or what to do."""
    fixes: tuple[Fix, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one check, as it is shown and sent."""

    name: str
    question: str
    verdict: Verdict
    summary: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    fixes: tuple[Fix, ...] = ()
    seconds: float
    """How long the check took."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of them: what `arcops doctor --json` prints."""

    schema: int = wire.SCHEMA
    instance: str
    ok: bool
    """No problem was found; warnings and what could not be looked at do not count."""
    findings: tuple[Finding, ...]


def ok(summary: str, *evidence: str) -> Outcome:
    return Outcome(Verdict.OK, summary, evidence)


def unknown(summary: str, *evidence: str, remedy: str = "") -> Outcome:
    return Outcome(Verdict.UNKNOWN, summary, evidence, remedy)


_WORST = (Verdict.PROBLEM, Verdict.WARNING, Verdict.UNKNOWN, Verdict.OK)


def together(outcomes: "list[Outcome]") -> Outcome:
    """Several subjects of one check (cards, ports, runtimes) as one: the worst leads, the others are its evidence."""
    first = min(outcomes, key=lambda one: _WORST.index(one.verdict))
    rest = [one for one in outcomes if one is not first]
    evidence = (*first.evidence, *(line for one in rest for line in (one.summary, *one.evidence)))
    fixes = tuple(fix for one in outcomes for fix in one.fixes)
    return Outcome(first.verdict, first.summary, evidence, first.remedy, fixes)
