"""Evidence is gathered beside everything else: nothing that hangs there holds up anything, and it is told of once."""

import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.quantity import Known, Unknown
from arcops.core.state import State
from arcops.daemon import scene as module
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.scene import AGAIN_AFTER, MOST_AT_ONCE, Scene
from arcops.machine import autopsy, process
from arcops.machine.record import LaunchRecord
from arcops.machine.store import Store
from tests.core.simulated import launch
from tests.daemon.waiting import until

STATE = State(reason="1 requests in flight and no progress for 60 s")
NOTHING = Unknown("nothing was asked yet", 0.0)


class Time:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def scene(folder: Path, now: Callable[[], float]) -> AsyncGenerator[tuple[Scene, Callable[[], list[str]]]]:
    store = Store.open(str(folder / "db"))
    clock = Clock(monotonic=now, wall=now)
    journal = Journal(store, clock, "boot")
    found = Scene(str(folder / "evidence"), clock, journal)
    try:
        yield found, lambda: [event.reason for event in journal.events(0, 100) if event.kind == "evidence"]
    finally:
        found.close()
        await journal.close()
        store.close()


def live(folder: Path, launch_id: str = "L1") -> LiveBackend:
    entry = LaunchRecord(
        launch_id=launch_id,
        boot_id=process.boot_id(),
        instance="test",
        launch=launch(),
        enclosure=Enclosure(EnclosureKind.SCOPE, "arcops-test-never-made.scope"),
        status_path=str(folder / "status"),
        log_path=str(folder / "log"),
        spawned_at=0.0,
        spawned_monotonic=0.0,
    )
    backend = LiveBackend(entry, str(folder / "record"), adopted=True, wake=lambda: None, monotonic=time.monotonic)
    backend.seen = (os.getpid(),)
    return backend


@pytest.mark.asyncio
async def test_what_is_lacking_is_said_in_its_place(tmp_path: Path) -> None:
    async with scene(tmp_path, Time()) as (gathering, told):
        gathering.keep("suspect", STATE, live(tmp_path), NOTHING)
        await until(lambda: len(told()) == 1)
        folder = tmp_path / "evidence" / "L1-suspect"
        assert told() == [f"evidence of suspect is kept in {folder}"]
        assert "reason:        1 requests in flight" in (folder / "why.txt").read_text()
        assert (folder / "metrics.txt").read_text() == "# there are none: nothing was asked yet\n"
        assert (folder / "log-tail.txt").read_text() == f"nothing can be read in {tmp_path}/log\n"
        assert f"pid {os.getpid()}: " in (folder / "processes.txt").read_text()


@pytest.mark.asyncio
async def test_a_reading_that_hangs_is_said_to_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def hangs(_: object) -> str:
        release.wait()
        return ""

    monkeypatch.setattr(autopsy, "describe_processes", hangs)
    monkeypatch.setattr(module, "TOLD_WITHIN", 0.1)
    try:
        async with scene(tmp_path, Time()) as (gathering, told):
            for number in range(MOST_AT_ONCE + 1):
                gathering.keep("hang", STATE, live(tmp_path, f"L{number}"), Known("vllm:x 1\n", 990.0))
            await until(lambda: len(told()) == MOST_AT_ONCE + 1)
            assert sum("not done after 0 s: a reading hangs" in words for words in told()) == MOST_AT_ONCE
            assert f"no evidence of hang is kept: {MOST_AT_ONCE} gatherings hang" in told()
            assert (tmp_path / "evidence" / "L0-hang" / "metrics.txt").read_text() == "# read 10.0 s before\nvllm:x 1\n"
    finally:
        release.set()


@pytest.mark.asyncio
async def test_where_no_thread_can_be_had_it_is_said_and_nothing_counts_as_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise TimeoutError("no thread can be started")

    async with scene(tmp_path, Time()) as (gathering, told):
        with monkeypatch.context() as patched:
            patched.setattr(module, "begin", refused)
            for number in range(MOST_AT_ONCE):
                gathering.keep("hang", STATE, live(tmp_path, f"L{number}"), NOTHING)
            await until(lambda: len(told()) == MOST_AT_ONCE)
        assert set(told()) == {"no evidence of hang is kept: no thread can be started"}
        gathering.keep("hang", STATE, live(tmp_path, "L9"), NOTHING)
        await until(lambda: "L9-hang" in told()[-1])


@pytest.mark.asyncio
async def test_a_part_that_cannot_be_had_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> str:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(autopsy, "describe_processes", broken)
    async with scene(tmp_path, Time()) as (gathering, told):
        gathering.keep("hang", STATE, live(tmp_path), NOTHING)
        await until(lambda: len(told()) == 1)
        assert told()[0].endswith(" (not all of it: processes.txt: out of luck)")
        assert (tmp_path / "evidence" / "L1-hang" / "stacks.txt").exists()


@pytest.mark.asyncio
async def test_a_doubt_that_comes_and_goes_is_looked_at_now_and_then(tmp_path: Path) -> None:
    now = Time()
    async with scene(tmp_path, now) as (gathering, told):
        for _ in range(5):
            gathering.keep("suspect", STATE, live(tmp_path), NOTHING)
        await until(lambda: len(told()) == 1)
        gathering.keep("hang", STATE, live(tmp_path), NOTHING)
        await until(lambda: len(told()) == 2)
        now.now += AGAIN_AFTER
        gathering.keep("suspect", STATE, live(tmp_path), NOTHING)
        await until(lambda: len(told()) == 3)
