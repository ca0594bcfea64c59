"""`arcops bench report`: records as one HTML file with plots that opens offline."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from arcops import words
from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.evidence.shelf import Stored

_STDOUT: Final = "-"


def add_to(app: typer.Typer) -> None:
    """Give `arcops bench` this command."""
    app.command("report")(report)


def report(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="RECORD...", help="Files, or beginnings of digests.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where to write it; - is stdout; default: here, named like the record."
        ),
    ] = None,
    records: Annotated[
        Path | None, typer.Option("--records", metavar="FOLDER", help="Where the records are; default: the instance's.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say where it is as JSON.")] = False,
) -> None:
    """Write records as one HTML file: verdicts, plots, tables, every request. It loads nothing, and has no script."""
    from arcops.evidence import shelf  # here and not above: what draws is loaded by nothing else
    from arcops.evidence.report.page import html

    paths = Paths.of(instance_of(ctx))
    folder = paths.records if records is None else records
    if out == _STDOUT and as_json:
        raise ArcopsError("stdout holds either the report or JSON", exit_code=ExitCode.USAGE)
    stored = [shelf.read(shelf.named(folder, name)) for name in names]
    place = None if out == _STDOUT else _place(stored, out)
    if place is not None:
        _check(place, force=force)
    page = html(stored, paths.environments)
    if place is None:
        output.data(page.rstrip("\n"))
        return
    content = page.encode("utf-8", "replace")
    _write(place, content)
    if as_json:
        digests = [one.digest for one in stored]
        output.json_data({"path": str(place.absolute()), "bytes": len(content), "records": digests})
        return
    output.data(f"{words.clean(str(place))}: {len(content) / 1024:,.0f} KiB; open it in any browser")


def _place(stored: "list[Stored]", out: str | None) -> Path:
    """A folder gets a file of the usual name in it."""
    several = f"-and-{len(stored) - 1}-more" if len(stored) > 1 else ""
    usual = f"{stored[0].path.stem}{several}.html"
    place = Path(usual if out is None else out)
    return place / usual if os.path.isdir(place) else place


def _check(place: Path, *, force: bool) -> None:
    """Raises ArcopsError (usage) where it would take the place of something that is not to be lost."""
    if force and os.path.exists(place) and not os.path.isfile(place):
        # A device would be gone, and not written to.
        raise ArcopsError(f"{place} is no file", hint="`--out -` writes to stdout", exit_code=ExitCode.USAGE)
    if not force and os.path.lexists(place):
        raise ArcopsError(f"there is a file {place} already", hint="--force overwrites it", exit_code=ExitCode.USAGE)


def _write(place: Path, content: bytes) -> None:
    """In one step: a reader sees all of it or what was there. Raises ArcopsError."""
    temporary = place.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        temporary.write_bytes(content)
        os.replace(temporary, place)
    except OSError as error:
        raise ArcopsError(f"cannot write {place}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
