"""`arcops status`: what runs, for how long, and why."""

from typing import Annotated

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.connect import DaemonEndedError, client_of
from arcops.cli.describe import status_lines
from arcops.cli.durations import seconds
from arcops.cli.output import Style
from arcops.core.errors import ExitCode

HEALTHY = frozenset({"serving"})
SHORTEST_WINDOW = 1.0
"""Seconds: numbers come once a second."""
COMING = frozenset({"starting", "checking", "draining", "stopping", "clearing"})


def status(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="The whole status as JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again whenever it changes, until Ctrl-C.")] = False,
    window: Annotated[
        str, typer.Option("--window", metavar="TIME", help="What rates are taken over, e.g. 60s, 5m, 1h.")
    ] = "60s",
) -> None:
    """Say what runs, for how long, and why. Exit code 3 when nothing serves."""
    over = seconds(window, least=SHORTEST_WINDOW)
    with client_of(ctx) as client:
        if watch:
            for one in client.follow_status(over):
                _show(one, as_json, again=True)
            raise DaemonEndedError
        one = client.status(over)
    _show(one, as_json, again=False)
    output.leave(exit_code(one.phase))


def exit_code(phase: str) -> ExitCode:
    """What the shell is told about a phase: 0 serves, 9 wedged, else 3."""
    if phase == "wedged":
        return ExitCode.WEDGED
    return ExitCode.DONE if phase in (*HEALTHY, "suspect") else ExitCode.NOT_RUNNING


def _show(status: wire.Status, as_json: bool, *, again: bool) -> None:
    if as_json:
        output.data(wire.encode(status).decode())
        return
    lines = status_lines(status)
    lines[0] = output.paint(lines[0], _style(status.phase))
    output.data("\n".join([*lines, ""] if again else lines))


def _style(phase: str) -> Style:
    if phase in HEALTHY:
        return Style.GREEN
    return Style.YELLOW if phase in COMING else Style.BOLD if phase == "stopped" else Style.RED
