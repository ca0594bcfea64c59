"""Looks at port and card: too costly for every turn of the loop, so they run beside it, one at a time."""

import asyncio
from collections.abc import Callable

from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card, Holder, Port
from arcops.daemon.clock import Clock
from arcops.machine import port, process
from arcops.machine.gpu import Client, find_cards, reader_for

MIB = 1024 * 1024


class Looks:
    """The last look at the port and the cards of a launch; `look` makes a new one."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        nothing = Unknown("not looked yet", float("-inf"))
        self.port: Reading[Port] = nothing
        self.card: Reading[Card] = nothing

    def look(self, launch: Launch, ours: frozenset[int], pause: float = 0.0) -> None:
        """Begin a look unless one is under way; the loop is woken when it is done.

        `ours` are pids of our backend; `pause` are seconds to wait first, where there is no hurry.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(launch, ours, pause))

    async def _look(self, launch: Launch, ours: frozenset[int], pause: float) -> None:
        await asyncio.sleep(pause)
        # The time is taken before looking: what changes meanwhile must not pass for seen.
        at = self._clock.monotonic()
        self.port = await asyncio.to_thread(look_at_port, launch, ours, at)
        self.card = await asyncio.to_thread(look_at_cards, launch, ours, at)
        self._wake()

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])


def look_at_port(launch: Launch, ours: frozenset[int], at: float) -> Reading[Port]:
    """Who listens on the launch's port, and could it be bound?"""
    try:
        mine = bool(port.listener_pids(launch.port, ours))
        foreign = [one for one in port.listeners(launch.port) if one.pid is None or one.pid not in ours]
        bindable = mine or port.bindable(launch.host, launch.port) is None
    except OSError as error:
        return Unknown(f"port {launch.port} cannot be looked at: {error.strerror}", at)
    holders = tuple(Holder(one.pid, one.command, one.user, f"port {launch.port} ({one.address})") for one in foreign)
    return Known(Port(listeners=holders, ours=mine, bindable=bindable), at)


def look_at_cards(launch: Launch, ours: frozenset[int], at: float) -> Reading[Card]:
    """Who has memory of the launch's cards?"""
    if not launch.cards:
        return Known(Card(holders=(), unreadable=0), at)
    drivers = {card.address: card.driver for card in find_cards()}
    holders: list[Holder] = []
    unreadable = 0
    for address in launch.cards:
        reader = reader_for(drivers.get(address))
        if reader is None:
            driver = drivers.get(address) or "none"
            return Unknown(f"arcops cannot read who holds card {address} (driver: {driver})", at)
        clients, hidden = reader.holders([address])
        unreadable = max(unreadable, hidden)
        foreign = (client for client in clients if client.resident_bytes > 0 and not ours.intersection(client.pids))
        holders.extend(_holder(client) for client in foreign)
    return Known(Card(holders=tuple(holders), unreadable=unreadable), at)


def _holder(client: Client) -> Holder:
    pid = min(client.pids)
    command, user = process.describe(pid)
    return Holder(pid, command, user, f"{client.resident_bytes / MIB:,.0f} MiB of card {client.pdev}")
