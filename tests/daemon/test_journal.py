"""What the journal does when the store takes nothing: nothing waits for it, and nothing that matters is lost."""

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.action import Settle
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.restart import recent
from arcops.core.state import Goal, Order, Outcome, StandIn, State
from arcops.core.world import Cause, Ending
from arcops.daemon import journal as module
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.machine import database as database_module
from arcops.machine.store import Store, StoreError
from tests.helpers import eventually

ORDER = Order(1, Goal.RUN, "mtp", committed=False)
STATE = State(phase=Phase.FAILED, order=ORDER, failures=(100.0, 200.0), reason="broken for good")
BOOT = "this boot"


@asynccontextmanager
async def keeping(path: Path) -> AsyncGenerator[tuple[Journal, Store]]:
    store = Store.open(str(path))
    journal = Journal(store, Clock(monotonic=lambda: 300.0, wall=lambda: 5300.0), BOOT)
    try:
        yield journal, store
    finally:
        await journal.close()
        store.close()


@contextmanager
def locked(path: Path) -> Generator[Callable[[], object]]:
    """The database locked by another process, as by a copy; what it gives lets go."""
    with closing(sqlite3.connect(path, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")
        yield lambda: copying.execute("ROLLBACK")


def settled(order_id: int) -> Settle:
    return Settle(Outcome(order_id, ExitCode.DONE, "mtp serves"), stands=True)


@pytest.mark.asyncio
async def test_what_a_locked_store_does_not_take_is_trouble_until_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "arcops.db"
    async with keeping(path) as (journal, store):
        await journal.write_order(ORDER)
        with locked(path) as let_go:
            began = time.monotonic()
            journal.settle(settled(1))
            journal.event("outcome", STATE, "mtp serves")
            journal.attempts(STATE)
            journal.loaded("mtp", 12.0)
            told = time.monotonic() - began
            began = time.monotonic()
            with pytest.raises(StoreError, match="locked"), store.patiently():
                store.settle(1, "committed", "")
            assert told < (time.monotonic() - began) / 2, "it waited for the lock"
            eventually(lambda: journal.trouble, why="a locked database is no trouble")
            assert "4 entries wait" in (journal.trouble or "")
            assert [event.reason for event in journal.events(0, 10)] == ["mtp serves"]
            assert store.last_events(1) == ()
            let_go()
        journal.retry()
        eventually(lambda: journal.trouble is None, why="what waited is not written")
        last = store.last_order()
        assert last is not None
        assert last.state == "committed"
        assert [event.id for event in store.last_events(9)] == [journal.newest_event]
        assert journal.usual_load_time("mtp") == 12.0


@pytest.mark.asyncio
async def test_an_outcome_is_written_before_the_next_order(tmp_path: Path) -> None:
    path = tmp_path / "arcops.db"
    async with keeping(path) as (journal, store):
        await journal.write_order(ORDER)
        with locked(path) as let_go:
            journal.settle(settled(1))
            eventually(lambda: journal.trouble, why="a locked database is no trouble")
            let_go()
        await journal.write_order(Order(2, Goal.STOP, committed=False))
        before = store.order_in_force(before=2, states=("committed",))
        assert before is not None
        assert before.id == 1


@pytest.mark.asyncio
async def test_an_order_that_cannot_be_written_is_not_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_PATIENCE_MS", 150)
    path = tmp_path / "arcops.db"
    async with keeping(path) as (journal, store):
        with locked(path), pytest.raises(StoreError, match="locked"):
            await journal.write_order(ORDER)
        assert store.last_order() is None


@pytest.mark.asyncio
async def test_events_past_the_bound_are_lost_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    path = tmp_path / "arcops.db"
    async with keeping(path) as (journal, store):
        await journal.write_order(ORDER)
        with locked(path) as let_go:
            for number in range(5):
                journal.event("phase", STATE, f"r{number}")
            journal.settle(settled(1))
            eventually(lambda: "2 could not be kept" in (journal.trouble or ""), why=f"{journal.trouble}")
            let_go()
        journal.retry()
        eventually(lambda: store.order_in_force(states=("committed",)), why="the outcome was lost")
        assert [event.reason for event in store.last_events(9)] == ["r0", "r1", "r2"]
        assert "2 entries of the history could not be kept" in (journal.trouble or "")


@pytest.mark.asyncio
async def test_an_entry_that_can_never_be_written_holds_up_no_other(tmp_path: Path) -> None:
    async with keeping(tmp_path / "arcops.db") as (journal, store):
        journal.settle(settled(99))
        journal.event("phase", STATE, "after it")
        eventually(lambda: store.last_events(1), why="the next entry is held up")
        assert "there is no order 99" in (journal.trouble or "")


@pytest.mark.asyncio
async def test_a_page_of_the_history_has_neither_holes_nor_repeats(tmp_path: Path) -> None:
    async with keeping(tmp_path / "arcops.db") as (journal, _):
        for number in range(200):
            journal.event("phase", STATE, f"r{number}")
            ids = [event.id for event in journal.events(0, 1000)]
            assert ids == list(range(1, number + 2))
        assert [event.id for event in journal.events(150, 10)] == list(range(151, 161))


@pytest.mark.asyncio
async def test_a_backend_that_lives_lifts_the_latch_and_keeps_the_count(tmp_path: Path) -> None:
    async with keeping(tmp_path / "arcops.db") as (journal, store):
        journal.attempts(STATE)
        eventually(lambda: store.recall("attempts"), why="the attempts are not written")
        fresh = State(order=ORDER)
        adopted, bare = journal.recalled(fresh, latch=False), journal.recalled(fresh, latch=True)
        assert (adopted.phase, adopted.failures) == (Phase.STOPPED, (100.0, 200.0))
        assert (bare.phase, bare.failures, bare.reason) == (Phase.FAILED, (100.0, 200.0), "broken for good")


# -- attempts ---------------------------------------------------------------------------------------------------------
HOURS = 3600.0
STANDING = replace(ORDER, committed=True)


@asynccontextmanager
async def kept(path: Path, state: State) -> AsyncGenerator[Store]:
    """The attempts of `state`, written down by a supervisor whose clocks said 300 and 5300 + 100 h."""
    store = Store.open(str(path))
    journal = Journal(store, Clock(monotonic=lambda: 300.0, wall=lambda: 5300.0 + 100 * HOURS), BOOT)
    try:
        journal.attempts(state)
        eventually(lambda: store.recall("attempts"), why="the attempts are not written")
        yield store
    finally:
        await journal.close()
        store.close()


async def read_back(store: Store, state: State, *, boot: str, monotonic: float, wall: float) -> State:
    """What the next supervisor reads, by clocks that it finds."""
    journal = Journal(store, Clock(monotonic=lambda: monotonic, wall=lambda: wall), boot)
    try:
        return journal.recalled(state, latch=True)
    finally:
        await journal.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("step", [0.0, 2 * HOURS, -2 * HOURS], ids=["steady", "forward 2 h", "back 2 h"])
async def test_within_a_boot_no_step_of_the_wall_clock_changes_when_it_failed(tmp_path: Path, step: float) -> None:
    failed = State(phase=Phase.BACKOFF, order=STANDING, failures=(100.0, 290.0))
    async with kept(tmp_path / "arcops.db", failed) as store:
        wall = 5300.0 + 100 * HOURS + 30.0 + step
        after = await read_back(store, State(order=STANDING), boot=BOOT, monotonic=330.0, wall=wall)
        assert after.failures == (100.0, 290.0)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("step", "ages"),
    [(0.0, (260.0, 70.0)), (2 * HOURS, (260.0 + 2 * HOURS, 70.0 + 2 * HOURS)), (-2 * HOURS, (0.0, 0.0))],
    ids=["steady", "forward 2 h", "back 2 h"],
)
async def test_over_a_reboot_the_wall_clock_counts_and_one_that_was_set_back_forgives_nothing(
    tmp_path: Path, step: float, ages: tuple[float, ...]
) -> None:
    failed = State(phase=Phase.FAILED, order=STANDING, failures=(100.0, 290.0), reason="too often")
    async with kept(tmp_path / "arcops.db", failed) as store:
        wall = 5300.0 + 100 * HOURS + 60.0 + step
        after = await read_back(store, State(order=STANDING), boot="the next", monotonic=10.0, wall=wall)
        assert tuple(10.0 - at for at in after.failures) == pytest.approx(ages)
        assert after.phase is Phase.STOPPED, "a reboot is worth one more attempt"
        assert len(recent(after.failures, 10.0)) == (0 if step > 0 else 2)


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.WEDGED])
@pytest.mark.parametrize("boot", [BOOT, "the next"])
async def test_each_latch_holds_over_supervisors_and_not_over_a_reboot(tmp_path: Path, phase: Phase, boot: str) -> None:
    ending = Ending("L1", Cause.GPU_WEDGED, "the card is wedged", "reboot", deterministic=True)
    latched = State(phase=phase, order=STANDING, failure=ending, reason="the card is wedged")
    async with kept(tmp_path / "arcops.db", latched) as store:
        after = await read_back(store, State(order=STANDING), boot=boot, monotonic=310.0, wall=5310.0 + 100 * HOURS)
        expected = (phase, "the card is wedged", ending) if boot == BOOT else (Phase.STOPPED, State().reason, None)
        assert (after.phase, after.reason, after.failure) == expected


