"""`arcops doctor`: what is wrong with this machine, and what helps."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.cli.output import Style
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.doctor import Finding, Report, Sight
    from arcops.doctor.run import Check

_STYLES = {"ok": Style.GREEN, "warning": Style.YELLOW, "problem": Style.RED, "unknown": Style.DIM}
_WIDTH = 9
"""Of the column with the verdict."""


def doctor(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[CHECK]...", help="Only these checks.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Do what helps and is harmless: lingering, daemon-reload, files and cgroups left."),
    ] = False,
) -> None:
    """Look for what is wrong with this machine, and say what helps. Exit code 1 where there is a problem."""
    # Here, not above: what checks need (the client, the profiles' reader) no other command should load.
    from arcops.doctor import Sight, examine

    checks = _chosen(names or [])
    sight = Sight.of(instance_of(ctx), os.environ, asked=names or ())
    report = _examine(sight, checks)
    if fix and _fix(sight, report):
        report = examine(Sight.of(instance_of(ctx), os.environ, asked=names or ()), checks)
    if as_json:
        output.data(wire.encode(report).decode())
    else:
        for finding in report.findings:
            output.data("\n".join(_lines(finding)))
        output.data(_sum(report))
    output.leave(ExitCode.DONE if report.ok else ExitCode.FAILED)


def _chosen(names: list[str]) -> "list[Check]":
    from arcops.doctor.checks import CHECKS

    known = {check.name: check for check in CHECKS}
    strange = [name for name in names if name not in known]
    if strange:
        raise ArcopsError(
            f"there is no check {', '.join(map(repr, strange))}",
            hint=f"the checks: {', '.join(known)}",
            exit_code=ExitCode.USAGE,
        )
    return [known[name] for name in dict.fromkeys(names)] or list(CHECKS)


def _examine(sight: "Sight", checks: "list[Check]") -> "Report":
    """Run them; on a terminal, say which ones are not done yet."""
    from arcops.doctor import examine

    left = [check.name for check in checks]
    shown = sys.stderr is not None and output.colours(sys.stderr)  # pyright: ignore[reportUnnecessaryComparison] - it is None where it was closed

    def done(finding: "Finding") -> None:
        left.remove(finding.name)
        if shown:
            output.rewrite(f"looking: {', '.join(left)}" if left else "")

    return examine(sight, checks, done)


def _fix(sight: "Sight", report: "Report") -> bool:
    """Do what helps, and say so; whether there was anything to do."""
    from arcops.doctor.fix import apply

    fixes = [fix for finding in report.findings for fix in finding.fixes]
    if not fixes:
        output.note("there is nothing that --fix could do")
        return False
    for fix, error in apply(sight, fixes):
        if error is None:
            output.note(output.printable(f"done: {fix}"))
        else:
            output.warn(
                output.printable(f"not done: {fix}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
            )
    return True


def _lines(finding: "Finding") -> list[str]:
    verdict = finding.verdict.value
    head = output.paint(f"{verdict:<{_WIDTH}}", _STYLES[verdict])
    lines = [f"{head}{finding.name:<14} {output.printable(finding.summary)}"]
    indent = " " * _WIDTH
    lines += [f"{indent}{'':<14} {output.printable(line)}" for text in finding.evidence for line in text.splitlines()]
    if finding.remedy:
        lines.append(f"{indent}{'do:':>14} {output.printable(finding.remedy)}")
    return lines


def _sum(report: "Report") -> str:
    counts = dict.fromkeys(_STYLES, 0)
    for finding in report.findings:
        counts[finding.verdict.value] += 1
    words = (f"{counts['problem']} problems", f"{counts['warning']} warnings", f"{counts['unknown']} unknown")
    return f"{len(report.findings)} checks: {', '.join(words)}"
