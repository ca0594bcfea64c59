"""`arcops soak`: mixed clients for a time, and what went wrong meanwhile."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from arcops.cli import output
from arcops.cli.durations import seconds
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ExitCode
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.words import clean

if TYPE_CHECKING:
    from arcops.evidence.shelf import Stored
    from arcops.evidence.soak import Asked

MIX: Final = "short=4,long=1,cut=1,tools=1"
MOST_CLIENTS: Final = 256


def soak(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The server; default: the daemon's own backend.")
    ] = None,
    lasting: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 90s, 10m, 2h.")] = "10m",
    clients: Annotated[int, typer.Option("--clients", min=1, max=MOST_CLIENTS, help="Clients at once.")] = 4,
    mix: Annotated[
        str | None,
        typer.Option("--mix", metavar="KIND=WEIGHT,...", help="What they do, and how often.", show_default=MIX),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed asks the same.")] = 1,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Where the server has several.")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", metavar="FILE", help="A file with the server's key.")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What ought to be known of it.")] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PLACE", help="A folder or a new .json file for the record.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Keep a server busy with mixed clients, and count what goes wrong. Ctrl-C ends it early, with its record."""
    from arcops.bench.soak.drive import Plan
    from arcops.core.evidence.soaked import gates
    from arcops.evidence.soak import Asked

    paths = Paths.of(instance_of(ctx))
    asked = Asked(
        plan=Plan(seconds(lasting, least=1.0), clients, MIX if mix is None else mix, seed, chosen=mix is not None),
        place=to or paths.records,
        command=("arcops", *sys.argv[1:]),
        url=url,
        model=model,
        api_key_file=api_key_file,
        note=note,
    )
    stored = asyncio.run(_soaked(asked, paths))
    found = gates(stored.record.soak, stored.record.setting) if stored.record.soak is not None else ()
    if as_json:
        output.json_data(_as_json(stored, found))
    else:
        _tell(stored, found)
    if any(gate.verdict is Verdict.FAILED for gate in found):
        output.leave(ExitCode.FAILED)


async def _soaked(asked: "Asked", paths: Paths) -> "Stored":
    """Ctrl-C sets `ended` instead of throwing everything away; a second one does."""
    from arcops.evidence.soak import soaked

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        output.note("ending early; once more gives it up")
        ended.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, end)
    try:
        return await soaked(asked, paths, _progress, ended)
    finally:
        if sys.stderr.isatty():
            output.rewrite("")
        loop.remove_signal_handler(signal.SIGINT)


def _progress(words: str) -> None:
    """What begins a part of the work stays; what goes on is drawn over on a terminal, and is left away elsewhere."""
    here = sys.stderr.isatty()
    if not words.endswith("to go"):
        if here:
            output.rewrite("")
        output.note(clean(words))
    elif here:
        output.rewrite(clean(words))


def _tell(stored: "Stored", found: tuple[Gate, ...]) -> None:
    from arcops.core.evidence.soaked import asked

    done = stored.record.soak
    if done is not None:
        early = f", ended early after {done.lasted:,.0f} s" if done.interrupted else ""
        before, after = done.before.preemptions, done.after.preemptions
        known = before is not None and after is not None and not done.restarts
        preempted = f"{(after or 0) - (before or 0):,.0f}" if known else "an unknown number of"
        output.data(f"{asked(done)} requests of {done.clients} clients{early}; {preempted} preemptions")
    width = max((len(gate.name) for gate in found), default=0)
    for gate in found:
        output.data(f"{gate.verdict.value:8} {gate.name:{width}}  {clean(gate.detail)}")
        for line in gate.evidence:
            output.data(f"{'':8} {'':{width}}  {clean(line)}")
    output.data(f"record: {stored.path}")


def _as_json(stored: "Stored", found: tuple[Gate, ...]) -> dict[str, object]:
    return {
        "record": str(stored.path),
        "digest": stored.digest,
        "clean": all(gate.verdict is not Verdict.FAILED for gate in found),
        "interrupted": stored.record.soak is not None and stored.record.soak.interrupted,
        "gates": [
            {"name": gate.name, "verdict": gate.verdict.value, "detail": gate.detail, "evidence": list(gate.evidence)}
            for gate in found
        ],
    }
