"""The numbers' past in the daemon: written beside the loop, gone on with by the next daemon, and told in pages."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arcops import wire
from arcops.core.metrics import Sample
from arcops.core.rates import Timed
from arcops.core.rollup import Tally
from arcops.daemon import history as module
from arcops.daemon import samples as pages
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.daemon.history import History
from arcops.daemon.samples import Samples
from arcops.machine.database import StoreError
from arcops.machine.sample_store import MOST_SECONDS, Batch, Minute, SampleStore, Second
from tests.helpers import eventually

EPOCH = 1_790_000_040.0
"""A whole minute."""


@dataclass(slots=True)
class Machine:
    """One boot: its clocks, which a test sets, its disk, and a backend whose counters go on over daemons."""

    path: Path
    monotonic: float = 5000.0
    wall: float = EPOCH
    tokens: float = 0.0
    store: Callable[[str], SampleStore] = SampleStore.open
    resumed: list[tuple[Sequence[Timed], Sequence[Tally]]] = field(
        default_factory=list[tuple[Sequence[Timed], Sequence[Tally]]]
    )

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    def daemon(self) -> History:
        return History(str(self.path), self.clock, "boot", self.store)

    async def started(self) -> History:
        history = self.daemon()
        await history.restore(lambda scrapes, tallies: self.resumed.append((scrapes, tallies)))
        return history

    def scrape(self, history: History, tokens: float = 7.0, launch: str = "L1") -> None:
        """One second later the backend has generated so many more tokens."""
        self.monotonic += 1.0
        self.wall += 1.0
        self.tokens += tokens
        sample = Sample(running=2.0, generation_tokens=self.tokens)
        history.scraped(Timed(self.monotonic, sample, launch), "p", "serving", None)

    def scrapes(self, history: History, count: int, tokens: float = 7.0, launch: str = "L1") -> None:
        for _ in range(count):
            self.scrape(history, tokens, launch)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its disk has time, for this machine may stand still for seconds."""
    for room, name in ((module, "DISK_WITHIN"), (module, "BRIEFLY"), (pages, "READ_WITHIN")):
        monkeypatch.setattr(room, name, 60.0)
    return Machine(tmp_path / "history.db")


async def told(machine: Machine, history: History, step: float | None, since: float = 0.0) -> list[wire.SamplePoint]:
    """All points, page after page."""
    samples, found = Samples(history, machine.clock), list[wire.SamplePoint]()
    at: float | None = since
    while at is not None:
        page = await samples.page(at, 1e11, step)
        assert page.absent is None
        assert len(page.points) <= pages.MOST_POINTS
        found += page.points
        at = page.next
    return found


def tokens(points: Sequence[wire.SamplePoint]) -> float:
    return round(sum(point.seconds * (point.decode or 0.0) for point in points), 3)


@pytest.mark.asyncio
async def test_seconds_and_minutes_tell_the_same_whether_they_are_on_the_disk_yet_or_not(machine: Machine) -> None:
    history = await machine.started()
    machine.scrapes(history, 150)
    before = [await told(machine, history, step) for step in (1.0, 60.0)]
    await history.write()
    machine.scrape(history, 0.0)
    after = [await told(machine, history, step) for step in (1.0, 60.0)]
    assert [len(points) for points in before] == [150, 3]
    assert [len(points) for points in after] == [151, 3]
    assert {tokens(points) for points in (*before, *after)} == {149 * 7.0}
    assert [point.at for point in after[1]] == [EPOCH, EPOCH + 60, EPOCH + 120]
    assert [point.seconds for point in after[1]] == [58.0, 60.0, 32.0]
    await history.close()


@pytest.mark.asyncio
async def test_a_daemon_that_is_killed_loses_no_token_and_tells_none_twice(machine: Machine) -> None:
    killed = await machine.started()
    machine.scrapes(killed, 70)
    await killed.write()
    machine.scrapes(killed, 4)
    machine.monotonic += 10.0
    machine.wall += 10.0
    machine.tokens += 70.0
    history = await machine.started()
    machine.scrapes(history, 5)
    for step, count in ((1.0, 75), (60.0, 2)):
        points = await told(machine, history, step)
        assert (len(points), tokens(points)) == (count, machine.tokens - 7.0)
    blurred = (await told(machine, history, 1.0))[70]
    assert blurred.seconds == 15.0, "from the last batch to the first scrape of the next daemon"
    await history.close()
    again = await machine.started()
    assert tokens(await told(machine, again, 60.0)) == machine.tokens - 7.0
    await again.close()


