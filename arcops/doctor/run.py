"""Runs checks side by side: one that fails or hangs is `unknown` with its reason, and holds up none of the others."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Finding, Outcome, Report, Verdict, unknown
from arcops.doctor.sight import Sight

WITHIN = 20.0
"""Seconds that a check may take unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question, and who answers it."""

    name: str
    question: str
    look: Callable[[Sight], Outcome]
    """Called in a thread of its own. May raise ArcopsError and OSError."""
    within: float = WITHIN


def examine(sight: Sight, checks: Sequence[Check], done: Callable[[Finding], None] | None = None) -> Report:
    """Run all of them, and return when each has answered or its time is up. `done` hears of each as it ends."""
    answers: SimpleQueue[tuple[Check, Outcome, float]] = SimpleQueue()
    began = time.monotonic()
    # Threads that nobody waits for: one that hangs in the kernel must not keep the program from ending.
    for check in checks:
        threading.Thread(target=_answer, args=(check, sight, answers), name=check.name, daemon=True).start()
    open_checks = {check.name: check for check in checks}
    found: dict[str, Finding] = {}
    while open_checks:
        now = time.monotonic() - began
        late = [check for check in open_checks.values() if now >= check.within]
        for check in late:
            outcome = unknown(f"there was no answer within {check.within:g} s")
            _note(open_checks, found, check, outcome, now, done)
        if not open_checks:
            break
        try:
            first = min(check.within for check in open_checks.values())
            check, outcome, seconds = answers.get(timeout=max(0.0, first - now))
        except Empty:
            continue
        if check.name in open_checks:
            _note(open_checks, found, check, outcome, seconds, done)
    findings = tuple(found[check.name] for check in checks)
    ok = all(finding.verdict is not Verdict.PROBLEM for finding in findings)
    return Report(instance=sight.paths.instance, ok=ok, findings=findings)


def _answer(check: Check, sight: Sight, answers: "SimpleQueue[tuple[Check, Outcome, float]]") -> None:
    began = time.monotonic()
    try:
        outcome = check.look(sight)
    except ArcopsError as error:
        outcome = unknown(error.message, remedy=error.hint)
    except OSError as error:
        outcome = unknown(f"it cannot be looked at: {error.strerror or error}", *filter(None, [_place(error)]))
    except Exception as error:  # noqa: BLE001 - a check that breaks on an odd machine must not take the others with it
        outcome = unknown(f"the check itself failed: {type(error).__name__}: {error}")
    answers.put((check, outcome, time.monotonic() - began))


def _place(error: OSError) -> str:
    return str(error.filename) if error.filename else ""


def _note(
    open_checks: dict[str, Check],
    found: dict[str, Finding],
    check: Check,
    outcome: Outcome,
    seconds: float,
    done: Callable[[Finding], None] | None,
) -> None:
    del open_checks[check.name]
    finding = Finding(
        name=check.name,
        question=check.question,
        verdict=outcome.verdict,
        summary=outcome.summary,
        evidence=outcome.evidence,
        remedy=outcome.remedy,
        fixes=outcome.fixes,
        seconds=round(seconds, 3),
    )
    found[check.name] = finding
    if done is not None:
        done(finding)
