"""The numbers' past in the daemon: written beside the loop, gone on with by the next daemon, and told in pages."""

from pathlib import Path

import pytest

from arcops.core.metrics import Sample
from arcops.daemon import samples as pages
from arcops.daemon.history import History
from arcops.daemon.samples import Samples
from arcops.machine.sample_store import MOST_SECONDS
from tests.daemon.historic import EPOCH, Machine, patient_machine, tokens, told


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return patient_machine(tmp_path, monkeypatch)


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
async def test_a_step_with_more_rows_than_are_read_at_once_is_told_as_such_and_not_asked_for_for_ever(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = await machine.started()
    machine.scrapes(history, 700)
    await history.write()
    monkeypatch.setattr(pages, "MOST_ROWS", 3)
    page = await Samples(history, machine.clock).page(machine.wall - 600.0, 1e11, 300.0)
    assert page.absent is not None
    assert "more than 3 rows" in page.absent
    asked = [page.next]
    while page.next is not None:
        page = await Samples(history, machine.clock).page(page.next, 1e11, 300.0)
        assert page.next not in asked
        asked.append(page.next)
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
