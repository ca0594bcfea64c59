"""Runs every measurement and prints one table. Real vLLM on the CPU serves; the peer is vllmstat, from its package."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tools import demo
from tools.bench.machine import Cost, cost_over, timed
from tools.bench.switches import measure_switches
from tools.bench.terminal import Terminal

PEER = "vllmstat==0.9.1"


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
    parser.add_argument("--switches", type=int, default=3, help="pairs of switches")
    arguments = parser.parse_args()
    vllm, models = demo.runtime()
    peer = install_peer()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="arcops-bench-") as folder:
        port = demo.free_port()
        env = demo.configure(Path(folder), vllm, models, port)
        daemon = subprocess.Popen([sys.executable, "-m", "arcops.daemon.main"], env=env, stderr=subprocess.DEVNULL)
        try:
            demo.wait_for_daemon(env)
            demo.arcops(env, "switch", "demo-dflash2")
            rows += measure_costs(env, daemon.pid, port, peer, arguments.seconds)
            rows.append(measure_status(env))
            demo.arcops(env, "switch", "demo-target-only")
            rows += [Row(*cells) for cells in measure_switches(env, arguments.switches)]
        finally:
            daemon.terminate()
            daemon.wait()
    show(rows)


def install_peer() -> Path:
    """vllmstat in an environment of its own, in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arcops" / PEER.replace("==", "-")
    executable = cache / "bin" / "vllmstat"
    if not executable.exists():
        demo.say(f"installing {PEER}")
        subprocess.run([sys.executable, "-m", "venv", str(cache)], check=True)
        subprocess.run([str(cache / "bin" / "python"), "-m", "pip", "install", "--quiet", PEER], check=True)
    return executable


def measure_costs(env: dict[str, str], daemon: int, port: int, peer: Path, seconds: float) -> list[Row]:
    """Daemon, screen and peer at one scrape a second, all watching the same busy server at the same time."""
    demo.say(f"costs over {seconds:.0f} s, with one request after another on the server")
    with Load(port), Terminal(own("tui"), env) as screen, Terminal(peer_command(peer, port), env) as other:
        cost_over([daemon, screen.pid, other.pid], 5.0)  # start-up is not the question
        ours, tui, theirs = cost_over([daemon, screen.pid, other.pid], seconds)
        first, peer_first = screen.first_paint, other.first_paint
    return [
        Row("daemon", str(ours), "", "1 % of a core, 80 MB"),
        Row("screen (arcops tui)", str(tui), f"vllmstat: {theirs}", "no more processor time than vllmstat"),
        Row("screen, first paint", paint(first), f"vllmstat: {paint(peer_first)}", "0.6 s"),
        Row("daemon and screen together", together(ours, tui), f"vllmstat: {theirs.cpu_percent:.2f} %", ""),
    ]


def together(one: Cost, other: Cost) -> str:
    return f"{one.cpu_percent + other.cpu_percent:.2f} % of a core"


def paint(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f} s"


def own(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "arcops.cli.main", *arguments]


def peer_command(peer: Path, port: int) -> Sequence[str]:
    return [str(peer), "--url", f"http://127.0.0.1:{port}", "--interval", "1", "--no-gpu"]


def measure_status(env: dict[str, str], runs: int = 15) -> Row:
    """Whole processes, in turn."""
    demo.say("arcops status beside an empty Python")

    def run(argv: Sequence[str]) -> None:
        subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    ours: list[float] = []
    empty: list[float] = []
    for _ in range(runs):
        ours.append(timed(lambda: run(own("status"))))
        empty.append(timed(lambda: run([sys.executable, "-c", "pass"])))
    status, python = statistics.median(ours), statistics.median(empty)
    return Row("arcops status", f"{status:.3f} s", f"python -c pass: {python:.3f} s", "0.25 s")


class Load:
    """One completion after another, until it is left."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/completions"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        body = {"model": "demo", "prompt": "The supervisor", "max_tokens": 256, "temperature": 0}
        with httpx.Client(trust_env=False, timeout=120) as client:
            while not self._done.wait(0.2):
                client.post(self._url, json=body)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def show(rows: Sequence[Row]) -> None:
    """The table, as docs/benchmarks.md holds it."""
    sys.stdout.write("| what | measured | beside it | budget |\n|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write(f"| {row.what} | {row.measured} | {row.beside} | {row.budget} |\n")


if __name__ == "__main__":
    main()
