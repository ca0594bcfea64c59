"""A key's effect on the screen, while fifty lines of log come in a second and all plots are drawn."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from arcops.tui.app import OperatorScreen
from arcops.tui.live.feed import Feed
from arcops.tui.panels.log import LogPanel
from tests.tui import scenes
from tests.tui.fake_daemon import FakeDaemon
from tests.tui.screen_text import text_of

LINES_PER_SECOND = 50
WITHIN = 0.05
"""Seconds that a key may take on a machine that does nothing else."""
PRESSES = 12
ROUNDS = 4
"""A machine that stands still for a moment is looked at again; what is slow is slow each time."""


async def talk(daemon: FakeDaemon) -> None:
    """A busy server: lines all the time, and a status a second."""
    for number in range(1_000_000):
        await daemon.log_lines(f"(APIServer pid=1) INFO 01-15 08:10:00 [loggers.py:257] line {number}")
        if number % LINES_PER_SECOND == 0:
            await daemon.say(msgspec.structs.replace(daemon.status, at=daemon.status.at + 1))
        await asyncio.sleep(1 / LINES_PER_SECOND)


@asynccontextmanager
async def screen(tmp_path: Path, *, busy: bool) -> AsyncGenerator[tuple[OperatorScreen, Pilot[None]]]:
    daemon = FakeDaemon(tmp_path / "main.sock", scenes.speculating(), scenes.history(600), scenes.LOG)
    await daemon.start()
    talking = asyncio.create_task(talk(daemon) if busy else asyncio.sleep(3600))
    app = OperatorScreen(Feed(daemon.socket, "main"), tuple)
    try:
        async with app.run_test(size=(160, 48)) as pilot:
            async with asyncio.timeout(20):
                while "── Decode" not in text_of(app) or "no history" in text_of(app):
                    await pilot.pause()
            yield app, pilot
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await daemon.die()


async def seconds_for_a_key(app: OperatorScreen) -> float:
    """From the key to the screen that has it in effect: the log grows large, or small again."""
    log = app.query_one(LogPanel)
    before = log.region.height
    began = time.perf_counter()
    app.post_message(events.Key("l", "l"))
    async with asyncio.timeout(20):
        while log.region.height == before:  # noqa: ASYNC110 - nobody tells when something was drawn
            await asyncio.sleep(0.001)
    return time.perf_counter() - began


async def usual(tmp_path: Path, *, busy: bool) -> float:
    async with screen(tmp_path, busy=busy) as (app, pilot):
        taken: list[float] = []
        for _ in range(PRESSES):
            taken.append(await seconds_for_a_key(app))
            await pilot.pause(0.05)
        return statistics.median(taken)


@pytest.mark.asyncio
async def test_a_key_works_at_once_while_fifty_lines_a_second_arrive(tmp_path: Path):
    """Within 50 ms; on a machine that has other things to do, not twice as slow as without any line."""
    seen: list[str] = []
    for _ in range(ROUNDS):
        with_lines = await usual(tmp_path, busy=True)
        if with_lines < WITHIN:
            return
        without = await usual(tmp_path, busy=False)
        if with_lines < 2 * without:
            return
        seen.append(f"{with_lines:.3f} s with lines, {without:.3f} s without")
    pytest.fail(f"a key took {'; '.join(seen)}")
