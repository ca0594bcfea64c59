"""Many switches in a row: what a switch takes, it gives back.

With the fake vLLM ARCOPS_SOAK_SWITCHES of them (60), with real vLLM ARCOPS_SOAK_REAL (none); `make soak` runs 300 and
20. The figures are printed, and written to the file that ARCOPS_SOAK_FIGURES names.
"""

import json
import os
import re
import resource
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from arcops import wire
from arcops.client import Client
from arcops.machine import sockets
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, real_rig
from tests.helpers import eventually

SWITCHES = int(os.environ.get("ARCOPS_SOAK_SWITCHES", "60"))
REAL = int(os.environ.get("ARCOPS_SOAK_REAL", "0"))
FIGURES = os.environ.get("ARCOPS_SOAK_FIGURES")
WARM = 6
"""Switches before the first look: caches fill, modules load."""
MOST_WORKERS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's own pool, which it starts as it needs them and keeps."""
FLAT = 1.1
"""The mean of the last third over that of the second: above it the daemon's memory grows."""
MOST_LOGS = 21
"""Logs that are kept, and the one that is being written."""
PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Held:
    """What the daemon and its instance hold at one moment."""

    descriptors: dict[str, int]
    """By kind: socket, anon_inode:[eventpoll], files by name."""
    children: int
    """Zombies are children, too."""
    runtime_files: tuple[str, ...]
    cgroups: tuple[str, ...]
    listeners: int


def held(rig: Rig) -> Held:
    assert rig.daemon is not None
    pid = rig.daemon.pid
    kinds: Counter[str] = Counter()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            kinds[re.sub(r"^(socket|pipe):.*", r"\1", os.readlink(descriptor))] += 1
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    children = [text for task in tasks if (text := _text(task / "children").strip())]
    runtime = rig.paths.runtime_dir
    return Held(
        descriptors=dict(sorted(kinds.items())),
        children=sum(len(text.split()) for text in children),
        runtime_files=tuple(sorted(str(path.relative_to(runtime)) for path in runtime.rglob("*"))),
        cgroups=tuple(sorted(path for path in _cgroups() if f"{rig.instance}-" in path and "arcops" in path)),
        listeners=len(sockets.listening(rig.port)),
    )


def threads(rig: Rig) -> int:
    assert rig.daemon is not None
    return len(list(Path(f"/proc/{rig.daemon.pid}/task").iterdir()))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _cgroups() -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup")]


def resident(rig: Rig) -> int:
    """Bytes of the daemon in memory."""
    assert rig.daemon is not None
    return int(Path(f"/proc/{rig.daemon.pid}/statm").read_text().split()[1]) * PAGE


def switch(rig: Rig, client: Client, profile: str, within: float) -> None:
    """Order it, and wait until it stands and serves."""
    order = client.switch(wire.SwitchRequest(profile=profile, drain=0.0)).order_id
    assert order is not None

    def serves() -> bool:
        status = client.status()
        outcome = next((one for one in status.settled if one.order_id == order), None)
        assert outcome is None or outcome.exit_code == 0, outcome
        return status.phase == "serving" and status.order.committed and status.order.id == order

    eventually(serves, within=within, why=f"{profile} does not serve: {rig.daemon_log()[-2000:]}")


def stop(rig: Rig, client: Client) -> None:
    client.stop(wire.StopRequest(drain=0.0))
    eventually(lambda: client.status().phase == "stopped", within=60.0, why="it does not stop")


def soak(rig: Rig, profiles: tuple[str, ...], switches: int, within: float, name: str) -> None:
    """The switches, and what is left of them."""
    with rig.client() as client:
        for number in range(WARM if switches > 20 else len(profiles)):
            switch(rig, client, profiles[number % len(profiles)], within)
        stop(rig, client)
        before, threads_before = held(rig), threads(rig)
        sizes: list[int] = []
        launches: set[str] = set()
        began = time.monotonic()
        for number in range(switches):
            switch(rig, client, profiles[number % len(profiles)], within)
            sizes.append(resident(rig))
            backend = client.status().backend
            assert backend is not None
            launches.add(backend.launch_id)
        took = time.monotonic() - began
        stop(rig, client)
        eventually(lambda: held(rig) == before, within=30.0, why=f"not as before: {before} / {held(rig)}")
        threads_after = threads(rig)
    assert threads_after <= threads_before + MOST_WORKERS
    assert len(launches) == switches, "each switch was a launch of its own"
    assert rig.backend_pids() == []
    third = len(sizes) // 3
    earlier, later = fmean(sizes[third : 2 * third]), fmean(sizes[2 * third :])
    state = rig.paths.state_dir
    logs, used = list(rig.paths.log_dir.iterdir()), sum(path.stat().st_size for path in state.rglob("*"))
    _tell(
        {
            "with": name,
            "switches": switches,
            "seconds": round(took, 1),
            "descriptors": sum(before.descriptors.values()),
            "threads": [threads_before, threads_after],
            "resident_mb": [round(earlier / 1e6, 2), round(later / 1e6, 2)],
            "state_mb": round(used / 1e6, 2),
            "logs": len(logs),
        }
    )
    assert later / earlier < FLAT, (earlier, later)
    assert len(logs) <= MOST_LOGS
    assert used < 32_000_000, "bytes"
    assert (before.listeners, before.children) == (0, 0)


def _tell(figures: dict[str, object]) -> None:
    text = json.dumps(figures)
    print(text)
    if FIGURES:
        with Path(FIGURES).open("a") as file:
            file.write(f"{text}\n")


@pytest.mark.processes
@pytest.mark.timeout(120 + 15 * SWITCHES)
def test_nothing_is_left_of_many_switches_with_the_fake(tmp_path: Path) -> None:
    with Rig(tmp_path, instance="soak") as rig:
        rig.start()
        soak(rig, ("target-only", "dflash2", "mtp"), SWITCHES, 60.0, "the fake vLLM")


if REAL:  # asked for by `make soak`: twenty switches of real vLLM take ten minutes

    @pytest.mark.real
    @pytest.mark.timeout(300 + 120 * REAL)
    def test_nothing_is_left_of_switches_with_real_vllm(tmp_path: Path) -> None:
        with real_rig(tmp_path) as rig:
            rig.start()
            soak(rig, ("demo-target-only", "demo-dflash2", "demo-mtp"), REAL, START_WITHIN, "real vLLM on the CPU")
