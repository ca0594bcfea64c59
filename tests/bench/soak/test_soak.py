"""Each fault of a server is found by a soak, and by its name."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arcops.bench.server import BenchServer
from arcops.bench.soak.drive import Plan, soak
from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.soak import Soak
from arcops.core.evidence.soaked import gates
from arcops.evidence.soak import memory_of
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Serving
from tests.helpers import free_port

pytestmark = [pytest.mark.processes, pytest.mark.asyncio]

TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    port = free_port()
    flags = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "8192")
    argv = (fake_vllm_path(), "serve", fake_model(tmp_path / "model"), *flags, *TOOLS)
    environment = {"FAKE_VLLM_START_SECONDS": "0.05", "FAKE_VLLM_DECODE_SPEED": "2000"}
    with Serving(argv, port, tmp_path / "log", environment) as started:
        yield started.wait_ready()


async def soaked(
    server: Serving,
    seconds: float = 3.0,
    mix: str = "short=1",
    *,
    clients: int = 4,
    ended: asyncio.Event | None = None,
    midway: Callable[[], object] | None = None,
) -> Soak:
    plan = Plan(seconds, clients, mix, seed=1, linger=1.0, settle=2.0)
    async with BenchServer(server.url) as bench:
        await bench.open()
        bench.begin()
        loop = asyncio.get_running_loop()
        timer = None if midway is None else loop.call_later(seconds / 2, midway)
        try:
            return await soak(
                bench, plan, lambda words: None, ended=ended or asyncio.Event(), memory=memory_of(server.url)
            )
        finally:
            if timer is not None:
                timer.cancel()


def failing(found: Soak) -> set[str]:
    return {gate.name for gate in gates(found, None) if gate.verdict is Verdict.FAILED}


async def test_a_server_that_does_well_is_clean_and_serves_every_kind(server: Serving) -> None:
    found = await soaked(server, mix="short=1,long=1,cut=1,tools=1")
    assert not found.problems, found.troubles
    assert not failing(found) - {"ttft", "inter-token"}  # a busy machine may be slower and slower
    assert {span.kind for span in found.spans} == {"short", "long", "cut", "tools"}
    assert not found.interrupted


async def test_errors_are_counted_by_what_they_are(server: Serving) -> None:
    server.misbehave(error_every=2)
    found = await soaked(server)
    assert "errors" in failing(found)
    assert any(name.startswith("short: HTTP 500") for name in found.problems)


async def test_a_stream_that_breaks_off_is_an_error(server: Serving) -> None:
    server.misbehave(cut_every=3)
    assert "errors" in failing(await soaked(server))


@pytest.mark.parametrize("fault", ["no_json", "misfit", "text", "missing"])
async def test_a_broken_tool_call_is_an_error(server: Serving, fault: str) -> None:
    server.misbehave(tool_fault=fault)
    found = await soaked(server, 2.0, "tools=1")
    assert "errors" in failing(found)
    assert all(name.startswith("tools: ") for name in found.problems)


async def test_a_server_that_slows_down_drifts(server: Serving) -> None:
    server.misbehave(slow_down=20.0, decode_speed=200)
    assert {"ttft", "inter-token"} & failing(await soaked(server, 8.0, clients=8))


async def test_a_server_that_loses_memory_leaks(server: Serving) -> None:
    server.misbehave(leak_kib=16384)
    assert "memory" in failing(await soaked(server, 5.0, clients=6))


async def test_a_server_that_was_started_anew_is_noticed(server: Serving) -> None:
    found = await soaked(server, midway=lambda: server.misbehave(started_anew=True))
    assert "restarts" in failing(found)


async def test_a_slot_that_is_not_freed_is_noticed_and_so_is_its_cache(server: Serving) -> None:
    server.misbehave(keep_slots=True, decode_speed=100)
    found = await soaked(server, mix="cut=1")
    assert {"slots", "kv-cache"} <= failing(found)
    assert not found.problems


async def test_a_server_that_dies_leaves_a_record_and_no_busy_loop(server: Serving) -> None:
    found = await soaked(server, midway=lambda: os.killpg(server.process.pid, signal.SIGKILL))
    assert "errors" in failing(found)
    assert sum(found.problems.values()) < 100


async def test_it_can_be_ended_early_and_says_so(server: Serving) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, ended.set)
    found = await soaked(server, 600.0, ended=ended)
    assert found.interrupted
    assert found.lasted < 300
    assert "slots" not in failing(found)
