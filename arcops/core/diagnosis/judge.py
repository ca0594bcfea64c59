"""From the evidence of an ended or failing launch to one diagnosis."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from signal import SIGINT, SIGKILL, SIGTERM, Signals

from arcops.core.diagnosis import root
from arcops.core.diagnosis.causes import ANYWHERE, RULES, Rule
from arcops.core.phase import Phase
from arcops.core.world import Cause

_MAX_WORDS = 300
"""Characters of a summary, a hint or a quoted line."""
_STARTING = (Phase.STARTING, Phase.CHECKING)
_DRAFT = re.compile(r"[Ss]peculative|spec_decode|drafter|draft_model|propose|eagle|dflash|medusa|(?:\b|_)mtp\b|MTP")
_DRAFT_CAUSES = (Cause.MODEL_NOT_FOUND, Cause.UNSUPPORTED)
"""With the draft as their object these mean that the draft does not fit."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about the end of a launch, or about its failing to get ready."""

    exit_code: int | None
    """Of the main process, negative for a signal; None while it lives, or if nobody knows."""
    asked_to_stop: bool
    phase: Phase
    """Where the backend was when it happened."""
    log: Sequence[str]
    """The last some thousand lines of its log."""
    profile_speculates: bool = False
    foreign_memory: bool | None = None
    """Whether somebody else held memory of the card; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why, in one line each: what happened, and what to do."""

    cause: Cause
    summary: str
    hint: str
    deterministic: bool
    """Trying the same launch again would fail the same way."""
    points_at_draft: bool = False
    """The draft, or the speculative settings, are to blame: the same profile without them may well start."""
    evidence: str = ""
    """The line of the log that says so; empty if the log said nothing."""
    fits_context: int | None = None
    """The largest context in tokens that would fit, where vLLM names it."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """The most telling cause, in this order: an order to stop, the log, the exit. What the supervisor sees from outside
    (a stranger on the port, another identity, a stalled start) it judges itself, in core/decide."""
    if evidence.asked_to_stop and evidence.exit_code is not None:
        return Diagnosis(Cause.STOPPED, "stopped as ordered", "", deterministic=False)
    lines = root.read(evidence.log)
    found = root.find(lines)
    if found is not None and not found.in_engine and evidence.phase not in _STARTING:
        # While serving, the API server logs the faults of single requests: none of them ended it.
        found = None
    judged = _known(evidence, found, lines) or _signalled(evidence) or _unexplained(evidence, found, lines)
    quoted = judged.evidence or ("" if found is None else found.text)
    return replace(judged, summary=_line(judged.summary), hint=_line(judged.hint), evidence=_line(quoted))


def _known(evidence: Evidence, found: root.Root | None, lines: Sequence[root.Line]) -> Diagnosis | None:
    """What the table says about the root cause, or about a native crash that left no exception."""
    if found is not None:
        for rule in RULES:
            match = rule.pattern.search(found.text)
            if match is not None:
                return _judged(evidence, rule, match, found)
    for line in reversed(lines):
        for rule in ANYWHERE:
            match = rule.pattern.search(line.text) if line.level in ("", "ERROR", "CRITICAL") else None
            if match is not None:
                return _judged(evidence, rule, match, root.Root(line.text, "", in_engine=False))
    return None


def _judged(evidence: Evidence, rule: Rule, match: re.Match[str], found: root.Root) -> Diagnosis:
    words = {key: value or "" for key, value in match.groupdict().items()}
    fits = words.get("fits", "")
    diagnosis = Diagnosis(
        cause=rule.cause,
        summary=rule.summary.format_map(words),
        hint=rule.hint.format_map(words),
        deterministic=rule.deterministic,
        points_at_draft=_points_at_draft(evidence, found),
        evidence=found.text,
        fits_context=int(fits) if fits else None,
    )
    if rule.cause is Cause.KV_CACHE_TOO_SMALL and "fits" in words and not fits:
        return replace(diagnosis, hint="lower scheduling.max_model_len, or give the cache more memory")
    if rule.cause is Cause.OUT_OF_MEMORY:
        # With nobody else on the card, and nothing served yet, the next start meets the same memory.
        alone = evidence.foreign_memory is False and evidence.phase in _STARTING
        return replace(diagnosis, deterministic=alone)
    if diagnosis.points_at_draft and rule.cause in _DRAFT_CAUSES:
        hint = "correct the draft in the profile, or run without one"
        return replace(diagnosis, cause=Cause.DRAFT_INCOMPATIBLE, summary=f"the draft: {diagnosis.summary}", hint=hint)
    return diagnosis


def _points_at_draft(evidence: Evidence, found: root.Root) -> bool:
    if not evidence.profile_speculates:
        return False
    return _DRAFT.search(found.text) is not None or _DRAFT.search(found.traceback) is not None


def _signalled(evidence: Evidence) -> Diagnosis | None:
    code = evidence.exit_code
    if code is None or code >= 0:
        return None
    if -code == SIGKILL:
        hint = "`journalctl -k` says whether it was the kernel for want of memory; else somebody killed it"
        return Diagnosis(Cause.OOM_KILLER, "killed by SIGKILL, which nobody here sent", hint, deterministic=False)
    try:
        name = Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    asked = -code in (SIGINT, SIGTERM)
    hint = "somebody else asked it to stop" if asked else "a crash in native code; `coredumpctl` may hold more"
    return Diagnosis(Cause.KILLED_BY_SIGNAL, f"ended by {name}", hint, deterministic=False)


def _unexplained(evidence: Evidence, found: root.Root | None, lines: Sequence[root.Line]) -> Diagnosis:
    """The log's own words where it has some, else the bare fact."""
    hint = "look at the backend's log: `arcops logs`"
    draft = found is not None and _points_at_draft(evidence, found)
    if found is not None and evidence.phase in _STARTING and not root.is_engine_death(lines):
        return Diagnosis(Cause.UNKNOWN, f"vLLM failed: {found.text}", hint, deterministic=False, points_at_draft=draft)
    if found is not None:
        summary = f"the engine died: {found.text}"
        return Diagnosis(Cause.ENGINE_DIED, summary, hint, deterministic=False, points_at_draft=draft)
    if root.is_engine_death(lines) or evidence.exit_code == 0:
        summary = "the engine died without saying why" if root.is_engine_death(lines) else "vLLM ended by itself"
        hint = "`journalctl -k` may say more: a killed process, a reset of the card"
        return Diagnosis(Cause.ENGINE_DIED, summary, hint, deterministic=False)
    code = "with an unknown exit code" if evidence.exit_code is None else f"with exit code {evidence.exit_code}"
    return Diagnosis(Cause.UNKNOWN, f"vLLM ended {code} and gave no reason", hint, deterministic=False)


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_WORDS else words[: _MAX_WORDS - 1] + "…"
