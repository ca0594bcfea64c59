"""`arcops tui`: the operator's screen."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode


def tui(
    ctx: typer.Context,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="FILE", help="Play what `arcops record FILE` recorded; needs no daemon."),
    ] = None,
) -> None:
    """Show the operator's screen.

    It only looks: leaving it changes nothing, and it finds its way back when the daemon is restarted.
    """
    if not _on_a_terminal():
        raise ArcopsError(
            "the operator's screen needs a terminal",
            hint="`arcops status --watch` shows the status as plain lines",
            exit_code=ExitCode.USAGE,
        )
    if replay is not None:
        from arcops.tui.replaying.player import run as play

        raise typer.Exit(play(replay))
    instance = instance_of(ctx)
    socket = Paths.of(instance).socket
    from arcops.tui.app import run  # an eighth of a second, which nobody else should pay

    raise typer.Exit(run(socket, instance))


def _on_a_terminal() -> bool:
    """Whether all ends are a terminal that can move its cursor. A closed stream (`<&-`) is None; the screen is painted
    on stderr, which Textual takes, so that one in a file would leave the terminal empty."""
    ends = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM") != "dumb" and all(end is not None and end.isatty() for end in ends)