@pytest.mark.asyncio
@pytest.mark.parametrize(("boot", "faults"), [(BOOT, (100.0, 290.0)), ("the next", ())])
async def test_what_is_counted_against_a_card_is_of_one_boot(
    tmp_path: Path, boot: str, faults: tuple[float, ...]
) -> None:
    failed = State(phase=Phase.BACKOFF, order=STANDING, card_faults=(100.0, 290.0))
    async with kept(tmp_path / "arcops.db", failed) as store:
        after = await read_back(store, State(order=STANDING), boot=boot, monotonic=310.0, wall=5310.0 + 100 * HOURS)
        assert (after.card_faults, after.failures) == (faults, ())


@pytest.mark.asyncio
@pytest.mark.parametrize(("boot", "doubted"), [(BOOT, ("0000:03:00.0",)), ("the next", ())])
async def test_a_card_that_is_to_be_tried_is_so_for_the_next_supervisor_whatever_is_ordered_by_then(
    tmp_path: Path, boot: str, doubted: tuple[str, ...]
) -> None:
    failed = State(phase=Phase.BACKOFF, order=STANDING, doubted=("0000:03:00.0",), doubted_since=290.0)
    async with kept(tmp_path / "arcops.db", failed) as store:
        for order in (STANDING, replace(STANDING, id=STANDING.id + 1)):
            after = await read_back(store, State(order=order), boot=boot, monotonic=310.0, wall=5310.0)
            assert (after.doubted, after.doubted_since) == (doubted, 290.0 if doubted else 0.0)