@pytest.mark.asyncio
async def test_the_next_daemon_is_given_scrapes_of_this_boot_and_hour_and_all_seconds(machine: Machine) -> None:
    first = await machine.started()
    for _ in range(3):
        machine.scrapes(first, 5)
        await first.write()
    await first.close()
    assert machine.resumed == [([], [])]
    second = await machine.started()
    scrapes, tallies = machine.resumed[-1]
    assert ([timed.at for timed in scrapes], len(tallies)) == ([5005.0, 5010.0, 5015.0], 15)
    assert scrapes[-1].sample == Sample(running=2.0, generation_tokens=105.0)
    await second.close()
    elsewhere = History(str(machine.path), machine.clock, "another boot")
    await elsewhere.restore(lambda scrapes, tallies: machine.resumed.append((scrapes, tallies)))
    assert (machine.resumed[-1][0], len(machine.resumed[-1][1])) == ([], 15)
    machine.scrape(elsewhere, 70.0)
    assert (await told(machine, elsewhere, 1.0))[-1].decode is None, "another boot's counters are not these"
    await elsewhere.close()


@pytest.mark.asyncio
async def test_launches_and_profiles_stay_apart_and_a_gap_has_no_points(machine: Machine) -> None:
    history = await machine.started()
    machine.scrapes(history, 3)
    machine.monotonic += 600.0
    machine.wall += 600.0
    machine.tokens = 0.0
    machine.scrapes(history, 3, launch="L2")
    points = await told(machine, history, 60.0)
    assert [(point.launch_id, point.at, point.seconds) for point in points] == [
        ("L1", EPOCH, 2.0),
        ("L2", EPOCH + 600.0, 2.0),
    ]
    assert (await told(machine, history, 1.0))[3].decode is None, "a launch's first look tells no rate"
    await history.close()


@pytest.mark.parametrize("step", [-3600.0, -30.0, 3600.0, 1e9])
@pytest.mark.asyncio
async def test_a_stepped_clock_neither_loses_nor_doubles_a_point(machine: Machine, step: float) -> None:
    history = await machine.started()
    machine.scrapes(history, 90)
    await history.write()
    machine.wall += step
    machine.scrapes(history, 90)
    await history.close()
    history = await machine.started()
    seconds, minutes = await told(machine, history, 1.0), await told(machine, history, 60.0)
    assert (len(seconds), tokens(seconds)) == (180, 179 * 7.0)
    assert tokens(minutes) == 179 * 7.0
    assert sum(point.seconds for point in minutes) == 179.0, "by a clock that nobody sets"
    assert [point.at for point in minutes] == sorted(point.at for point in minutes)
    await history.close()


@pytest.mark.asyncio
async def test_a_step_of_many_minutes_is_the_sum_of_its_minutes(machine: Machine) -> None:
    history = await machine.started()
    machine.scrapes(history, 900)
    await history.write()
    (first, *_), minutes = await told(machine, history, 600.0), await told(machine, history, 60.0)
    assert first.at == EPOCH // 600 * 600
    within = [point for point in minutes if point.at < first.at + 600]
    assert (first.seconds, tokens([first])) == (sum(point.seconds for point in within), tokens(within))
    await history.close()


