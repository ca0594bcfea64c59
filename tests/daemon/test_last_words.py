"""The end of a backend whose API server waits for clients without an engine, and of one whose engine takes its time."""

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from arcops.core.decide.falling import LAST_WORDS
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

LONG = "300s"
"""A grace that no test waits for: what ends before was ended for another reason."""
ENDLESS = {"model": "tiny", "prompt": "one two", "max_tokens": 30_000, "stream": True}


@contextmanager
def client_that_stays(rig: Rig) -> Generator[None]:
    """A client with an open stream, which it reads for as long as the server keeps it open."""
    began = threading.Event()

    def read() -> None:
        with (
            suppress(httpx.HTTPError),
            httpx.stream("POST", f"{rig.url}/v1/completions", json=ENDLESS, timeout=300.0, trust_env=False) as answer,
        ):
            for _ in answer.iter_lines():
                began.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    eventually(began.is_set, why="the stream has not begun")
    yield
    eventually(lambda: not reader.is_alive(), why="the stream is open still")


def serving(rig: Rig, **fake: object) -> None:
    env = {f"FAKE_VLLM_{name.upper()}": str(value) for name, value in fake.items()}
    limits = {"drain": "0s", "shutdown_timeout": "0s", "stop_grace": LONG}
    rig.profile("slow", extends="target-only", limits=limits, runtime={"env": env})
    rig.start()
    assert rig.arcops("switch", "slow").code == 0


def reasons(rig: Rig) -> str:
    with rig.client() as client:
        return "\n".join(event.reason for event in client.events(limit=10_000).events)


def test_an_api_server_that_waits_for_clients_without_an_engine_is_ended_with_its_reason(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        serving(rig, lost_streams=1, decode_speed=50)
        with client_that_stays(rig):
            assert rig.arcops("stop").code == 0
        assert f"killed: its API server was still there {LAST_WORDS:.0f} s after its engine had ended" in reasons(rig)
        assert rig.backend_pids() == []


def test_a_supervisor_that_never_saw_the_engine_gives_it_its_whole_grace(tmp_path: Path) -> None:
    """What it does not know shortens nothing."""
    with Rig(tmp_path) as rig:
        serving(rig, lost_streams=1, decode_speed=50)
        with client_that_stays(rig):
            assert rig.arcops("stop", "--no-wait").code == 0
            rig.wait_for("stopping")
            rig.kill_daemon()
            rig.start()
            stopping = rig.wait_for("stopping")
            assert stopping.order.goal == "stop"
            eventually(lambda: rig.status().at - stopping.at > 2 * LAST_WORDS)
            assert rig.phase() == "stopping"
            rig.end_strays()
        rig.wait_for("stopped")
        assert "killed" not in reasons(rig)


def test_an_engine_that_takes_its_time_is_given_its_grace(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        serving(rig, stop_seconds=LAST_WORDS + 2.0)
        assert rig.arcops("stop").code == 0
        assert "killed" not in reasons(rig)