@pytest.mark.asyncio
async def test_an_event_of_the_kernels_has_the_kind_of_incident_for_its_cause(tmp_path: Path) -> None:
    async with keeping(tmp_path / "arcops.db") as (journal, store):
        ending = Ending("L1", Cause.DEVICE_LOST, "lost", "", deterministic=False)
        journal.event("kernel", replace(STATE, failure=ending), "card 0000:03:00.0: reset", "L1", cause="reset")
        journal.event("kernel", replace(STATE, failure=ending), "lines were lost")
        eventually(lambda: len(store.events(0, 10)) == 2, why="the events are not written")
        assert [module.data_of(event).cause for event in store.events(0, 10)] == ["reset", None]


@pytest.mark.asyncio
@pytest.mark.parametrize("boot", [BOOT, "the next"])
async def test_a_stand_in_is_of_one_boot_and_its_failures_are_not_held_against_what_was_ordered(
    tmp_path: Path, boot: str
) -> None:
    stand_in = StandIn("target-only", "no head")
    failed = State(phase=Phase.BACKOFF, order=replace(STANDING, stand_in=stand_in), failures=(290.0,))
    async with kept(tmp_path / "arcops.db", failed) as store:
        after = await read_back(store, State(order=STANDING), boot=boot, monotonic=310.0, wall=5310.0 + 100 * HOURS)
        expected = (stand_in, (290.0,)) if boot == BOOT else (None, ())
        assert (after.order.stand_in, after.failures) == expected


@pytest.mark.asyncio
@pytest.mark.parametrize("boot", [BOOT, "the next"])
async def test_an_order_under_way_returns_to_what_stood_in_before_it(tmp_path: Path, boot: str) -> None:
    stand_in = StandIn("target-only", "no head")
    standing = State(phase=Phase.SERVING, order=replace(STANDING, stand_in=stand_in))
    async with kept(tmp_path / "arcops.db", standing) as store:
        under_way = State(order=Order(2, Goal.RUN, "mtp", committed=False, previous=STANDING, returns=True))
        after = await read_back(store, under_way, boot=boot, monotonic=310.0, wall=5310.0 + 100 * HOURS)
        assert after.order.stand_in is None
        assert after.order.previous is not None
        assert after.order.previous.stand_in == (stand_in if boot == BOOT else None)


@pytest.mark.asyncio
async def test_attempts_that_an_older_arcops_wrote_are_understood(tmp_path: Path) -> None:
    async with keeping(tmp_path / "arcops.db") as (journal, store):
        store.remember(
            "attempts",
            '{"order_id": 1, "boot_id": "this boot", "failures": [5290.0], "latched": true, "reason": "r",'
            ' "failure": null}',
        )
        after = journal.recalled(State(order=STANDING), latch=True)
        assert (after.phase, after.failures, after.order.stand_in) == (Phase.FAILED, (290.0,), None)
        store.remember("attempts", '{"order_id": 1')
        assert journal.recalled(State(order=STANDING), latch=True) == State(order=STANDING)


@pytest.mark.asyncio
async def test_what_others_keep_under_a_name_is_there_for_the_next_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "arcops.db"
    async with keeping(path) as (journal, _):
        assert journal.kept("baselines") is None
        journal.keep("baselines", "first")
        journal.keep("baselines", "second")
        journal.keep("another", "third")
    async with keeping(path) as (journal, store):
        assert (journal.kept("baselines"), journal.kept("another")) == ("second", "third")
        store.close()
        assert journal.kept("baselines") is None, "what cannot be read is not known"
