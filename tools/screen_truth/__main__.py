"""Sends several loads through real vLLM under arcops, and compares what was shown with what was true of each.

What it prints is in docs/benchmarks.md. With --keep the recording and the timings stay, for the tests.
"""

import argparse
import asyncio
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from arcops import wire, words
from arcops.client import Client
from arcops.core.rates import Quantile
from tools.bench.__main__ import install_peer
from tools.own import ROOT, SWITCH_WITHIN, Arcops, command, leave_on_sigterm, runtime, say, supervised
from tools.screen_truth.load import Sent, Timing, plan, send
from tools.screen_truth.peer import Peer
from tools.screen_truth.truth import QUANTILES, Compared, Truth, quantile, quantiles_beside, rates_beside, truth

WINDOW = 60.0
"""Seconds: the screen's own."""
SETTLED = 2.5
"""Seconds after the last token until the daemon has looked again, and said so."""
QUIET = 15.0
"""Seconds between two loads."""
PROFILE = "demo-dflash2"


@dataclass(frozen=True, slots=True)
class Stage:
    """One load."""

    name: str
    per_second: float
    """Requests that arrive."""
    seconds: float
    look_at: float | None = None
    """When to look, in seconds after its beginning; None: when all is over, so that nothing is cut by the window."""


STAGES = (
    Stage("1 request a second", 1.0, 45.0),
    Stage("3 requests a second", 3.0, 45.0),
    Stage("3 requests a second, looked at in the middle", 3.0, 75.0, look_at=70.0),
    Stage("6 requests a second", 6.0, 30.0),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One look."""

    stage: Stage
    at: float
    """When, in seconds since the epoch."""
    status: wire.Status


class Kept(msgspec.Struct, frozen=True):
    """What the tests need of a run beside its recording."""

    looks: tuple[tuple[str, float], ...]
    """Name of the stage, and when it was looked at."""
    timings: tuple[tuple[float, int, tuple[tuple[float, int], ...], float], ...]


def main() -> None:
    """About six minutes."""
    parser = argparse.ArgumentParser(prog="python -m tools.screen_truth", description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for recording.gz and timings.json.gz")
    parser.add_argument("--stages", type=int, default=len(STAGES), help="only the first so many")
    arguments = parser.parse_args()
    leave_on_sigterm()
    found = runtime()
    peer = install_peer()
    with supervised("truth", found) as arcops:
        arcops.must("switch", PROFILE, within=SWITCH_WITHIN)
        file = (arguments.keep or arcops.socket.parent) / "recording.gz"
        say("recording")
        recorder = subprocess.Popen(
            command("record", str(file), "--force", "--window", f"{WINDOW:g}s"), env=arcops.env, stdout=sys.stderr
        )
        with Peer(peer.with_name("python"), arcops.port) as watching:
            with suppress(PermissionError):
                os.nice(-10)  # a client that waits for a processor would measure its own waiting
            try:
                sent, looks = asyncio.run(play(arcops, STAGES[: arguments.stages]))
            finally:
                recorder.terminate()
                recorder.wait(30)
        show(sent, looks, watching)
        if arguments.keep:
            file.write_bytes(gzip.compress(without_places(gzip.decompress(file.read_bytes()), arcops), 9, mtime=0))
            keep(arguments.keep / "timings.json.gz", sent.timings, looks)


async def play(arcops: Arcops, stages: Sequence[Stage]) -> tuple[Sent, list[Seen]]:
    """One load after another, with quiet between them."""
    say("first requests: the CPU build takes its time over them")
    sent = await send(arcops.port, "demo", plan(3.0, 1.0, 99))
    await asyncio.sleep(SETTLED)
    looks: list[Seen] = []
    for number, stage in enumerate(stages):
        if number:
            await asyncio.sleep(QUIET)
        say(stage.name)
        load = asyncio.ensure_future(send(arcops.port, "demo", plan(stage.seconds, stage.per_second, number), number))
        if stage.look_at is not None:
            await asyncio.sleep(stage.look_at)
            looks.append(look(arcops.socket, stage))
        sent.add(await load)
        if stage.look_at is None:
            await asyncio.sleep(SETTLED)
            looks.append(look(arcops.socket, stage))
    return sent, looks


def look(socket: Path, stage: Stage) -> Seen:
    """What the daemon says now, over the screen's window."""
    with Client(socket) as client:
        return Seen(stage, time.time(), client.status(WINDOW))


def span(status: wire.Status) -> tuple[float, float]:
    """The stretch of time that a status' rates are of, in seconds since the epoch."""
    rates = status.rates
    if rates.at is None:
        raise SystemExit("the daemon has no rates")
    return rates.at - rates.seconds, rates.at


def keep(path: Path, timings: Sequence[Timing], looks: Sequence[Seen]) -> None:
    """Small: times of chunks to the millisecond, since the one before."""
    kept = Kept(
        looks=tuple((seen.stage.name, seen.at) for seen in looks),
        timings=tuple(_packed(timing) for timing in timings),
    )
    path.write_bytes(gzip.compress(msgspec.json.encode(kept), 9, mtime=0))


def without_places(recording: bytes, arcops: Arcops) -> bytes:
    """The same with made-up folders: where this machine keeps its things is nobody's concern."""
    places = (
        (str(arcops.socket.parent.parent.parent), "/srv/arcops-demo"),
        (sys.prefix, "/opt/arcops"),
        (str(ROOT), "/opt/arcops"),
        (str(Path.home()), "/home/operator"),
    )
    for place, made_up in places:
        recording = recording.replace(place.encode(), made_up.encode())
    return recording


def _packed(timing: Timing) -> tuple[float, int, tuple[tuple[float, int], ...], float]:
    chunks: list[tuple[float, int]] = []
    at, told = timing.sent, 0
    for came, tokens in timing.chunks:
        gap = round(came - at, 4)
        chunks.append((gap, tokens - told))
        at, told = at + gap, tokens
    return round(timing.sent, 4), timing.prompt, tuple(chunks), at


def kept(path: Path) -> tuple[list[Timing], tuple[tuple[str, float], ...]]:
    """The timings and the looks that `keep` wrote."""
    found = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Kept)
    timings: list[Timing] = []
    for sent, prompt, chunks, done in found.timings:
        at, told = sent, 0
        one = Timing(sent, prompt, [], done)
        for gap, tokens in chunks:
            at, told = at + gap, told + tokens
            one.chunks.append((at, told))
        timings.append(one)
    return timings, found.looks


