"""What a launch took: its card's peak, vLLM's own words, and what of both is kept."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from arcops.config.paths import Paths
from arcops.core.budget.comparison import Comparison
from arcops.core.budget.demand import Remembered
from arcops.core.budget.plan import MIB, Basis, Fit, Item, Plan, Room
from arcops.core.cards.measures import CardReading, Measure, Quantity
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.progress import StartProgress
from arcops.core.quantity import Known, Reading, Unknown
from arcops.daemon.backend import LiveBackend
from arcops.daemon.cards import CardBook, Sources
from arcops.daemon.clock import Clock
from arcops.daemon.footprints import Peaks, compared_of, footprint_of, recalled
from arcops.daemon.plans import Planned
from arcops.daemon.wiring import Parts, assemble
from arcops.machine import footprints
from arcops.machine.footprints import Footprint
from arcops.machine.record import LaunchRecord
from arcops.machine.store import Store
from arcops.planning.remembered import remembered_of
from tests.core.simulated import launch
from tests.daemon.waiting import until
from tests.planning.tiny import tiny

ALPHA, BETA = "0000:03:00.0", "0000:04:00.0"
NOWHERE = "0000:ff:1f.7"
"""No machine's card."""
GIB = 1024 * MIB


def used(mib: float | None, at: float, address: str = ALPHA) -> CardReading:
    """A reading of a card that has so much in use; None where it does not say."""
    said: Reading[float] = Unknown("not permitted", at) if mib is None else Known(mib * MIB, at)
    return CardReading(address, at, (Measure(Quantity.MEMORY_USED, said, "test"),))


def saw(peaks: Peaks, *readings: CardReading, launch_id: str = "one", spawned: float = 0.0) -> None:
    for reading in readings:
        peaks.saw(launch_id, spawned, reading)


def test_the_peak_is_the_most_of_all_readings_since_the_spawn() -> None:
    peaks = Peaks()
    saw(peaks, used(30_000, 4.0), used(20_000, 10.0), used(29_000, 12.0), used(28_000, 20.0), spawned=5.0)
    assert peaks.of((ALPHA,), 15.0) == 29_000 * MIB


def test_it_is_not_known_before_the_card_was_read_while_all_of_it_was_there() -> None:
    peaks = Peaks()
    assert peaks.of((ALPHA,), 15.0) is None
    saw(peaks, used(20_000, 10.0), used(20_000, 15.0))
    assert peaks.of((ALPHA,), 15.0) is None
    saw(peaks, used(None, 16.0), used(-1, 17.0), used(float("inf"), 18.0))
    assert peaks.of((ALPHA,), 15.0) is None, "a reading that says nothing is none"
    saw(peaks, used(26_000, 19.0))
    assert peaks.of((ALPHA,), 15.0) == 26_000 * MIB


def test_of_several_cards_it_is_the_highest_and_all_have_to_be_read() -> None:
    peaks = Peaks()
    saw(peaks, used(20_000, 16.0))
    assert peaks.of((ALPHA, BETA), 15.0) is None
    saw(peaks, used(21_000, 16.0, BETA))
    assert peaks.of((ALPHA, BETA), 15.0) == 21_000 * MIB


def test_another_launch_begins_anew() -> None:
    peaks = Peaks()
    saw(peaks, used(30_000, 16.0))
    saw(peaks, used(9_000, 17.0), launch_id="two")
    assert peaks.of((ALPHA,), 15.0) == 9_000 * MIB


@pytest.mark.asyncio
async def test_whoever_waits_for_a_reading_has_it_when_it_comes() -> None:
    peaks = Peaks()
    waiting = asyncio.create_task(peaks.looked((ALPHA, BETA), 15.0))
    await asyncio.sleep(0)
    saw(peaks, used(1, 16.0), used(1, 14.0, BETA))
    await asyncio.sleep(0)
    assert not waiting.done()
    saw(peaks, used(1, 16.0, BETA))
    await asyncio.wait_for(waiting, 30.0)


