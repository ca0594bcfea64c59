"""A switch beside what bare vLLM takes for the same: stop one server, start the other, wait for the first answer."""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from arcops.config import Config
from arcops.core.launch import Launch, environment_of
from tools.bench.machine import timed
from tools.own import SWITCH_WITHIN, Arcops, command, say

PAIR = ("demo-dflash2", "demo-target-only")
"""Switched to in turn: each measurement is one of each."""
POLL = 0.02
"""Seconds between two looks at /health: finer than what is compared."""
START_WITHIN = SWITCH_WITHIN
"""Seconds for bare vLLM to answer."""
TERM_AGAIN = 2.0
"""Seconds between two SIGTERMs: vLLM 0.29 ignores one that comes while its engine starts."""
STOP_GRACE = 60.0
"""Seconds from the first SIGTERM to SIGKILL; it takes 0.3 to 4."""
KILLED_WITHIN = 10.0
"""Seconds for a session to be gone after SIGKILL."""

Server = subprocess.Popen[bytes]


def measure_switches(arcops: Arcops, pairs: int) -> list[tuple[str, str, str, str]]:
    """`arcops switch` and the bare sequence in turn, on the same profiles; the medians and their difference."""
    say(f"{pairs} pairs of switches, by arcops and by hand")
    ours: list[float] = []
    bare: list[float] = []
    launches = {name: Config.load(arcops.env).launch(name) for name in PAIR}
    for _ in range(pairs):
        ours.extend(timed(partial(run_switch, arcops, name)) for name in PAIR)
        arcops.must("stop", within=SWITCH_WITHIN)
        bare.extend(bare_pair(launches, arcops.env))
        arcops.must("switch", PAIR[1], within=SWITCH_WITHIN)
    mine, theirs = statistics.median(ours), statistics.median(bare)
    loss = mine - theirs
    measured = f"{mine:.2f} s (median of {len(ours)}: {spread(ours)})"
    beside = f"bare vLLM: {theirs:.2f} s ({spread(bare)}); difference {loss:+.2f} s, {loss / theirs:+.1%}"
    return [("switch", measured, beside, "3 % or 0.5 s over bare vLLM")]


def spread(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def run_switch(arcops: Arcops, profile: str) -> None:
    """A switch as a person orders it, without its progress. SystemExit, with what it said, if it fails."""
    try:
        done = subprocess.run(
            command("switch", profile), env=arcops.env, capture_output=True, check=False, timeout=SWITCH_WITHIN
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"arcops switch {profile}: no end after {SWITCH_WITHIN:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise SystemExit(f"arcops switch {profile} failed with exit code {done.returncode}: {said}")


def bare_pair(launches: Mapping[str, Launch], env: Mapping[str, str]) -> list[float]:
    """From the same starting point (the other profile serves): stop it, start the next, first answer."""
    first, second = PAIR
    with server(launches[second], env) as other:
        wait_until_it_answers(other, launches[second])
        began = time.monotonic()
        end(other)
        with server(launches[first], env) as running:
            wait_until_it_answers(running, launches[first])
            there = time.monotonic()
            end(running)
            with server(launches[second], env) as again:
                wait_until_it_answers(again, launches[second])
                back = time.monotonic()
    return [there - began, back - there]


@contextmanager
def server(launch: Launch, env: Mapping[str, str]) -> Generator[Server]:
    """The very same launch without arcops, in a session of its own; nothing of it is left afterwards, whatever happens.

    A session of its own is not reached by Ctrl-C: it is ended here.
    """
    process = subprocess.Popen(
        launch.argv,
        env=environment_of(env, {}, launch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)


def wait_until_it_answers(process: Server, launch: Launch) -> None:
    """Wait for the first answer, as arcops does. SystemExit if the server ends first, or takes too long."""
    deadline = time.monotonic() + START_WITHIN
    with httpx.Client(base_url=f"http://{launch.host}:{launch.port}", trust_env=False, timeout=60) as client:
        while not healthy(client):
            if process.poll() is not None:
                raise SystemExit(f"bare vLLM ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise SystemExit(f"bare vLLM does not answer after {START_WITHIN:.0f} s")
            time.sleep(POLL)
        body = json.dumps({"model": launch.served_name, "prompt": "1 2 3 4", "max_tokens": 1, "temperature": 0})
        try:
            answer = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise SystemExit(f"bare vLLM gives no answer: {error or type(error).__name__}") from error


def healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def end(process: Server) -> None:
    """SIGTERM, again and again, and SIGKILL to what is left of the session; back when all of it has gone.

    Only then is the memory free. SystemExit if something outlives SIGKILL.
    """
    deadline = time.monotonic() + STOP_GRACE
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERM_AGAIN)
    while session_members(process.pid) and time.monotonic() < deadline:
        time.sleep(POLL)
    deadline = time.monotonic() + KILLED_WITHIN
    while left := session_members(process.pid):
        if time.monotonic() > deadline:
            raise SystemExit(f"bare vLLM outlives SIGKILL: {', '.join(map(str, left))}")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL)
    process.wait()


def session_members(session: int) -> list[int]:
    """Pids of a session's processes that have not ended."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found
