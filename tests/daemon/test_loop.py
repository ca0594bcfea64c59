"""The loop in this process, with its own journal and a machine that refuses."""

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.action import Action, Settle
from arcops.core.admit import Request, Verb
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.errors import ArcopsError
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order, StandIn, State
from arcops.core.world import World
from arcops.daemon.clock import Clock
from arcops.daemon.loop import MOVING_EVERY, SETTLED_EVERY
from arcops.daemon.restore import as_recorded
from arcops.daemon.wiring import Parts, assemble
from arcops.machine.record import LaunchRecord, StandsInFor
from arcops.machine.store import Store, StoredOrder
from tests.core.simulated import launch
from tests.helpers import eventually

STOP = Request(Verb.STOP)


@asynccontextmanager
async def turning(root: Path, order: Order) -> AsyncGenerator[tuple[Parts, Store]]:
    """The parts of a daemon with `order` in force, whose loop turns by hand."""
    environment = {"XDG_RUNTIME_DIR": str(root), "XDG_STATE_HOME": str(root), "HOME": str(root)}
    paths = Paths.of("t", environment)
    paths.make()
    store = Store.open(str(paths.database))
    parts = assemble(paths, store, Clock())
    try:
        parts.loop.state = replace(parts.loop.state, order=replace(order, id=parts.journal.next_order_id()))
        await parts.journal.write_order(parts.loop.state.order)
        yield parts, store
    finally:
        await parts.looks.close()
        await parts.journal.close()
        store.close()


UNDER_WAY = Order(0, Goal.RUN, "mtp", resolving=True, committed=False)


def stored(store: Store, order_id: int) -> StoredOrder:
    found = store.order_in_force(before=order_id + 1, states=("accepted", "committed", "failed", "superseded"))
    assert found is not None
    assert found.id == order_id
    return found


@pytest.mark.asyncio
async def test_an_order_that_is_overtaken_is_told_so_in_the_history(tmp_path: Path) -> None:
    async with turning(tmp_path, UNDER_WAY) as (parts, store):
        taken = await parts.loop.submit(STOP)
        assert isinstance(taken, Order)
        reasons = [(event.kind, event.reason) for event in parts.journal.events(0, 10)]
        assert reasons == [
            ("order", "order 2: stop"),
            ("outcome", "order 1: overtaken by the order to stop"),
        ]
        eventually(lambda: stored(store, 1).state == "superseded", why="the outcome is not written")


@pytest.mark.asyncio
async def test_an_order_is_written_anew_when_the_state_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with turning(tmp_path, UNDER_WAY) as (parts, store):
        running: list[str | None] = [None]
        write = parts.journal.write_order

        async def slow(order: Order) -> None:
            await write(order)
            running[0] = "L1"

        monkeypatch.setattr(parts.journal, "write_order", slow)
        monkeypatch.setattr(parts.loop, "_launch_id", lambda: running[0])
        taken = await parts.loop.submit(STOP)
        assert isinstance(taken, Order)
        assert (taken.id, taken.replaces) == (3, "L1")
        assert (stored(store, 3).replaces, stored(store, 3).state) == ("L1", "accepted")
        eventually(lambda: stored(store, 2).state == "superseded", why="the one that was withdrawn is still in force")
        assert parts.loop.state.order == taken


@pytest.mark.asyncio
async def test_an_order_that_is_being_written_when_the_daemon_ends_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with turning(tmp_path, UNDER_WAY) as (parts, store):
        write = parts.journal.write_order

        async def slow(order: Order) -> None:
            await write(order)
            parts.loop.leave(None)

        monkeypatch.setattr(parts.journal, "write_order", slow)
        with pytest.raises(ArcopsError, match="is stopping"):
            await parts.loop.submit(STOP)
        eventually(lambda: stored(store, 2).state == "superseded", why="the order is still in force")
        assert (in_force := store.order_in_force()) is not None
        assert in_force.id == 1


