"""Each fault of a server is found by a soak, and by its name."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arcops.bench import canary
from arcops.bench.server import BenchServer
from arcops.bench.soak import drive, work
from arcops.bench.soak.drive import Plan, soak
from arcops.bench.soak.fold import Done
from arcops.bench.soak.talk import talk
from arcops.bench.soak.work import MIX, Task
from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.soak import Soak
from arcops.core.evidence.soaked import gates
from arcops.evidence.soak import memory_of
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Serving
from tests.helpers import free_port

pytestmark = [pytest.mark.processes, pytest.mark.asyncio]

TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
LONG = 600.0
"""Seconds of a soak that ends by its requests: as many as are enough, however slow the machine is."""


def serving(tmp_path: Path, *flags: str) -> Serving:
    port = free_port()
    always = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "8192")
    argv = (fake_vllm_path(), "serve", fake_model(tmp_path / "model"), *always, *flags)
    environment = {"FAKE_VLLM_START_SECONDS": "0.05", "FAKE_VLLM_DECODE_SPEED": "2000"}
    return Serving(argv, port, tmp_path / "log", environment)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path, *TOOLS) as started:
        yield started.wait_ready()


@pytest.fixture
def without_parser(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path) as started:
        yield started.wait_ready()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that hardly think."""
    monkeypatch.setattr(work, "THINK", 0.02)


async def soaked(
    server: Serving,
    seconds: float = LONG,
    mix: str = "short=1",
    *,
    clients: int = 4,
    chosen: bool = True,
    enough: int | None = None,
    midway: Callable[[], object] | None = None,
    told: list[str] | None = None,
) -> Soak:
    """A soak of so many seconds, or of `enough` requests where that is given."""
    plan = Plan(seconds, clients, mix, seed=1, chosen=chosen, linger=1.0, settle=0.5)
    ended, done = asyncio.Event(), list[Done]()

    async def counted(server: BenchServer, client: int, task: Task) -> Done:
        done.append(await talk(server, client, task))
        if enough is not None and len(done) >= enough:
            ended.set()
        return done[-1]

    def tell(words: str) -> None:
        if told is not None:
            told.append(words)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drive, "talk", counted)
        patched.setattr(drive, "AFTER_A_FAULT", drive.AFTER_A_FAULT if enough is None else 0.02)
        async with BenchServer(server.url) as bench:
            await bench.open()
            bench.begin()
            timer = None if midway is None else asyncio.get_running_loop().call_later(seconds / 2, midway)
            try:
                return await soak(bench, plan, tell, ended=ended, memory=memory_of(server.url))
            finally:
                if timer is not None:
                    timer.cancel()


def failing(found: Soak) -> set[str]:
    return {gate.name for gate in gates(found, None, trend_after=0.0) if gate.verdict is Verdict.FAILED}


def kinds(found: Soak) -> set[str]:
    return {span.kind for span in found.spans}


async def test_a_server_that_does_well_is_clean_and_serves_every_kind(server: Serving) -> None:
    found = await soaked(server, mix="short=1,long=1,cut=1,tools=1", enough=40)
    assert not found.problems, found.troubles
    assert not failing(found) - {"ttft", "inter-token"}  # a busy machine may be slower and slower
    assert kinds(found) == {"short", "long", "cut", "tools"}
    assert found.left_out == {}


async def test_one_that_has_its_time_is_not_interrupted(server: Serving) -> None:
    found = await soaked(server, 0.5)
    assert not found.interrupted
    assert found.lasted >= 0.5


async def test_errors_are_counted_by_what_they_are(server: Serving) -> None:
    server.misbehave(error_every=2)
    found = await soaked(server, enough=20)
    assert "errors" in failing(found)
    assert any(name.startswith("short: HTTP 500") for name in found.problems)


async def test_a_stream_that_breaks_off_is_an_error(server: Serving) -> None:
    server.misbehave(cut_every=3)
    assert "errors" in failing(await soaked(server, enough=20))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no_json", "the arguments are no JSON"),
        ("misfit", "the arguments do not fit the schema"),
        ("text", "a call was left in the text"),
        ("missing", "no function was called"),
    ],
)
async def test_a_broken_tool_call_is_an_error(server: Serving, fault: str, words: str) -> None:
    server.misbehave(tool_fault=fault)
    found = await soaked(server, mix="tools=1", enough=8)
    assert "errors" in failing(found)
    assert all(name.startswith(f"tools: {words}") for name in found.problems)


async def test_a_server_without_a_tool_parser_is_not_asked_for_tools(without_parser: Serving) -> None:
    told: list[str] = []
    found = await soaked(without_parser, mix=MIX, chosen=False, enough=30, told=told)
    assert list(found.left_out) == ["tools"]
    assert "--tool-call-parser" in found.left_out["tools"]
    assert any("tools are left out" in words for words in told)
    assert kinds(found) == {"short", "long", "cut"}
    assert not found.problems
    assert [gate.name for gate in gates(found, None) if gate.verdict is Verdict.SKIPPED] == ["tools"]


async def test_tools_that_somebody_asked_for_by_name_are_errors_there(without_parser: Serving) -> None:
    found = await soaked(without_parser, mix="short=1,tools=1", enough=20)
    assert found.left_out == {}
    assert "errors" in failing(found)
    assert list(found.problems) == ["tools: HTTP 400"]


async def test_a_server_that_slows_down_drifts(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "TOKENS", 2)  # they are as slow as all else by then
    # Few tokens, and so slowly that it is the server's steps that take their time and not this machine.
    server.misbehave(slow_down=40.0, decode_speed=100, eos_after=6)
    assert {"ttft", "inter-token"} & failing(await soaked(server, 3.5, clients=8))


async def test_a_server_that_loses_memory_leaks(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    # A tenth of a gigabyte a second, and a quarter of the usual limit: it is to be seen on a busy machine as well.
    monkeypatch.setattr("arcops.core.evidence.soaked.LEAK", 16 * 2**20)
    monkeypatch.setattr(work, "THINK", 0.2)
    server.misbehave(leak_kib=4096)
    assert "memory" in failing(await soaked(server, 4.5, clients=6))


async def test_a_server_that_was_started_anew_is_noticed(server: Serving) -> None:
    found = await soaked(server, 1.0, midway=lambda: server.misbehave(started_anew=True))
    assert "restarts" in failing(found)


async def test_a_slot_that_is_not_freed_is_noticed_and_so_is_its_cache(server: Serving) -> None:
    server.misbehave(keep_slots=True, decode_speed=200)
    found = await soaked(server, mix="cut=1", enough=40)
    assert {"slots", "kv-cache"} <= failing(found)
    assert not found.problems


async def test_a_server_that_dies_leaves_a_record_and_no_busy_loop(server: Serving) -> None:
    found = await soaked(server, 2.0, midway=lambda: os.killpg(server.process.pid, signal.SIGKILL))
    assert "errors" in failing(found)
    assert sum(found.problems.values()) < 100


async def test_it_can_be_ended_early_and_says_so(server: Serving) -> None:
    found = await soaked(server, enough=5)
    assert found.interrupted
    assert found.lasted < LONG / 2
    assert "slots" not in failing(found)