RECORD = LaunchRecord(
    launch_id="launch-1",
    boot_id="boot",
    instance="test",
    launch=launch(),
    enclosure=Enclosure(EnclosureKind.SESSION, "session"),
    status_path="",
    log_path="",
    spawned_at=0.0,
    spawned_monotonic=0.0,
)
SAID = StartProgress(weights_gib=18.0, kv_cache_gib=6.5, kv_cache_tokens=102_631)


def plan(tokens: int | None = 102_631, fixed: int | None = 7 * GIB, foreign: int | None = 0) -> Planned:
    items = (Item("activations", GIB, Basis.ESTIMATED, ""),)
    room = Room(32 * GIB, foreign)
    found = Plan(items, Fit.FITS, "", (), None, room, None, fixed, tokens, None, None)
    return Planned(found, fixed, "")


def test_plan_and_word_are_held_against_each_other_where_both_are_known() -> None:
    assert compared_of(plan(), SAID) == Comparison(102_631, 102_631)
    assert compared_of(plan(fixed=None), SAID) == Comparison(102_631, 102_631, estimated=True)
    assert compared_of(plan(tokens=None), SAID) is None
    assert compared_of(plan(), StartProgress()) is None
    assert compared_of("no plan", SAID) is None


def test_what_was_fixed_is_the_pool_and_else_what_vllm_says() -> None:
    fixed = footprint_of(RECORD, 1.0, SAID, plan(), Comparison(5, 6), 26 * GIB)
    assert fixed is not None
    assert (fixed.weights, fixed.pool, fixed.peak) == (18 * GIB, 7 * GIB, 26 * GIB)
    assert (fixed.planned, fixed.reported) == (5, 102_631)
    assert remembered_of(fixed) == Remembered(18 * GIB, GIB, remembered_of(fixed).when)
    for unknown in (plan(fixed=None), "no plan"):
        said = footprint_of(RECORD, 1.0, SAID, unknown, None, None)
        assert said is not None
        assert (said.pool, said.peak, said.planned) == (int(6.5 * GIB), None, None)


def test_a_launch_that_has_said_nothing_leaves_no_footprint() -> None:
    assert footprint_of(RECORD, 1.0, StartProgress(), "no plan", None, 26 * GIB) is None


@pytest.mark.parametrize(
    ("foreign", "cards", "own"),
    [
        (0, (ALPHA,), 26 * GIB),
        (GIB, (ALPHA,), 25 * GIB),
        (None, (ALPHA,), 26 * GIB),
        (27 * GIB, (ALPHA,), None),
        (0, (ALPHA, BETA), 26 * GIB),
        (GIB, (ALPHA, BETA), None),
    ],
    ids=["nobody", "a stranger", "cannot be told", "more than all", "two cards", "a stranger on one of two"],
)
def test_what_others_hold_is_not_of_the_launch(foreign: int | None, cards: tuple[str, ...], own: int | None) -> None:
    record = replace(RECORD, launch=launch(cards=cards))
    found = footprint_of(record, 1.0, SAID, plan(foreign=foreign), None, 26 * GIB)
    assert found is not None
    assert found.peak == own


@asynccontextmanager
async def daemon(root: Path) -> AsyncGenerator[Parts]:
    """The parts of a daemon, none of which runs."""
    paths = Paths.of("t", {"XDG_RUNTIME_DIR": str(root), "XDG_STATE_HOME": str(root), "HOME": str(root)})
    paths.make()
    store = Store.open(str(paths.database))
    parts = assemble(paths, store, Clock())
    try:
        yield parts
    finally:
        parts.footprints.close()
        await parts.looks.close()
        await parts.journal.close()
        store.close()


def on_the_cpu(root: Path) -> LiveBackend:
    """A launch that serves: its cache holds 64 Ki tokens by the plan, and one more by vLLM's word."""
    model = root / "tiny"
    if not model.exists():
        tiny(model)
    argv = ("vllm", "serve", str(model), "--kv-cache-memory-bytes", str(64 * MIB))
    record = replace(RECORD, launch=launch(argv=argv, cards=()), proven=True, log_path=str(root / "log"))
    live = LiveBackend(record, str(root / "record"), adopted=False, wake=lambda: None, monotonic=lambda: 0.0)
    live.progress = replace(SAID, kv_cache_tokens=64 * 1024 + 1)
    return live


