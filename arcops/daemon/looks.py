"""Looks at port and card: too costly for every turn of the loop, so they run beside it, one at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, T, Unknown
from arcops.core.world import Card, Holder, Port
from arcops.daemon.aside import Aside
from arcops.daemon.card_memory import CardMemory
from arcops.daemon.clock import Clock
from arcops.machine import port, process
from arcops.machine.gpu import Asker, find_cards

LOOKS_APART = 0.15
"""Seconds from one look to the next: the two see a card whose memory is on its way back differ."""
LOOK_WITHIN = 90.0
"""Seconds that a look at port or cards may take; it takes some ten milliseconds, and in a hung driver for ever."""

Subject: TypeAlias = tuple[str, int, tuple[str, ...]]
"""What a look is at: host, port and cards. One at another subject says nothing about a launch."""

_NOTHING = Unknown("not looked yet", float("-inf"))


class Looks:
    """The last look at the port and the cards of a launch; `look` makes a new one, `seen` gives what it saw."""

    def __init__(
        self,
        clock: Clock,
        wake: Callable[[], None],
        memory: CardMemory | None = None,
        within: float = LOOK_WITHIN,
    ) -> None:
        self.memory = memory or CardMemory()
        self._at_port, self._at_cards = Aside[Reading[Port]](within), Aside[Reading[Card]](within)
        self._asker = Asker()
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
        if isinstance(self._card, Unknown):
            return self._port, self._card
        return self._port, Known(self.memory.compared(self._card.value), self._card.at)

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
        if subject == self._subject and launch.cards:
            pause = max(pause, self._card.at + LOOKS_APART - self._clock.monotonic())
        self._task = asyncio.create_task(self._look(launch, ours, pause))

    async def glance(self, launch: Launch, ours: Callable[[], frozenset[int]]) -> tuple[Reading[Port], Reading[Card]]:
        """One look for somebody who waits for it, before an order. Whatever goes wrong with it is an absence."""
        at = self._clock.monotonic()
        return (
            await _within(self._at_port, lambda: look_at_port(launch, ours, at), f"port {launch.port}", at),
            await self._at_launch_cards(launch, ours, at),
        )

    async def _at_launch_cards(self, launch: Launch, ours: Callable[[], frozenset[int]], at: float) -> Reading[Card]:
        looked = await _within(
            self._at_cards, lambda: look_at_cards(launch, ours, at, self._asker, self.memory), "the card", at
        )
        return looked if isinstance(looked, Unknown) else Known(self.memory.compared(looked.value), looked.at)

    async def _look(self, launch: Launch, ours: Callable[[], frozenset[int]], pause: float) -> None:
        await asyncio.sleep(pause)
        self._port, self._card = await self.glance(launch, ours)
        self._subject = subject_of(launch)
        self._wake()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


async def _within(aside: Aside[Reading[T]], look: Callable[[], Reading[T]], what: str, at: float) -> Reading[T]:
    """What `look` sees. `at` is from before it: what changes meanwhile must not pass for seen."""
    try:
        return await aside.run(look)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a look, whoever waits must hear that it did
        return Unknown(f"{what} cannot be looked at: {type(error).__name__} {error}", at)


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


def look_at_cards(
    launch: Launch, ours: Callable[[], frozenset[int]], at: float, asker: Asker, memory: CardMemory
) -> Reading[Card]:
    """Who has memory of the launch's cards, and do they answer?"""
    if not launch.cards:
        return Known(Card(), at)
    try:
        return _look_at_cards(launch, ours, at, asker, memory)
    except OSError as error:
        return Unknown(f"who holds {', '.join(launch.cards)} cannot be looked at: {error.strerror}", at)


def _look_at_cards(
    launch: Launch, ours: Callable[[], frozenset[int]], at: float, asker: Asker, memory: CardMemory
) -> Reading[Card]:
    """Raises OSError."""
    cards = {card.address: card for card in find_cards()}
    # Gone, or with no driver: nobody has memory there, and it is no card to launch on (`fault` says so).
    bound = [card for card in map(cards.get, launch.cards) if card is not None and card.driver is not None]
    seen = memory.look(bound, at, ours)
    if isinstance(seen, Unknown):
        return seen
    fault = asker.fault(cards, launch.cards)
    words, wedged = ("", False) if fault is None else (fault.words, fault.wedged)
    return Known(Card(seen.value, fault=words, wedged=wedged), at)


def _ended(pid: int) -> bool:
    return process.identify(pid) is None
