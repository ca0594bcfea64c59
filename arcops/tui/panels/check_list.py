"""What the doctor found: a check a row, and one of them in full."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arcops import words
from arcops.tui.ink import Ink, Line, Lines, Piece, plain, quiet, rule, strong

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

_LABEL = 10
_NAME = 15
_SIGNS: dict[str, tuple[str, Ink]] = {
    "problem": ("✖ problem", Ink.BAD),
    "warning": ("! warning", Ink.WARN),
    "unknown": ("? unknown", Ink.STRONG),
    "ok": ("✓ ok", Ink.GOOD),
}
"""By the verdict's word, the worst first."""


def sorted_findings(findings: Sequence["Finding"]) -> "tuple[Finding, ...]":
    """The worst first, those that are alike by name: the order in which they answer is another one each time."""
    order = list(_SIGNS)
    return tuple(sorted(findings, key=lambda one: (order.index(one.verdict.value), one.name)))


def verdict(finding: "Finding") -> Piece:
    """A sign and the word, in nine cells."""
    sign, ink = _SIGNS[finding.verdict.value]
    return (f"{sign:<9}", ink)


def row(finding: "Finding", width: int) -> Line:
    """`✖ problem  card-holders   pid 5150 (python3) of anna holds …`."""
    del width
    return (verdict(finding), plain("  "), strong(f"{finding.name:<{_NAME}}"), plain(words.clean(finding.summary)))


def summary(findings: Sequence["Finding"]) -> str:
    """`17 checks: 1 problem, 2 warnings, 1 unknown`."""
    counts = dict.fromkeys(_SIGNS, 0)
    for finding in findings:
        counts[finding.verdict.value] += 1
    said = [
        f"{counts[word]} {word}{'' if counts[word] == 1 or word == 'unknown' else 's'}" for word in list(_SIGNS)[:3]
    ]
    return f"{len(findings)} checks: {', '.join(said)}"


def detail(finding: "Finding", width: int) -> Lines:
    """The question, the answer, what was seen, and what helps."""
    lines: list[Line] = [rule(finding.name, width, remark=f"took {words.latency(finding.seconds)}")]
    lines += _labelled("question", finding.question, width)
    sign, ink = verdict(finding)
    lines.append((quiet("verdict".ljust(_LABEL)), (sign.rstrip(), ink)))
    lines += _labelled("answer", finding.summary, width, Ink.STRONG)
    for number, seen in enumerate(line for text in finding.evidence for line in text.splitlines() or [""]):
        lines += _labelled("seen" if number == 0 else "", seen, width)
    if finding.remedy:
        lines += _labelled("do", finding.remedy, width, Ink.STRONG)
    fixes = [str(fix) for fix in finding.fixes]
    if fixes:
        lines += _labelled("or", f"`arcops doctor --fix` does it: {'; '.join(fixes)}", width)
    return tuple(lines)


def _labelled(label: str, text: str, width: int, ink: Ink = Ink.PLAIN) -> list[Line]:
    rows = words.wrapped(text, width - _LABEL, most=12) or ("",)
    return [(quiet((label if number == 0 else "").ljust(_LABEL)), (row, ink)) for number, row in enumerate(rows)]
