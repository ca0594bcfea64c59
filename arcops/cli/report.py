"""`arcops report`: one archive with what a maintainer would ask for."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from arcops import __version__
from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.config.paths import Paths

_SHOWN = 4
"""Names of missing parts in the one line; the manifest has them all."""


def report(
    ctx: typer.Context,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Where to write it; a folder for the usual name in it.")
    ] = None,
    launch: Annotated[
        str | None, typer.Option("--launch", metavar="ID", help="Logs and evidence of this launch only.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say where it is and what it lacks as JSON.")] = False,
) -> None:
    """Pack what a maintainer would ask for into one archive, without its secrets. Needs no daemon."""
    from arcops.report.bundle import refuse_to_overwrite, write  # here and not above: they load a YAML parser
    from arcops.report.collect import collect

    paths = Paths.of(instance_of(ctx))
    at = time.time()
    stem = f"arcops-report-{paths.instance}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(at))}"
    target = to or Path(f"{stem}.tar.gz")
    if target.is_dir():
        target = target / f"{stem}.tar.gz"
    if not force:
        refuse_to_overwrite(target)
    bundle = collect(paths, os.environ, launch)
    about: dict[str, object] = {
        "report": 1,
        "instance": paths.instance,
        "at": at,
        "arcops": __version__,
        "launch": launch,
    }
    content = bundle.packed(stem, about, at)
    write(target, content, force=force)
    if as_json:
        output.json_data({"path": str(target.absolute()), "bytes": len(content), "missing": dict(bundle.missing)})
        return
    output.data(f"{target}: {_size(len(content))}, {len(bundle.members)} files; {_gaps(list(bundle.missing))}")
    if "status.json" in bundle.missing:
        output.note(f"without the daemon: {bundle.missing['status.json']}")
    output.note("secrets that arcops knows of are hidden; look into it before you send it")


def _size(size: int) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MiB"


def _gaps(missing: list[str]) -> str:
    if not missing:
        return "nothing is missing"
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"left out: {', '.join(output.printable(name) for name in missing[:_SHOWN])}{more} (manifest.json says why)"