@pytest.mark.asyncio
async def test_what_the_machine_refuses_is_trouble_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with turning(tmp_path, Order(0, Goal.STOP, committed=False)) as (parts, _):
        perform, refused = parts.actor.perform, [True]

        async def perhaps(action: Action, state: State) -> bool:
            if refused[0]:
                raise PermissionError(errno.EPERM, "Operation not permitted", "launch.json")
            return await perform(action, state)

        monkeypatch.setattr(parts.actor, "perform", perhaps)
        await parts.loop.turn()
        assert parts.actor.trouble == (
            "the supervisor could not write an outcome down: [Errno 1] Operation not permitted: 'launch.json'"
        )
        refused[0] = False
        await parts.loop._perform(Settle(parts.loop.state.settled[-1], stands=True))  # pyright: ignore[reportPrivateUsage] - decide settles once
        assert parts.actor.trouble is None


@pytest.mark.asyncio
async def test_a_look_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with turning(tmp_path, UNDER_WAY) as (parts, _):
        before = parts.loop.state

        def blind(_: State) -> World:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(parts.loop._observer, "look", blind)  # pyright: ignore[reportPrivateUsage] - nobody else has it
            assert await parts.loop.turn() is False
        assert parts.loop.state == before
        assert "Too many open files" in (parts.actor.trouble or "")
        await parts.loop.turn()
        assert parts.actor.trouble is None


@pytest.mark.asyncio
async def test_an_end_of_the_daemon_forgets_no_failure(tmp_path: Path) -> None:
    async with turning(tmp_path, replace(UNDER_WAY, committed=True)) as (parts, _):
        loop = parts.loop
        latched = replace(loop.state, phase=Phase.FAILED, failures=(1.0,), reason="broken")
        parts.journal.attempts(latched)
        loop.state = latched
        loop.leave(None)
        await loop.turn()
        assert (loop.state.phase, loop.state.failures) == (Phase.STOPPED, ())
        await parts.journal.write_order(Order(parts.journal.next_order_id(), Goal.STOP))
        recalled = parts.journal.recalled(State(order=latched.order), latch=True)
        assert (recalled.phase, recalled.reason, len(recalled.failures)) == (Phase.FAILED, "broken", 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", list(Phase))
async def test_a_phase_that_may_last_for_days_turns_once_a_second(tmp_path: Path, phase: Phase) -> None:
    short = {Phase.STARTING, Phase.CHECKING, Phase.SUSPECT, Phase.STOPPING, Phase.CLEARING}
    async with turning(tmp_path, UNDER_WAY) as (parts, _):
        parts.loop.state = replace(parts.loop.state, phase=phase)
        pause = parts.loop._pause()  # pyright: ignore[reportPrivateUsage] - it is what the test is about
    assert pause == (MOVING_EVERY if phase in short else SETTLED_EVERY)


# -- what an earlier supervisor has left ------------------------------------------------------------------------------
BEFORE = Order(1, Goal.RUN, "guarded")
TOLD = StandsInFor(1, "guarded", "bad value")
STANDS_IN = StandIn("alpha", "bad value")
LAUNCHED = LaunchRecord("L1", "b", "t", launch("alpha"), Enclosure(EnclosureKind.SESSION, ""), "s", "l", 0.0, 0.0)


@pytest.mark.parametrize(
    ("told", "order", "stands_in"),
    [
        (TOLD, BEFORE, (STANDS_IN, None)),
        (TOLD, Order(2, Goal.RUN, "mtp", committed=False, previous=BEFORE), (None, STANDS_IN)),
        (TOLD, Order(2, Goal.RUN, "alpha"), (None, None)),
        (TOLD, Order(2, Goal.RUN, "mtp", committed=False, previous=replace(BEFORE, id=0)), (None, None)),
        (TOLD, Order(1, Goal.STOP), (None, None)),
        (None, BEFORE, (None, None)),
        (TOLD, replace(BEFORE, stand_in=StandIn("alpha", "as written")), (StandIn("alpha", "as written"), None)),
    ],
    ids=["its order", "what is gone back to", "a later order", "another one before", "a stop", "nothing", "both know"],
)
def test_what_stands_in_is_taken_from_the_launch_record_where_it_is_about_the_order(
    told: StandsInFor | None, order: Order, stands_in: tuple[StandIn | None, StandIn | None]
) -> None:
    state = State(order=order, failures=(1.0,))
    found = as_recorded(state, replace(LAUNCHED, stands_in_for=told))
    previous = found.order.previous
    assert (found.order.stand_in, None if previous is None else previous.stand_in) == stands_in
    newly = found.order.stand_in is not None and order.stand_in is None
    assert found.failures == (() if newly else (1.0,)), "what failed before is not held against what stands in"
