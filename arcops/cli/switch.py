"""`arcops switch`: run another profile instead of what runs now."""

from typing import Annotated

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.durations import drain_of
from arcops.cli.follow import see_through


def switch(
    ctx: typer.Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="What to run; see `arcops profile list`.")],
    drain: Annotated[
        str | None, typer.Option("--drain", metavar="TIME", help="Time for open requests, e.g. 60s.")
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for open requests.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, say what would be done.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it serves.")] = True,
    replace: Annotated[bool, typer.Option("--replace", help="Overtake an order that is under way.")] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback/--no-rollback", help="Return to the previous profile if this one fails.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Even if it does not fit, by `arcops plan`.")] = False,
    qualified: Annotated[
        bool, typer.Option("--qualified", help="Only if it has passed `arcops qualify` in this very environment.")
    ] = False,
) -> None:
    """Run PROFILE instead of what runs now: checked first, then drained, stopped, started and proved."""
    request = wire.SwitchRequest(
        profile=profile,
        drain=drain_of(drain, now),
        replace=replace,
        rollback=rollback,
        dry_run=dry_run,
        force=force,
        qualified=qualified,
    )
    with client_of(ctx) as client:
        if qualified:
            output.note(f"reading the environment that {profile} would run in; the first time this takes a while")
        accepted = client.switch(request)
        if dry_run:
            output.data("\n".join(f"{number}. {step}" for number, step in enumerate(accepted.plan, 1)))
        else:
            see_through(client, accepted, wait=wait)
