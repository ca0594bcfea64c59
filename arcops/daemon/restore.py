"""What an earlier supervisor left: its backend, the order in force, what stands in for it, and how often it failed."""

import os
from dataclasses import replace

from arcops import __version__
from arcops.core.decide.moves import ended
from arcops.core.state import NOTHING_ORDERED, Goal, Order, StandIn, State
from arcops.daemon.act import Actor
from arcops.daemon.backend import LiveBackend
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.daemon.orders import Orders
from arcops.machine.record import LaunchRecord
from arcops.machine.store import StoreError


async def restore(loop: Loop, actor: Actor, journal: Journal) -> None:
    """Begin where it ended. What cannot be read of it is an event, and no end of this one."""
    try:
        disbelief = await actor.adopt()
    except OSError as error:
        disbelief = f"what an earlier supervisor left cannot be taken up in full: {error}"
    if disbelief is not None:
        journal.event("trouble", loop.state, disbelief)
    live = actor.live
    order = await _order_of_backend(live, journal, loop.state) or _order_in_force(journal)
    restored = replace(
        loop.state,
        reason="nothing is ordered to run" if order.goal is Goal.STOP else f"{order.profile} is ordered to run",
        order=order,
    )
    # A backend that lives is judged by what it does, not by a latch that was set before it; the count goes on.
    recalled = journal.recalled(restored, latch=live is None)
    loop.state = recalled if live is None else as_recorded(recalled, live.record)
    if loop.state.order.stand_in != recalled.order.stand_in or order.stand_in is not None:
        journal.attempts(loop.state)
    journal.event("daemon", loop.state, f"arcopsd {__version__} started (pid {os.getpid()})")


async def resolve(loop: Loop, orders: Orders, order: Order) -> None:
    """Read the profiles of the order that was found, and of the one it returns to, beside the loop."""
    for one in (order, order.previous):
        if one is not None and one.resolving:
            loop.resolved(await orders.restored(one))


def as_recorded(state: State, record: LaunchRecord) -> State:
    """`state` with what the launch stands in for, by its record: the database may not have taken that.

    What had failed before is not held against it: that is of the ordered profile.
    """
    order, told = state.order, record.stands_in_for
    if told is None or order.goal is Goal.STOP:
        return state
    stand_in = StandIn(record.launch.profile, told.because)
    if order.id == told.order_id and order.stand_in is None:
        return replace(state, order=replace(order, stand_in=stand_in), failures=())
    previous = order.previous
    if previous is not None and previous.id == told.order_id and previous.stand_in is None:
        return replace(state, order=replace(order, previous=replace(previous, stand_in=stand_in)))
    return state


async def _order_of_backend(live: LiveBackend | None, journal: Journal, state: State) -> Order | None:
    """The order to run the backend that lives, where the database that should say so was lost; None otherwise.

    A backend is only ever launched by an order, and an order to stop it would not have left it alone for long. Like any
    order that is found, its profile is read later, and what its `on_failure` names with it.
    """
    if live is None or not journal.knows_no_order or not _lives(live):
        return None
    launch, told, launch_id = live.record.launch, live.record.stands_in_for, live.record.launch_id
    order = Order(journal.next_order_id(), Goal.RUN, launch.profile, resolving=True)
    if told is not None:
        order = replace(order, profile=told.profile, stand_in=StandIn(launch.profile, told.because))
    state = replace(state, order=order)
    try:
        await journal.write_order(order)
    except StoreError as error:
        journal.event("trouble", state, f"order {order.id} cannot be written down: {error.reason}", launch_id)
    because = f"no order is on record, but launch {launch_id} {'of it' if told is None else 'in its place'} runs"
    journal.event("order", state, f"order {order.id}: run {order.profile} ({because})", launch_id)
    return order


def _lives(live: LiveBackend) -> bool:
    """Whether the backend is up or coming up. Where nobody can look it is not given up."""
    try:
        backend = live.look()
    except OSError:
        return True
    return not ended(backend) and (backend.main_alive or backend.keeper_alive)


def _order_in_force(journal: Journal) -> Order:
    """The last order that was accepted and did not fail; one that was not settled goes on where it was.

    Its profile, and the one that it would return to, are read later: a setup script may take a minute, and nobody
    should wait for it to hear that the supervisor is up.
    """
    stored = journal.order_in_force
    if stored is None:
        return NOTHING_ORDERED
    committed = stored.state == "committed"
    if stored.goal == "stop" or stored.profile is None:
        return Order(stored.id, Goal.STOP, drain=stored.drain, replaces=stored.replaces, committed=committed)
    order = Order(stored.id, Goal.RUN, stored.profile, resolving=True)
    if committed:
        return order
    before = journal.order_before(stored.id)
    previous = NOTHING_ORDERED
    if before is not None and before.goal == "run" and before.profile is not None:
        previous = Order(before.id, Goal.RUN, before.profile, resolving=True)
    return replace(
        order,
        drain=stored.drain,
        replaces=stored.replaces,
        committed=False,
        previous=previous,
        returns=stored.fallback is not None,
    )