@pytest.mark.parametrize("step", [1.0, 60.0, 300.0])
@pytest.mark.asyncio
async def test_pages_are_bounded_and_together_hold_everything_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    history = await machine.started()
    machine.scrapes(history, 700)
    await history.write()
    machine.wall -= 200.0
    machine.scrapes(history, 300)
    whole = await told(machine, history, step)
    monkeypatch.setattr(pages, "MOST_POINTS", 3)
    monkeypatch.setattr(pages, "MOST_ROWS", 7)
    assert await told(machine, history, step) == whole
    assert tokens(whole) == 999 * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_without_a_step_the_finest_that_reaches_back_is_taken(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = await machine.started()
    samples = Samples(history, machine.clock)
    assert (await samples.page(-3600.0, 1e11, None)).step == 1.0, "there is nothing older"
    machine.scrapes(history, MOST_SECONDS + 10)
    assert (await samples.page(-60.0, 1e11, None)).step == 1.0
    assert (await samples.page(-7200.0, 1e11, None)).step == 60.0
    around = await samples.page(machine.wall - 1800.0, machine.wall - 1740.0, None)
    assert (around.step, len(around.points), around.next) == (1.0, 60, None)
    await history.close()


class Disk:
    """A disk that can be full, or hang."""

    def __init__(self) -> None:
        self.is_full = False
        self.moves = threading.Event()
        self.moves.set()
        self.batches = itertools.count()
        self.begun = 0

    def open(self, path: str) -> SampleStore:
        disk, store = self, SampleStore.open(path)
        write = store.write

        def perhaps(batch: Batch) -> None:
            disk.begun += 1
            disk.moves.wait()
            if disk.is_full:
                raise StoreError("database or disk is full", may_pass=True)
            write(batch)

        store.write = perhaps
        return store


@pytest.mark.asyncio
async def test_a_full_disk_is_told_once_costs_no_point_and_is_forgotten_when_there_is_room(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = Disk()
    machine.store = disk.open
    history = await machine.started()
    disk.is_full = True
    for _ in range(4):
        machine.scrapes(history, 61)
        await history.write()
    (trouble,) = history.troubles
    assert "database or disk is full" in trouble
    assert capsys.readouterr().out.count("disk is full") == 1, "logged once, not with every attempt"
    assert tokens(await told(machine, history, 60.0)) == 243 * 7.0
    disk.is_full = False
    await history.write()
    assert history.troubles == ()
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 1.0)) == tokens(await told(machine, history, 60.0)) == 243 * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_holds_nobody_up_and_what_it_takes_in_the_end_is_written_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    machine.store = disk.open
    monkeypatch.setattr(module, "DISK_WITHIN", 1.0)
    history = await machine.started()
    machine.scrapes(history, 10)
    disk.moves.clear()
    for _ in range(5):
        await history.write()
        machine.scrapes(history, 10)
    assert disk.begun == 1, "no second one behind one that hangs"
    assert "the disk does not answer" in history.troubles[0]
    assert tokens(await told(machine, history, 1.0)) == 59 * 7.0
    disk.moves.set()
    while history.troubles:
        await asyncio.sleep(0.01)
        await history.write()
    await history.write()
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 1.0)) == tokens(await told(machine, history, 60.0)) == 59 * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_at_the_start_is_waited_for_briefly_and_joined_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await machine.started()
    machine.scrapes(first, 100)
    await first.close()
    opens = threading.Event()

    def late(path: str) -> SampleStore:
        opens.wait()
        return SampleStore.open(path)

    monkeypatch.setattr(module, "BRIEFLY", 1.0)
    machine.store = late
    history = await machine.started()
    assert len(machine.resumed) == 1
    machine.scrapes(history, 30)
    page = await Samples(history, machine.clock).page(0.0, 1e11, 60.0)
    assert page.absent is not None
    assert sum(point.seconds for point in page.points) == 29.0, "what is in memory is told"
    opens.set()
    while len(machine.resumed) < 2:
        await asyncio.sleep(0.01)
        await history.write()
    await history.write()
    for step in (1.0, 60.0):
        assert tokens(await told(machine, history, step)) == (99 + 29) * 7.0
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 60.0)) == (99 + 29) * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_at_the_end_does_not_keep_the_daemon(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    machine.store = disk.open
    monkeypatch.setattr(module, "BRIEFLY", 0.05)
    history = await machine.started()
    machine.scrapes(history, 10)
    disk.moves.clear()
    async with asyncio.timeout(60.0):
        await history.close()
    disk.moves.set()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "aside"])


@pytest.mark.asyncio
async def test_what_makes_no_sense_on_the_disk_is_left_out(machine: Machine) -> None:
    history = await machine.started()
    machine.scrapes(history, 3)
    await history.close()
    store = SampleStore.open(str(machine.path))
    store.write(Batch([Second(EPOCH, b"\xc1")], [Minute(EPOCH, 1, b"")], b"rubbish", 1))
    store.close()
    history = await machine.started()
    assert len(await told(machine, history, 1.0)) == 3
    assert await told(machine, history, 60.0) == []
    await history.close()


@pytest.mark.asyncio
async def test_a_read_that_takes_too_long_gives_what_is_in_memory_and_says_what_is_not_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()

    def hanging(*_: float) -> tuple[Minute, ...]:
        hangs.wait()
        return ()

    history = await machine.started()
    machine.scrapes(history, 10)
    monkeypatch.setattr(history, "minutes", hanging)
    samples = Samples(history, machine.clock)
    monkeypatch.setattr(samples, "_aside", Aside[wire.Samples](0.05))
    page = await samples.page(0.0, 1e11, 60.0)
    assert page.absent is not None
    assert "cannot be read" in page.absent
    assert tokens(page.points) == 9 * 7.0
    hangs.set()
    await history.close()
