"""Runs every measurement and prints one table. Real vLLM on the CPU serves; the peer is vllmstat, from its package."""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bench.load import Chatter, Load
from tools.bench.machine import Cost, cost_over, timed
from tools.bench.scan import measure_scan
from tools.bench.switches import PAIR, measure_switches, spread
from tools.bench.terminal import Terminal
from tools.own import SWITCH_WITHIN, Arcops, command, leave_on_sigterm, runtime, say, supervised

PEER = "vllmstat==0.9.1"
LINES = 50.0
"""Lines of log a second while keys are pressed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    beside: str
    budget: str


def main() -> None:
    """Everything takes about five minutes."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long costs are averaged")
    parser.add_argument("--switches", type=int, default=3, help="pairs of switches; 0 for none")
    arguments = parser.parse_args()
    leave_on_sigterm()
    found = runtime()
    peer = install_peer()
    say("a look at every process's descriptors")
    rows = [Row(*measure_scan().cells)]
    with supervised("bench", found) as arcops:
        arcops.must("switch", PAIR[0], within=SWITCH_WITHIN)
        rows += measure_costs(arcops, peer, arguments.seconds)
        rows += [measure_first_paint(arcops, peer), measure_keys(arcops), measure_status(arcops)]
        if arguments.switches:
            arcops.must("switch", PAIR[1], within=SWITCH_WITHIN)
            rows += [Row(*cells) for cells in measure_switches(arcops, arguments.switches)]
    show(rows)


def install_peer() -> Path:
    """vllmstat in an environment of its own, in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arcops" / PEER.replace("==", "-")
    executable = cache / "bin" / "vllmstat"
    if not executable.exists():
        say(f"installing {PEER}")
        subprocess.run([sys.executable, "-m", "venv", str(cache)], check=True)
        subprocess.run([str(cache / "bin" / "python"), "-m", "pip", "install", "--quiet", PEER], check=True)
    return executable


def measure_costs(arcops: Arcops, peer: Path, seconds: float) -> list[Row]:
    """Daemon, screen and peer at one scrape a second, all watching the same busy server at the same time."""
    say(f"costs over {seconds:.0f} s, with one request after another on the server")
    watching = peer_command(peer, arcops.port)
    with Load(arcops.port), Terminal(command("tui"), arcops.env) as screen, Terminal(watching, arcops.env) as other:
        cost_over([arcops.pid, screen.pid, other.pid], 5.0)  # start-up is not the question
        ours, tui, theirs = cost_over([arcops.pid, screen.pid, other.pid], seconds)
        first, peer_first = screen.first_paint, other.first_paint
    time_share, memory_share = tui.cpu_percent / theirs.cpu_percent, tui.rss_mb / theirs.rss_mb
    ratio = f"{time_share:.2f} of its processor time, {memory_share:.2f} of its memory"
    return [
        Row("daemon", str(ours), "", "1 % of a core, 80 MB"),
        Row("screen (arcops tui)", str(tui), f"vllmstat: {theirs}; {ratio}", "no more than vllmstat"),
        Row("screen, first paint, beside a busy server", paint(first), f"vllmstat: {paint(peer_first)}", ""),
        Row("daemon and screen together", together(ours, tui), f"vllmstat: {theirs.cpu_percent:.2f} %", ""),
    ]


def measure_first_paint(arcops: Arcops, peer: Path, runs: int = 7) -> Row:
    """One alone after another, in turn with the peer; the medians."""
    say("first paint, with an idle server")
    watching = peer_command(peer, arcops.port)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(runs):
        ours.append(first_paint(command("tui"), arcops))
        theirs.append(first_paint(watching, arcops))
    mine, others = statistics.median(ours), statistics.median(theirs)
    return Row(
        "screen, first paint", f"{mine:.2f} s ({spread(ours)})", f"vllmstat: {others:.2f} s ({spread(theirs)})", "0.6 s"
    )


def first_paint(argv: Sequence[str], arcops: Arcops, within: float = 20.0) -> float:
    deadline = time.monotonic() + within
    with Terminal(argv, arcops.env) as there:
        while there.first_paint is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"{' '.join(argv)} has painted nothing within {within:.0f} s")
            time.sleep(0.01)
        return there.first_paint


def measure_keys(arcops: Arcops, rounds: int = 10) -> Row:
    """From a key on a real terminal to the view that it shows, while the log grows. Each view was shown once before."""
    say(f"keys, while {LINES:.0f} lines of log come each second")
    took: list[float] = []
    with Chatter(arcops.port, LINES) as chatter, Terminal(command("tui"), arcops.env) as screen:
        for round_number in range(rounds + 1):
            for key, view in ((b"3", "[3 logs]"), (b"4", "[4 events]"), (b"2", "[2 profiles]"), (b"1", "[1 overview]")):
                effect = screen.effect_of(key, view)
                if round_number:
                    took.append(effect)
                time.sleep(0.3)  # as fast as a person would
    took.sort()
    middle, most = took[len(took) // 2], took[int(0.95 * len(took))]
    return Row(
        "a key's effect, with 50 lines of log a second",
        f"{middle * 1000:.0f} ms (median of {len(took)}; 95 % within {most * 1000:.0f} ms)",
        f"{chatter.said} lines meanwhile",
        "50 ms",
    )


def together(one: Cost, other: Cost) -> str:
    return f"{one.cpu_percent + other.cpu_percent:.2f} % of a core"


def paint(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f} s"


def peer_command(peer: Path, port: int) -> Sequence[str]:
    return [str(peer), "--url", f"http://127.0.0.1:{port}", "--interval", "1", "--no-gpu"]


def measure_status(arcops: Arcops, runs: int = 15) -> Row:
    """Whole processes, in turn. SystemExit if one fails: an error is not what is timed."""
    say("arcops status beside an empty Python")

    def run(argv: Sequence[str]) -> None:
        done = subprocess.run(argv, env=arcops.env, stdout=subprocess.DEVNULL, check=False, timeout=60)
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)} failed with exit code {done.returncode}")

    ours: list[float] = []
    empty: list[float] = []
    for _ in range(runs):
        ours.append(timed(lambda: run(command("status"))))
        empty.append(timed(lambda: run([sys.executable, "-c", "pass"])))
    status, python = statistics.median(ours), statistics.median(empty)
    return Row("arcops status", f"{status:.3f} s", f"python -c pass: {python:.3f} s", "0.25 s")


def show(rows: Sequence[Row]) -> None:
    """The table, as docs/benchmarks.md holds it."""
    sys.stdout.write("| what | measured | beside it | budget |\n|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write(f"| {row.what} | {row.measured} | {row.beside} | {row.budget} |\n")


if __name__ == "__main__":
    main()
