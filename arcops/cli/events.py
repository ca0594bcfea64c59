"""`arcops events`: the history, with its reasons."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from arcops import wire, words
from arcops.cli import output
from arcops.cli.connect import DaemonEndedError, client_of
from arcops.cli.durations import seconds, shown
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode

PAGE = 10_000
"""Events that the daemon gives at once."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are asked for; what is empty or None does not matter."""

    kinds: frozenset[str] = frozenset()
    """Of an event, or of the phase that it tells."""
    profile: str | None = None
    launch: str | None = None
    since: float | None = None
    """Seconds since the epoch."""

    def __call__(self, event: wire.Event) -> bool:
        return (
            (not self.kinds or event.kind in self.kinds or (event.kind == "phase" and event.phase in self.kinds))
            and self.profile in (None, event.profile)
            and self.launch in (None, event.launch_id)
            and (self.since is None or event.at >= self.since)
        )


def events(
    ctx: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=PAGE, help="How many of the last ones.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", "-k", metavar="KIND", help="Only these: order, outcome, trouble, ..., or a phase."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", metavar="NAME", help="Only of this profile.")
    ] = None,
    launch: Annotated[str | None, typer.Option("--launch", metavar="ID", help="Only of this launch.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only from then on: 90m or 7d ago, or 2026-11-30T10:00."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document (with -f: one a line).")] = False,
) -> None:
    """Show what happened, and why: every change of the phase, orders and what became of them, trouble."""
    begin = None if since is None else moment(since, time.time())
    wanted = Wanted(frozenset(kind or ()), profile, launch, begin)
    with client_of(ctx) as client:
        last = newest(client, wanted, lines)
        if as_json and not follow:
            output.data(wire.encode(wire.Events(events=tuple(last))).decode())
            return
        _show(last, as_json)
        if not follow:
            return
        after = last[-1].id if last else _newest_id(client)
        _show((event for event in client.follow_events(after=after) if wanted(event)), as_json, before=last)
    raise DaemonEndedError


def newest(client: Client, wanted: Wanted, most: int) -> list[wire.Event]:
    """The last events that are wanted, at most `most`, oldest first; as far back as they lie."""
    if wanted == Wanted():
        return list(client.events(after=-most, limit=most).events)
    found: list[wire.Event] = []
    for page in _pages_backwards(client):
        found = [event for event in page if wanted(event)] + found
        if len(found) >= most or (wanted.since is not None and page[0].at < wanted.since):
            break
    return found[-most:]


def _pages_backwards(client: Client) -> Iterator[tuple[wire.Event, ...]]:
    page = client.events(after=-PAGE, limit=PAGE).events
    while page:
        yield page
        oldest = page[0].id
        if oldest <= 1:
            return
        earlier = client.events(after=max(0, oldest - 1 - PAGE), limit=PAGE).events
        page = tuple(event for event in earlier if event.id < oldest)


def _newest_id(client: Client) -> int:
    return max((event.id for event in client.events(after=-1, limit=1).events), default=0)


def moment(text: str, now: float) -> float:
    """What --since means, in seconds since the epoch: `90m` and `7d` are before `now`, a date is in local time."""
    number, days, rest = text.strip().partition("d")
    if days and not rest and number.isascii() and number.isdigit() and len(number) < 6:
        return now - int(number) * _DAY
    try:
        return now - seconds(text)
    except ArcopsError:
        pass
    try:
        # Without a zone of its own it is of the local one.
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise ArcopsError(
            f"{shown(text)} is neither a duration nor a time",
            hint="for example 90m, 7d or 2026-11-30T10:00",
            exit_code=ExitCode.USAGE,
        ) from None


def _show(found: Iterable[wire.Event], as_json: bool, before: Iterable[wire.Event] = ()) -> None:
    """Each event on a line; the launch is named where another one begins."""
    told = next((event.launch_id for event in reversed(list(before)) if event.launch_id is not None), None)
    for event in found:
        if as_json:
            output.data(wire.encode(event).decode())
            continue
        new = event.launch_id not in (None, told)
        told = event.launch_id or told
        output.data(line(event, name_launch=new))


def line(event: wire.Event, *, name_launch: bool = False) -> str:
    """`11-30 10:48:02  serving   dflash2               serving qwen-int4`."""
    at = datetime.fromtimestamp(event.at, UTC).astimezone()
    profile = event.profile or "-"
    what = event.phase if event.kind == "phase" else event.kind
    launch = f" (launch {words.clean(event.launch_id)})" if name_launch and event.launch_id else ""
    return f"{at:%m-%d %H:%M:%S}  {what:<8}  {profile:<20}  {words.clean(event.reason)}{launch}"
