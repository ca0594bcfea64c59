"""What a reader of a stream is told, without a daemon around it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from arcops import wire
from arcops.config.paths import Paths
from arcops.daemon.act import Actor
from arcops.daemon.feeds import Feeds
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.daemon.own_log import OwnLog
from arcops.daemon.samples import Samples
from arcops.daemon.status import StatusWriter

NOTHING = SimpleNamespace()


def feeds_of(paths: Paths, own_log: OwnLog | None = None) -> tuple[Feeds, SimpleNamespace]:
    """Feeds over a directory of logs, and the actor whose `live` says which launch there is."""
    actor = SimpleNamespace(live=None)
    feeds = Feeds(
        paths,
        cast("Loop", NOTHING),
        cast("Actor", actor),
        cast("Journal", NOTHING),
        cast("StatusWriter", NOTHING),
        cast("Samples", NOTHING),
        own_log or OwnLog(),
    )
    return feeds, actor


def live(launch_id: str) -> SimpleNamespace:
    return SimpleNamespace(record=SimpleNamespace(launch_id=launch_id))


async def lines_of(stream: AsyncIterator[bytes], count: int) -> list[tuple[str | None, str]]:
    """The next lines, each with its launch."""
    found: list[tuple[str | None, str]] = []
    async with asyncio.timeout(10.0):
        while len(found) < count:
            message = (await anext(stream)).removeprefix(b"data: ")
            page = msgspec.json.decode(message, type=wire.LogLines)
            found += [(page.launch_id, line) for line in page.lines]
    return found


@pytest.mark.asyncio
async def test_logs_are_followed_to_a_backends_last_words_before_the_next_one_is_turned_to(tmp_path: Path) -> None:
    paths = Paths.of("test", {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    paths.log_dir.mkdir(parents=True)
    one, two = paths.log_dir / "1.log", paths.log_dir / "2.log"
    one.write_text("first\n")
    feeds, actor = feeds_of(paths)
    actor.live = live("1")
    async with aclosing(feeds.logs(10, None)) as stream:
        assert await lines_of(stream, 1) == [("1", "first")]
        with one.open("a") as log:
            log.writelines(f"{number:06d} {'x' * 100}\n" for number in range(6_000))
            log.write("last words, cut sho")
        two.write_text("anew\n")
        actor.live = live("2")
        found = await lines_of(stream, 6_002)
    assert [launch for launch, _ in found] == ["1"] * 6_001 + ["2"]
    assert [line for _, line in found[-2:]] == ["last words, cut sho", "anew"]


@pytest.mark.asyncio
async def test_the_supervisors_own_log_is_told_from_its_tail_on_and_then_as_it_grows(tmp_path: Path) -> None:
    own_log = OwnLog()
    for number in range(5):
        own_log.add("INFO", f"line {number}")
    feeds, _ = feeds_of(Paths.of("test", {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}), own_log)
    assert [line.rpartition("] ")[2] for line in feeds.own_log_tail(2).lines] == ["line 3", "line 4"]
    async with aclosing(feeds.own_log(2)) as stream:
        first = await lines_of(stream, 2)
        own_log.add("WARNING", "line 5")
        (later,) = await lines_of(stream, 1)
    assert [line.rpartition("] ")[2] for _, line in first] == ["line 3", "line 4"]
    assert later[1].startswith("WARNING ")
    assert later[1].endswith("] line 5")
    async with aclosing(feeds.own_log(0)) as stream:
        message = (await anext(stream)).removeprefix(b"data: ")
    assert msgspec.json.decode(message, type=wire.LogLines) == wire.LogLines(launch_id=None, lines=(), of="supervisor")
