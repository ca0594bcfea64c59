"""`arcops logs`: what the backend wrote, or the supervisor."""

from typing import Annotated

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.connect import DaemonEndedError, client_of
from arcops.core.errors import ArcopsError, ExitCode


def logs(
    ctx: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=10_000, help="How many lines.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines, and new launches.")] = False,
    launch: Annotated[
        str | None, typer.Option("--launch", metavar="ID", help="Of this launch, not the newest.")
    ] = None,
    supervisor: Annotated[
        bool, typer.Option("--supervisor", help="What arcopsd itself said: its last 1000 lines.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document (with -f: one a line).")] = False,
) -> None:
    """Show the log of the newest launch, of another one, or of the supervisor."""
    if supervisor and launch is not None:
        raise ArcopsError(
            "--supervisor and --launch contradict each other", hint="use one of them", exit_code=ExitCode.USAGE
        )
    with client_of(ctx) as client:
        if follow:
            pages = client.follow_logs(lines, launch, supervisor=supervisor)
        else:
            pages = iter([client.logs(lines, launch, supervisor=supervisor)])
        seen: str | None = None if supervisor else ""
        for page in pages:
            if as_json:
                output.data(wire.encode(page).decode())
                continue
            if page.launch_id != seen:
                seen = page.launch_id
                output.note(f"== launch {seen}" if seen else "== there was no launch yet")
            if page.lines:
                output.data("\n".join(output.printable(line) for line in page.lines))
    if follow:
        raise DaemonEndedError