EXPECTED = Comparison(64 * 1024, 64 * 1024 + 1)


@pytest.mark.asyncio
async def test_what_was_found_of_a_launch_is_kept_and_found_by_the_next_supervisor(tmp_path: Path) -> None:
    async with daemon(tmp_path) as parts:
        live = on_the_cpu(tmp_path)
        folder = str(parts.paths.footprints)
        parts.footprints.served(live)
        await until(lambda: bool(footprints.kept(folder, live.record.launch.profile)))
        assert parts.footprints.comparison("launch-1") == EXPECTED
        assert parts.footprints.comparison("launch-2") is None
        told = [event for event in parts.journal.events(0, 100) if event.kind == "plan"]
        assert [(event.reason, event.launch_id) for event in told] == [(EXPECTED.words, "launch-1")]
    async with daemon(tmp_path) as parts:
        parts.actor.live = on_the_cpu(tmp_path)
        parts.footprints.begin()
        await until(lambda: parts.footprints.comparison("launch-1") == EXPECTED)


def test_of_another_launch_or_without_a_plan_nothing_is_recalled() -> None:
    found = Footprint("runtime", "launch-1", 1.0, planned=5, reported=6, estimated=True)
    assert recalled(found, "launch-1") == ("launch-1", Comparison(5, 6, estimated=True))
    assert recalled(found, "launch-2") is None
    assert recalled(replace(found, planned=None), "launch-1") is None
    assert recalled(replace(found, reported=None), "launch-1") is None
    assert recalled(None, "launch-1") is None


@pytest.mark.asyncio
async def test_a_cards_readings_make_the_peak_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[Sources] = []

    def booked(clock: Clock, given: Sources) -> CardBook:
        sources.append(given)
        return CardBook(clock, given)

    monkeypatch.setattr("arcops.daemon.wiring.CardBook", booked)
    async with daemon(tmp_path) as parts:
        live = on_the_cpu(tmp_path)
        live.record = replace(live.record, launch=replace(live.record.launch, cards=(NOWHERE,)))
        parts.actor.live = live
        later = Clock().monotonic() + 60.0
        sources[0].read(used(27_000, later - 120.0, NOWHERE))
        parts.footprints.served(live)
        sources[0].read(used(26_000, later, NOWHERE))
        folder = str(parts.paths.footprints)
        await until(lambda: bool(footprints.kept(folder, live.record.launch.profile)))
        assert footprints.kept(folder, live.record.launch.profile)[0].peak == 27_000 * MIB


@pytest.mark.asyncio
async def test_a_disk_that_takes_nothing_costs_the_figures_and_nothing_else(tmp_path: Path) -> None:
    async with daemon(tmp_path) as parts:
        parts.paths.footprints.write_text("in the way")
        with capture_logs() as said:
            parts.footprints.served(on_the_cpu(tmp_path))
            await until(lambda: [one["event"] for one in said] == ["footprint"])
        assert parts.footprints.comparison("launch-1") == EXPECTED


@pytest.mark.asyncio
async def test_where_no_plan_can_be_made_there_is_no_event_and_no_remark(tmp_path: Path) -> None:
    async with daemon(tmp_path) as parts:
        live = on_the_cpu(tmp_path)
        (tmp_path / "tiny" / "config.json").write_text("{}")
        parts.footprints.served(live)
        folder = str(parts.paths.footprints)
        await until(lambda: bool(footprints.kept(folder, live.record.launch.profile)))
        assert footprints.kept(folder, live.record.launch.profile)[0].weights == 18 * GIB, "vLLM's word is kept"
        assert parts.footprints.comparison("launch-1") is None
        assert not [event for event in parts.journal.events(0, 100) if event.kind == "plan"]
