"""A recording on the screen: the same numbers as were shown, at a pace of one's own, and never taken for now."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from arcops import recording, wire
from arcops.core.errors import ArcopsError
from arcops.recording import Entry, Gone, Header
from arcops.tui.ink import Lines
from arcops.tui.panels.base import Room
from arcops.tui.panels.playback import PlaybackPanel, clock
from arcops.tui.replaying.player import PlayerScreen
from arcops.tui.replaying.replay import Replay
from arcops.tui.snapshot import Link, Playback, Snapshot
from tests.tui import card_scenes, scenes
from tests.tui.screen_text import text_of

LENGTH = 600.0
BEGAN = 1_796_062_478.0


def status_at(seconds: float) -> wire.Status:
    """Busy, then speculating from the second minute on."""
    status = scenes.busy() if seconds < 120 else scenes.speculating()
    return msgspec.structs.replace(status, at=scenes.NOW + seconds)


def entries() -> list[Entry]:
    """Ten minutes: a status each second, none from 300 s on for a minute, and a line of log each ten seconds."""
    history = tuple(msgspec.structs.replace(point) for point in scenes.history(60))
    made = [Entry(at=0.0, history=history), Entry(at=0.0, log=log("the beginning"), anew=True)]
    for second in range(int(LENGTH) + 1):
        if 300 <= second < 360:
            if second == 300:
                made.append(Entry(at=300.0, gone=Gone(problem="the daemon has ended", hint="is it being restarted?")))
            continue
        made.append(Entry(at=float(second), status=status_at(second)))
        if second % 10 == 0 and second < LENGTH:
            made.append(Entry(at=second + 0.5, log=log(f"line of second {second}")))
            event = wire.Event(
                id=second, at=BEGAN + second, kind="phase", phase="serving", profile="a", launch_id=None, reason="r"
            )
            made.append(Entry(at=second + 0.5, event=event))
    return made


def log(*lines: str, launch: str = scenes.LAUNCH) -> wire.LogLines:
    return wire.LogLines(launch_id=launch, lines=lines)


def recorded(path: Path, made: list[Entry] | None = None, *, logs: bool = True) -> recording.Recording:
    header = Header(arcops_recording=1, arcops="0.1.0", instance="main", at=BEGAN, window=60.0, logs=logs)
    with recording.writing(path, header) as writer:
        for entry in entries() if made is None else made:
            writer.add(entry)
    return recording.read(path)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def replay(tmp_path: Path, time: Clock) -> Replay:
    return Replay(recorded(tmp_path / "it.rec"), clock=time)


def where(replay: Replay) -> Playback:
    playback = replay.snapshot().playback
    assert playback is not None
    return playback


# -- pace -------------------------------------------------------------------------------------------------------------
def test_it_plays_at_the_pace_of_then(replay: Replay, time: Clock) -> None:
    for passed in (0.0, 5.0, 125.0):
        time.now = 1000.0 + passed
        snapshot = replay.snapshot()
        assert (where(replay).at, snapshot.status) == (passed, status_at(passed))
        assert not snapshot.stale


def test_faster_and_slower_change_the_pace_and_not_the_place(replay: Replay, time: Clock) -> None:
    time.now += 10
    replay.faster(2)
    assert (where(replay).at, where(replay).speed) == (10.0, 4)
    time.now += 10
    assert where(replay).at == 50.0
    replay.faster(-9)
    assert (where(replay).at, where(replay).speed) == (50.0, 1)
    replay.faster(99)
    assert where(replay).speed == 64


def test_paused_it_stands_still_and_goes_on_from_there(replay: Replay, time: Clock) -> None:
    time.now += 10
    replay.pause()
    time.now += 100
    assert (where(replay).at, where(replay).paused) == (10.0, True)
    replay.seek(5.0)
    assert where(replay).at == 15.0
    replay.pause()
    time.now += 1
    assert (where(replay).at, where(replay).paused) == (16.0, False)


def test_seeking_stays_within_it(replay: Replay) -> None:
    replay.seek(-10)
    assert where(replay).at == 0.0
    replay.seek(10_000)
    assert (where(replay).at, where(replay).ended) == (LENGTH, True)
    replay.pause()
    assert (where(replay).at, where(replay).paused) == (0.0, False), "at the end it begins again"


# -- what is shown ----------------------------------------------------------------------------------------------------
def test_while_the_daemon_was_away_nothing_looks_live(replay: Replay) -> None:
    replay.seek(330.0)
    snapshot = replay.snapshot()
    assert (snapshot.link, snapshot.problem, snapshot.stale) == (Link.BROKEN, "the daemon has ended", True)
    assert snapshot.status == status_at(299)
    assert snapshot.silent == 31.0
    replay.seek(40.0)
    assert replay.snapshot().link is Link.LIVE
    replay.seek(-45.0)
    assert replay.snapshot().link is Link.BROKEN


def test_lines_come_when_they_came_and_go_when_it_is_wound_back(replay: Replay) -> None:
    assert replay.snapshot().log.lines == ("the beginning",)
    replay.seek(21.0)
    assert replay.snapshot().log.lines[-1] == "line of second 20"
    replay.seek(-10.0)
    assert replay.snapshot().log.lines[-1] == "line of second 10"


def test_nothing_that_was_told_later_is_known_before(replay: Replay) -> None:
    replay.seek(100.0)
    snapshot = replay.snapshot()
    assert max(point.at for point in snapshot.history) <= scenes.NOW + 100


def test_the_same_moment_gives_the_same_values(replay: Replay, time: Clock) -> None:
    """The screen draws nothing anew for them."""
    before = replay.snapshot()
    time.now += 0.3
    after = replay.snapshot()
    assert (after.status is before.status, after.history is before.history, after.log is before.log) == (True,) * 3
    assert not after.adds_only_log(before), "the time at the top has moved"


def test_lines_of_another_launch_are_set_apart_and_those_told_again_are_not_doubled(tmp_path: Path) -> None:
    made = [
        Entry(at=0.0, status=scenes.busy()),
        Entry(at=0.1, log=log("one", "two"), anew=True),
        Entry(at=0.2, log=log("three", launch="other")),
        Entry(at=0.3, log=log("two", "three", launch="other"), anew=True),
    ]
    time = Clock()
    replay = Replay(recorded(tmp_path / "it.rec", made), clock=time)
    replay.seek(0.2)
    assert replay.snapshot().log.lines == ("one", "two", "──── launch other ────", "three")
    replay.seek(0.1)
    assert replay.snapshot().log.lines == ("two", "three")


def test_what_was_not_recorded_says_so(tmp_path: Path) -> None:
    replay = Replay(recorded(tmp_path / "it.rec", [Entry(at=0.0, status=scenes.busy())], logs=False))
    assert "not recorded" in replay.snapshot().log.problem


# -- orders -----------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_it_takes_no_orders(replay: Replay) -> None:
    for order in (
        replay.switch(wire.SwitchRequest(profile="a")),
        replay.stop(wire.StopRequest()),
        replay.restart(wire.RestartRequest()),
    ):
        with pytest.raises(ArcopsError, match="it takes no orders"):
            await order


# -- on demand --------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_events_are_those_that_had_happened(replay: Replay) -> None:
    replay.seek(25.0)
    asked = replay.on_demand
    assert [event.id for event in (await asked.events(-2, 100)).events] == [10, 20]
    assert [event.id for event in (await asked.events(0, 1)).events] == [10]


@pytest.mark.asyncio
async def test_a_recording_has_no_machine_that_could_be_planned_for(replay: Replay) -> None:
    with pytest.raises(ArcopsError, match="no checkpoints") as caught:
        await replay.on_demand.plan("dflash2")
    assert "arcops plan dflash2" in caught.value.hint


@pytest.mark.asyncio
async def test_a_follower_hears_what_comes_and_is_told_when_it_is_wound_back(replay: Replay) -> None:
    replay.seek(25.0)
    events = replay.on_demand.follow_events(-1)
    assert (await anext(events)).id == 20
    replay.seek(10.0)
    assert (await anext(events)).id == 30
    replay.seek(-20.0)
    with pytest.raises(ArcopsError, match="wound back"):
        await anext(events)


@pytest.mark.asyncio
async def test_a_log_is_followed_and_one_that_was_not_recorded_is_refused(replay: Replay) -> None:
    replay.seek(25.0)
    pages = replay.on_demand.follow_logs(2)
    assert (await anext(pages)).lines == ("line of second 10", "line of second 20")
    replay.seek(10.0)
    assert (await anext(pages)).lines == ("line of second 30",)
    with pytest.raises(ArcopsError, match="no log of a launch 'other'"):
        await anext(replay.on_demand.follow_logs(2, "other"))


@pytest.mark.asyncio
async def test_cards_are_those_that_were_told_last(tmp_path: Path) -> None:
    path, time = tmp_path / "cards.gz", Clock()
    later = card_scenes.cards(card_scenes.card(census=card_scenes.ALONE), at=card_scenes.NOW + 5)
    told = [(2.0, card_scenes.cards()), (7.0, later)]
    made = [Entry(at=0.0, status=scenes.busy()), *(Entry(at=at, cards=cards) for at, cards in told)]
    replay = Replay(recorded(path, made), clock=time)
    with pytest.raises(ArcopsError, match="knew of its cards was not recorded"):
        await replay.on_demand.cards()
    time.now += 3.0
    assert await replay.on_demand.cards() == card_scenes.cards()
    time.now += 4.0
    assert await replay.on_demand.cards(everybody=True) == later


@pytest.mark.asyncio
async def test_there_is_no_machine_to_examine(replay: Replay) -> None:
    with pytest.raises(ArcopsError, match="no machine"):
        await replay.on_demand.examine((), lambda _: None)


# -- the screen -------------------------------------------------------------------------------------------------------
class Heard(PlayerScreen):
    """Keeps what it says in passing."""

    said = ""

    def notify(self, message: str, **_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - only recorded
        self.said += message


@asynccontextmanager
async def playing(replay: Replay, size: tuple[int, int] = (100, 30)) -> AsyncGenerator[tuple[Heard, Pilot[None]]]:
    app = Heard(replay)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause(0.02)


@pytest.mark.asyncio
async def test_keys_move_in_time_and_the_top_line_says_where(replay: Replay) -> None:
    async with playing(replay) as (app, pilot):
        assert "▶ recording of 2026-" in text_of(app)
        assert "at 00:00 of 10:00, x1" in text_of(app)
        for keys, says in (
            (("space",), "‖ recording"),
            (("right", "right"), "at 00:20 of 10:00"),
            (("shift+right",), "at 01:20 of 10:00"),
            (("left",), "at 01:10 of 10:00"),
            (("greater_than_sign", "greater_than_sign"), "x4, paused"),
            (("less_than_sign",), "x2, paused"),
            (("shift+left", "shift+left"), "at 00:00 of 10:00"),
        ):
            await pilot.press(*keys)
            await pilot.pause()
            assert says in text_of(app)


@pytest.mark.asyncio
async def test_orders_and_another_window_are_refused_with_a_word(replay: Replay) -> None:
    async with playing(replay) as (app, pilot):
        for key in "sxr":
            app.said = ""
            await pilot.press(key)
            await until(pilot, lambda: bool(app.said))
            assert "it takes no orders" in app.said
        await pilot.press("w")
        await pilot.pause()
        assert "another window was not recorded" in app.said
        assert len(app.screen_stack) == 1, "nothing is asked"


@pytest.mark.asyncio
async def test_the_minute_without_the_daemon_does_not_look_live(replay: Replay) -> None:
    async with playing(replay) as (app, pilot):
        await pilot.press("space", *["shift+right"] * 5, "right")
        await pilot.pause()
        assert "not connected: the daemon has ended" in text_of(app)
        assert app.screen_stack[0].has_class("-stale")


# -- the line at the top ----------------------------------------------------------------------------------------------
def drawn(playback: Playback | None, width: int) -> str:
    snapshot = Snapshot(socket="it.rec", instance="main", window=60.0, now=0.0, playback=playback)
    lines: Lines = PlaybackPanel().lines(snapshot, Room(width, 0, tall=False))
    return "\n".join("".join(text for text, _ in line) for line in lines)


PLAYED = Playback(began=BEGAN, at=83.9, length=4000.0, speed=4, paused=False, cut=True)


def test_a_daemon_that_is_there_has_no_such_line() -> None:
    assert drawn(None, 80) == ""


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_line_fits_and_says_what_matters_first(width: int) -> None:
    line = drawn(PLAYED, width)
    assert len(line) <= width
    assert line.startswith("▶ recording")
    assert "at 01:23 of 1:06:40, x4" in line
    assert "cut off" in line, "half a recording does not pass for a whole one"
    assert ("2026-" in line) == (width >= 80)


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00"), (59.9, "00:59"), (3599, "59:59"), (3661, "1:01:01")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
