"""A switch beside what bare vLLM takes for the same: stop one server, start the other, wait for /health."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx

from arcops.config import Config
from arcops.core.launch import Launch, environment_of
from tools import demo
from tools.bench.machine import timed

PAIR = ("demo-dflash2", "demo-target-only")
"""Switched to in turn: each measurement is one of each."""
POLL = 0.02
"""Seconds between two looks at /health: finer than what is compared."""


def measure_switches(env: dict[str, str], pairs: int) -> list[tuple[str, str, str, str]]:
    """`arcops switch` and the bare sequence in turn, on the same profiles; the medians and their difference."""
    demo.say(f"{pairs} pairs of switches, by arcops and by hand")
    ours: list[float] = []
    bare: list[float] = []
    launches = {name: Config.load(env).launch(name) for name in PAIR}
    for _ in range(pairs):
        ours.extend(timed(partial(run_switch, env, name)) for name in PAIR)
        demo.arcops(env, "stop")
        bare.extend(bare_pair(launches))
        demo.arcops(env, "switch", PAIR[1])
    mine, theirs = statistics.median(ours), statistics.median(bare)
    loss = mine - theirs
    measured = f"{mine:.2f} s (median of {len(ours)}: {spread(ours)})"
    beside = f"bare vLLM: {theirs:.2f} s ({spread(bare)}); difference {loss:+.2f} s, {loss / theirs:+.1%}"
    return [("switch", measured, beside, "3 % or 0.5 s over bare vLLM")]


def spread(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def run_switch(env: Mapping[str, str], profile: str) -> None:
    argv = [sys.executable, "-m", "arcops.cli.main", "switch", profile]
    subprocess.run(argv, env=env, stderr=subprocess.DEVNULL, check=True)


def bare_pair(launches: Mapping[str, Launch]) -> list[float]:
    """From the same starting point (the other profile serves): stop it, start the next, first answer."""
    first, second = PAIR
    running = start(launches[second])
    times: list[float] = []
    for name in (first, second):
        began = time.monotonic()
        end(running)
        running = start(launches[name])
        times.append(time.monotonic() - began)
    end(running)
    return times


def start(launch: Launch) -> "subprocess.Popen[bytes]":
    """Start the very same launch without arcops, and wait until it has answered, as arcops does."""
    process = subprocess.Popen(
        launch.argv,
        env=environment_of(os.environ, {}, launch),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://{launch.host}:{launch.port}"
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        while not healthy(client):
            if process.poll() is not None:
                raise SystemExit(f"bare vLLM ended with {process.returncode}")
            time.sleep(POLL)
        body = json.dumps({"model": launch.served_name, "prompt": "1 2 3 4", "max_tokens": 1, "temperature": 0})
        client.post("/v1/completions", content=body, headers={"content-type": "application/json"}).raise_for_status()
    return process


def healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, and wait until the whole session has gone: only then is the memory free."""
    process.send_signal(signal.SIGTERM)
    process.wait()
    while session_lives(process.pid):
        time.sleep(POLL)


def session_lives(session: int) -> bool:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            return True
    return False
