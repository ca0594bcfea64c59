"""`arcops stop` and `arcops restart`."""

from typing import Annotated

import typer

from arcops import wire, words
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.durations import drain_of
from arcops.cli.follow import see_through

Drain = Annotated[str | None, typer.Option("--drain", metavar="TIME", help="Time for open requests, e.g. 60s.")]
Now = Annotated[bool, typer.Option("--now", help="Do not wait for open requests.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]


def stop(ctx: typer.Context, drain: Drain = None, now: Now = False, wait: Wait = True) -> None:
    """Stop the backend, and run none until told otherwise (a reboot does not start one either)."""
    with client_of(ctx) as client:
        see_through(client, client.stop(wire.StopRequest(drain=drain_of(drain, now))), wait=wait)


def restart(
    ctx: typer.Context,
    drain: Drain = None,
    now: Now = False,
    wait: Wait = True,
    replace: Annotated[bool, typer.Option("--replace", help="Overtake an order that is under way.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if it does not fit, by `arcops plan`.")] = False,
    fresh_caches: Annotated[
        bool, typer.Option("--fresh-caches", help="With empty compile caches, for this launch alone.")
    ] = False,
) -> None:
    """Run the ordered profile anew, as its file says now; forgives a latched failure."""
    request = wire.RestartRequest(drain=drain_of(drain, now), replace=replace, force=force, fresh_caches=fresh_caches)
    with client_of(ctx) as client:
        accepted = client.restart(request)
        for sentence in accepted.plan:
            output.note(words.clean(sentence))
        see_through(client, accepted, wait=wait)
