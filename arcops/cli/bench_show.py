"""`arcops bench list`, `show` and `compare`: what was measured, what it is worth, and whether runs may be compared."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from arcops import words
from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.evidence.shelf import Found, Stored

PIPED_WIDTH: Final = 80
NARROWEST: Final = 60
WIDEST: Final = 200
"""Columns."""
MOST_COMPARED: Final = 26
"""They are named by letters."""

Named = Annotated[str, typer.Argument(metavar="RECORD", help="A file, or the beginning of a record's digest.")]
Folder = Annotated[
    Path | None, typer.Option("--records", metavar="FOLDER", help="Where the records are; default: the instance's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def list_records(
    ctx: typer.Context,
    kind: Annotated[
        str | None, typer.Option("--kind", "-k", metavar="KIND", help="Only these: ladder, context, qualification, ...")
    ] = None,
    records: Folder = None,
    as_json: AsJson = False,
) -> None:
    """List the records, newest first; those that are damaged, too."""
    from arcops.evidence import shelf
    from arcops.evidence.record import KINDS

    if kind is not None and kind not in KINDS:
        raise ArcopsError(
            f"there are no records of the kind {kind!r}", hint=f"one of {', '.join(KINDS)}", exit_code=ExitCode.USAGE
        )
    folder = _folder(ctx, records)
    found = shelf.find(folder, kind)
    if as_json:
        output.json_data([_as_json(one) for one in found])
        return
    if not found:
        output.note(f"no records in {folder}")
    for line in _list(found, width()):
        output.data(line)


def show(ctx: typer.Context, record: Named, records: Folder = None, as_json: AsJson = False) -> None:
    """Show a record: where it was measured, its figures, and whether they are worth anything.

    Its digest is checked: one that was edited after it was written is refused.
    """
    from arcops.evidence.oracle import followed

    stored = _stored(ctx, record, records)
    checked = followed(stored, _folder(ctx, records))
    if as_json:
        from arcops.cli.bench_json import shown

        output.json_data(shown(stored, checked))
        return
    from arcops.cli.bench_words import lines_of

    output.data("\n".join(lines_of(stored, width(), checked)))


def compare(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="RECORD RECORD...", help="Files, or beginnings of digests.")],
    records: Folder = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Show them side by side even if they are not comparable.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show two or more runs side by side, if they may be compared: else say in what they differ, with exit code 1.

    Over several runs of one configuration it also says which rungs are qualified by the two-run rule.
    """
    if not 2 <= len(names) <= MOST_COMPARED:
        raise ArcopsError(f"a comparison takes 2 to {MOST_COMPARED} records", exit_code=ExitCode.USAGE)
    from arcops.cli.bench_compare import Comparison, lines_of

    stored = [_stored(ctx, name, records) for name in names]
    found = Comparison.of(stored, Paths.of(instance_of(ctx)).environments)
    refused = not found.comparable and not anyway
    if as_json:
        output.json_data(found.as_json())
    elif not refused:
        output.data("\n".join(lines_of(found, width())))
    if refused:
        for line in found.why_not():
            output.note(line)
        raise ArcopsError("these runs are not comparable", hint="--anyway shows them side by side all the same")


def schema() -> None:
    """Print the JSON Schema of a record's file."""
    from arcops.evidence.schema import of_file

    output.json_data(of_file())


def width() -> int:
    """Of the terminal, within what reads well; where there is none, a usual one's."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `>&-`
    columns = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if terminal else PIPED_WIDTH
    return max(NARROWEST, min(WIDEST, columns))


def _folder(ctx: typer.Context, records: Path | None) -> Path:
    return Paths.of(instance_of(ctx)).records if records is None else records


def _stored(ctx: typer.Context, name: str, records: Path | None) -> "Stored":
    from arcops.evidence import shelf

    return shelf.read(shelf.named(_folder(ctx, records), name))


def _list(found: "tuple[Found, ...]", columns: int) -> list[str]:
    from arcops.cli.bench_words import short, when
    from arcops.cli.tables import Column, table

    if not found:
        return []
    good = [one for one in found if one.head is not None]
    heads = [one.head for one in good if one.head is not None]
    lines = table(
        [
            Column("record", [short(one.digest) for one in good], left=True),
            Column("kind", [words.clean(head.kind) for head in heads], left=True),
            Column("began", [when(head.began) for head in heads], left=True),
            Column("profile", [words.clean(head.profile or "-") for head in heads], need=1, left=True),
            Column("model", [words.clean(head.model or "-") for head in heads], need=2, left=True),
            Column("note", [words.clean(head.note) for head in heads], need=3, left=True),
        ],
        columns,
    )
    damaged = [
        line
        for one in found
        if one.head is None
        for line in words.folded(f"damaged: {words.clean(one.problem)}", columns, indent="  ")
    ]
    return [*(lines if good else []), *damaged]


def _as_json(one: "Found") -> dict[str, object]:
    head = one.head
    return {
        "path": str(one.path),
        "digest": one.digest,
        "kind": None if head is None else head.kind,
        "began": None if head is None else head.began,
        "ended": None if head is None else head.ended,
        "profile": None if head is None else head.profile,
        "model": None if head is None else head.model,
        "note": None if head is None else head.note,
        "problem": one.problem or None,
    }
