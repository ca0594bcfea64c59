"""`arcops events`: the history, with its reasons."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from arcops import wire, words
from arcops.cli import output
from arcops.cli.connect import DaemonEndedError, client_of


def events(
    ctx: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="How many of the last ones.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document (with -f: one a line).")] = False,
) -> None:
    """Show what happened, and why."""
    with client_of(ctx) as client:
        if not follow:
            page = client.events(after=-lines, limit=lines)
            if as_json:
                output.data(wire.encode(page).decode())
            else:
                for event in page.events:
                    output.data(line(event))
            return
        for event in client.follow_events(after=-lines):
            output.data(wire.encode(event).decode() if as_json else line(event))
    raise DaemonEndedError


def line(event: wire.Event) -> str:
    """`11-30 10:48:02  serving   dflash2               serving qwen-int4`."""
    at = datetime.fromtimestamp(event.at, UTC).astimezone()
    profile = event.profile or "-"
    what = event.phase if event.kind == "phase" else event.kind
    return f"{at:%m-%d %H:%M:%S}  {what:<8}  {profile:<20}  {words.clean(event.reason)}"
