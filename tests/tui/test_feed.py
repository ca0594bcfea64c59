"""The feed, without any screen: what it makes of a daemon that comes, goes, and talks nonsense."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from arcops import wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.phase import Phase
from arcops.tui.live.feed import Feed
from arcops.tui.past import Mark, Point
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes
from tests.tui.fake_daemon import FakeDaemon

FAST = (0.05, 0.1)


class Listener:
    """Keeps the snapshots, and waits for the one that is wanted."""

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []
        self._more = asyncio.Event()

    def post(self, snapshot: Snapshot) -> None:
        self.seen.append(snapshot)
        self._more.set()

    async def until(self, wanted: Callable[[Snapshot], bool], why: str) -> Snapshot:
        """The first snapshot from the newest on that is wanted; fails with `why` after ten seconds."""
        try:
            async with asyncio.timeout(10):
                while not (self.seen and wanted(self.seen[-1])):
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            pytest.fail(f"{why}; the last snapshot was {self.seen[-1:]}")
        return self.seen[-1]


@asynccontextmanager
async def listening(feed: Feed) -> AsyncGenerator[Listener]:
    listener = Listener()
    task = asyncio.create_task(feed.run(listener.post))
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "main.sock"


def feed_on(socket: Path) -> Feed:
    return Feed(socket, "main", delays=FAST)


def live(snapshot: Snapshot) -> bool:
    return snapshot.link is Link.LIVE and not snapshot.stale


def broken(snapshot: Snapshot) -> bool:
    return snapshot.link is Link.BROKEN


@pytest.mark.asyncio
async def test_status_history_and_log_come_together(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy(), scenes.history(50), scenes.LOG)
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        found = await listener.until(lambda s: live(s) and bool(s.history) and bool(s.log.lines), "nothing came")
        assert found.status is not None
        assert found.status.phase == "serving"
        assert len(found.history) == 50
        assert found.log.launch_id == scenes.LAUNCH
        assert found.log.lines[3] == "Loading safetensors checkpoint shards: 100% | 2/2"
        assert all("\x1b" not in line for line in found.log.lines)
        assert scenes.NOW <= found.now < scenes.NOW + 60
    await daemon.die()


@pytest.mark.asyncio
async def test_without_a_daemon_it_says_so_and_when_it_tries_again(socket: Path):
    async with listening(feed_on(socket)) as listener:
        found = await listener.until(broken, "the link was not broken")
        assert str(socket) in found.problem
        assert "arcopsd" in found.hint
        assert found.retry_in is not None
        assert found.stale


@pytest.mark.asyncio
async def test_it_finds_its_way_back_when_the_daemon_is_restarted(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy(), scenes.history(50), ("old line",))
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(lambda s: live(s) and s.log.lines == ("old line",), "the first daemon was not found")
        await daemon.die()
        left = await listener.until(broken, "the death went unnoticed")
        assert left.status is not None  # still known, but not live
        again = FakeDaemon(socket, scenes.stopped(), scenes.history(10), ("new line",))
        await again.start()
        found = await listener.until(lambda s: live(s) and s.log.lines == ("new line",), "the second was not found")
        assert found.phase is Phase.STOPPED
        assert len(found.history) == 50  # what the first one told is still true
        await again.die()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "garbage",
    [b"data: {not json\n\n", b'data: {"instance": 3}\n\n', b"data: \xff\xfe\n\n", b"data: []\n\n"],
    ids=["no json", "wrong types", "no utf-8", "another thing"],
)
async def test_garbage_breaks_the_link_and_nothing_else(socket: Path, garbage: bytes):
    daemon = FakeDaemon(socket, scenes.busy(), raw=garbage)
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        found = await listener.until(broken, "garbage was believed")
        assert "cannot be read" in found.problem
        daemon.raw = None
        await listener.until(live, "it did not recover")
    await daemon.die()


@pytest.mark.asyncio
async def test_lines_that_carry_no_data_are_passed_over(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy(), raw=b": nothing new\n\nevent: x\n\n")
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        daemon.raw = None
        await daemon.say()
        await listener.until(live, "the status was not found")
    await daemon.die()


@pytest.mark.asyncio
async def test_a_daemon_that_falls_silent_does_not_look_live(socket: Path):
    now = [100.0]
    daemon = FakeDaemon(socket, scenes.busy())
    await daemon.start()
    async with listening(Feed(socket, "main", clock=lambda: now[0], delays=FAST)) as listener:
        await listener.until(live, "nothing came")
        now[0] += 12
        found = await listener.until(lambda s: s.stale, "it still looks live")
        assert (found.link, found.silent, found.now) == (Link.LIVE, 12, scenes.NOW + 12)
        assert found.numbers_age == pytest.approx(12.4)
    await daemon.die()


@pytest.mark.asyncio
async def test_another_window_is_asked_for_at_once(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy())
    await daemon.start()
    feed = feed_on(socket)
    async with listening(feed) as listener:
        await listener.until(live, "nothing came")
        feed.look_through(300)
        found = await listener.until(lambda s: s.status is not None and s.status.window == 300, "no other window")
        assert found.link is Link.LIVE
        assert not any(broken(snapshot) for snapshot in listener.seen)
    await daemon.die()


@pytest.mark.asyncio
async def test_a_new_launch_is_marked_in_the_log(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy(), log=("one",))
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(lambda s: s.log.lines == ("one",), "no log")
        await daemon.log_lines("two", launch="next")
        found = await listener.until(lambda s: len(s.log.lines) == 3, "no new lines")
        assert found.log.lines[1:] == ("──── launch next ────", "two")
        assert found.log.launch_id == "next"
    await daemon.die()


@pytest.mark.asyncio
async def test_a_flood_of_lines_is_gathered_and_bounded(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy())
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(live, "nothing came")
        before = len(listener.seen)
        for number in range(1000):
            await daemon.log_lines(f"line {number}")
        found = await listener.until(lambda s: s.log.lines[-1:] == ("line 999",), "the flood did not arrive")
        assert len(found.log.lines) == 300
        assert len(listener.seen) - before < 30
    await daemon.die()


@pytest.mark.asyncio
async def test_history_grows_by_what_is_new(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy(), scenes.history(50))
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(lambda s: len(s.history) == 50, "no history")
        later = msgspec.structs.replace(daemon.status, at=scenes.NOW + 2)
        daemon.history = (*daemon.history, *scenes.history(2, scenes.NOW + 2))
        await daemon.say(later)
        await listener.until(lambda s: s.now >= scenes.NOW + 2, "no later status")
        await daemon.say(later)
        found = await listener.until(lambda s: len(s.history) == 52, "the new points did not come")
        assert [point.at for point in found.history] == sorted({point.at for point in found.history})
        assert sum("seconds=3600" in target for target in daemon.asked) == 1
    await daemon.die()


def with_samples(socket: Path, *samples: wire.SamplePoint, status: wire.Status | None = None) -> FakeDaemon:
    return FakeDaemon(socket, status or scenes.busy(), samples=samples)


@pytest.mark.asyncio
async def test_samples_are_read_once_and_then_only_what_is_new(socket: Path):
    daemon = with_samples(socket, *scenes.samples(400))
    daemon.page = 100
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        first = await listener.until(lambda s: len(s.history) == 394, "not all pages came")  # six of them nobody read
        assert isinstance(first.history[-1], Point)
        assert first.history[-1].requests == pytest.approx(0.5)
        daemon.asked.clear()
        daemon.samples = (*(daemon.samples or ()), *scenes.samples(2, scenes.NOW + 2))
        await daemon.say(msgspec.structs.replace(daemon.status, at=scenes.NOW + 2))
        await listener.until(lambda s: s.now >= scenes.NOW + 2, "no later status")
        await daemon.say()
        found = await listener.until(lambda s: len(s.history) == 396, "the new samples did not come")
        assert found.history[:394] == first.history
        asked = [target for target in daemon.asked if "/v1/samples" in target]
        assert asked
        assert all(f"from={scenes.NOW!r}" in target or f"from={scenes.NOW + 2!r}" in target for target in asked)
        assert not any("/v1/history" in target for target in daemon.asked)
    await daemon.die()


@pytest.mark.asyncio
async def test_the_window_of_an_hour_brings_the_minutes_before_the_seconds(socket: Path):
    minutes = scenes.samples(120, scenes.NOW - 60, step=60)
    daemon = with_samples(socket, *minutes, *scenes.samples(400))
    await daemon.start()
    feed = feed_on(socket)
    async with listening(feed) as listener:
        found = await listener.until(lambda s: len(s.history) == 394, "no seconds")
        assert found.minutes == ()
        feed.look_through(3600)
        found = await listener.until(lambda s: bool(s.minutes), "no minutes")
        assert found.minutes[-1].at + 60 <= found.history[0].at // 60 * 60
        assert found.minutes[-1].at + 120 > found.history[0].at // 60 * 60
    await daemon.die()


@pytest.mark.asyncio
async def test_a_restarted_daemon_adds_what_came_while_nobody_looked(socket: Path):
    daemon = with_samples(socket, *scenes.samples(15))
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(lambda s: live(s) and len(s.history) == 15, "no samples")
        await daemon.die()
        await listener.until(broken, "the death went unnoticed")
        later = msgspec.structs.replace(scenes.busy(), at=scenes.NOW + 10)
        again = with_samples(socket, *scenes.samples(15), *scenes.samples(5, scenes.NOW + 10), status=later)
        await again.start()
        found = await listener.until(lambda s: live(s) and len(s.history) == 20, "the second's samples did not come")
        times = [point.at - scenes.NOW for point in found.history]
        assert times == [*range(-14, 1), *range(6, 11)]  # with a gap where there was no daemon
        await again.die()


@pytest.mark.asyncio
async def test_another_launch_is_marked_where_it_began(socket: Path):
    old, new = scenes.samples(30, scenes.NOW - 15, launch="old"), scenes.samples(10)
    daemon = with_samples(socket, *old, *new)
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        found = await listener.until(lambda s: len(s.history) > 20, "no samples")
        # The status says when the launch of now began: earlier than its first number.
        assert found.marks == (Mark(scenes.NOW - 8_010, "dflash2"),)
        later = msgspec.structs.replace(
            scenes.busy(), at=scenes.NOW + 40, backend=scenes.backend(launch_id="next", spawned_at=scenes.NOW + 30)
        )
        await daemon.say(later)
        found = await listener.until(lambda s: len(s.marks) == 2, "the next launch was not marked")
        assert found.marks[-1] == Mark(scenes.NOW + 30, "dflash2")
    await daemon.die()


@pytest.mark.asyncio
async def test_a_clock_that_was_set_back_begins_the_past_anew(socket: Path):
    daemon = with_samples(socket, *scenes.samples(15))
    await daemon.start()
    async with listening(feed_on(socket)) as listener:
        await listener.until(lambda s: len(s.history) == 15, "no samples")
        daemon.samples = scenes.samples(10, scenes.NOW - 1000)
        await daemon.say(msgspec.structs.replace(daemon.status, at=scenes.NOW - 1000))
        found = await listener.until(lambda s: len(s.history) == 10, "the old past is still there")
        assert found.history[-1].at == scenes.NOW - 1000
    await daemon.die()


@pytest.mark.asyncio
async def test_orders_go_to_the_daemon_and_refusals_come_back(socket: Path):
    daemon = FakeDaemon(socket, scenes.busy())
    await daemon.start()
    feed = feed_on(socket)
    async with listening(feed) as listener:
        await listener.until(live, "nothing came")
        accepted = await feed.switch(wire.SwitchRequest(profile="mtp"))
        assert accepted.order_id == 41
        daemon.refusal = wire.ErrorInfo(message="a switch is under way", hint="wait", exit_code=int(ExitCode.BUSY))
        with pytest.raises(ArcopsError, match="a switch is under way") as refused:
            await feed.stop(wire.StopRequest())
        assert refused.value.exit_code is ExitCode.BUSY
    await daemon.die()