def show(sent: Sent, looks: Sequence[Seen], peer: Peer) -> None:
    """The tables, as docs/benchmarks.md holds them."""
    road = ", ".join(f"{name} {words.latency(quantile(sorted(sent.road), q) or 0.0)}" for name, q in QUANTILES)
    sys.stdout.write(f"\nThe way to the server and back took {road}.\n")
    for seen in looks:
        true = truth(sent.timings, *span(seen.status))
        rates = seen.status.rates
        sys.stdout.write(
            f"\n**{seen.stage.name}** ({true.requests * (true.until - true.since):.0f} requests ended)\n\n"
        )
        sys.stdout.write("| | truth | arcops shows | off | vllmstat shows |\n|---|---|---|---|---|\n")
        for one in rates_beside(true, rates):
            _row(one, f"{one.off:+.2%}", _peers_rate(peer, one.what, true))
        for one in quantiles_beside(true, rates):
            off = "inside" if not one.off else f"{one.off * 1000:+.1f} ms"
            _row(one, off, _peers_quantile(peer, one.what, seen.at))


def _row(one: Compared, off: str, peers: str) -> None:
    true = words.latency(one.true) if isinstance(one.shown, Quantile) else f"{one.true:.4g}"
    shown = words.quantile(one.shown) if isinstance(one.shown, Quantile) else f"{one.shown:.4g}"
    sys.stdout.write(f"| {one.what} | {true} | {shown} | {off} | {peers} |\n")


_PEERS = {"prefill": "prompt_tps", "decode": "gen_tps", "requests": "req_rate"}
_PEERS_FAMILIES = {"TTFT": "ttft", "inter-token": "tpot", "e2e": "e2e"}


def _peers_rate(peer: Peer, what: str, true: Truth) -> str:
    key = _PEERS.get(what)
    told = None if key is None else peer.number(key, true.since, true.until)
    return "" if told is None else f"{told[0]:.3g} to {told[2]:.3g}, mean {told[1]:.4g}"


def _peers_quantile(peer: Peer, what: str, at: float) -> str:
    family, _, name = what.partition(" ")
    told = peer.quantile(_PEERS_FAMILIES[family], name, at)
    return "" if told is None else words.latency(told)


if __name__ == "__main__":
    main()
