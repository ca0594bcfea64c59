"""Looks at port and card: too costly for every turn of the loop, so they run beside it, one at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card, Holder, Port
from arcops.daemon.clock import Clock
from arcops.machine import port, process
from arcops.machine.gpu import Client, find_cards, reader_for

MIB = 1024 * 1024

Subject: TypeAlias = tuple[str, int, tuple[str, ...]]
"""What a look is at: host, port and cards. One at another subject says nothing about a launch."""

_NOTHING = Unknown("not looked yet", float("-inf"))


class Looks:
    """The last look at the port and the cards of a launch; `look` makes a new one, `seen` gives what it saw."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._looking_at: Subject | None = None
        self._subject: Subject | None = None
        self._port: Reading[Port] = _NOTHING
        self._card: Reading[Card] = _NOTHING

    def seen(self, launch: Launch | None) -> tuple[Reading[Port], Reading[Card]]:
        """The last look at what this launch needs; "not looked yet" where it was at something else."""
        if launch is None or subject_of(launch) != self._subject:
            return _NOTHING, _NOTHING
        return self._port, self._card

    def look(self, launch: Launch, ours: Callable[[], frozenset[int]], pause: float = 0.0) -> None:
        """Begin a look unless one at the same is under way; the loop is woken when it is done.

        `ours` gives the pids of our backend (called in a thread, may raise OSError); `pause` are seconds to wait first,
        where there is no hurry.
        """
        subject = subject_of(launch)
        if self._task is not None and not self._task.done():
            if self._looking_at == subject:
                return
            self._task.cancel()
        self._looking_at = subject
        self._task = asyncio.create_task(self._look(launch, ours, pause))

    async def _look(self, launch: Launch, ours: Callable[[], frozenset[int]], pause: float) -> None:
        await asyncio.sleep(pause)
        # The time is taken before looking: what changes meanwhile must not pass for seen.
        at = self._clock.monotonic()
        try:
            port = await asyncio.to_thread(look_at_port, launch, ours, at)
            card = await asyncio.to_thread(look_at_cards, launch, ours, at)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with a look, the loop must hear that it did
            port = card = Unknown(f"port and card cannot be looked at: {type(error).__name__} {error}", at)
        self._subject, self._port, self._card = subject_of(launch), port, card
        self._wake()

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])


def subject_of(launch: Launch) -> Subject:
    return launch.host, launch.port, launch.cards


def look_at_port(launch: Launch, ours: Callable[[], frozenset[int]], at: float) -> Reading[Port]:
    """Who listens on the launch's port, and could it be bound?

    Ours are asked for after the scan: a child that our backend forks meanwhile shares its socket, and is no stranger.
    One that has ended since then holds nothing.
    """
    try:
        found = port.listeners(launch.port)
        own = ours() if found else frozenset[int]()
        foreign = [one for one in found if one.pid is None or (one.pid not in own and not _ended(one.pid))]
        bindable = any(one.pid in own for one in found) or port.bindable(launch.host, launch.port) is None
    except OSError as error:
        return Unknown(f"port {launch.port} cannot be looked at: {error.strerror}", at)
    mine = any(one.pid in own for one in found if one.listens)
    holders = tuple(Holder(one.pid, one.command, one.user, f"port {launch.port} ({one.address})") for one in foreign)
    return Known(Port(listeners=holders, ours=mine, bindable=bindable), at)


def look_at_cards(launch: Launch, ours: Callable[[], frozenset[int]], at: float) -> Reading[Card]:
    """Who has memory of the launch's cards?"""
    if not launch.cards:
        return Known(Card(holders=(), unreadable=0), at)
    try:
        return _look_at_cards(launch, ours, at)
    except OSError as error:
        return Unknown(f"who holds {', '.join(launch.cards)} cannot be looked at: {error.strerror}", at)


def _look_at_cards(launch: Launch, ours: Callable[[], frozenset[int]], at: float) -> Reading[Card]:
    """Ours are asked for after the scan, as with the port. Raises OSError."""
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
        own = ours() if clients else frozenset[int]()
        foreign = (client for client in clients if client.resident_bytes > 0 and not own.intersection(client.pids))
        holders.extend(_holder(client) for client in foreign)
    return Known(Card(holders=tuple(holders), unreadable=unreadable), at)


def _ended(pid: int) -> bool:
    return process.identify(pid) is None


def _holder(client: Client) -> Holder:
    pid = min(client.pids)
    command, user = process.describe(pid)
    return Holder(pid, command, user, f"{client.resident_bytes / MIB:,.0f} MiB of card {client.pdev}")
