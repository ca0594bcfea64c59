"""The cards' last readings: sampled beside the loop, for status, metrics, history, and `/v1/cards`.

Whatever touches a card is done on a thread, and at most once at a time for each: a driver that hangs holds up its own
card's page alone, which then says for how long. Nobody's answer waits longer than `ANSWER_WITHIN`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from arcops import wire
from arcops.cards.look import lock_path
from arcops.cards.message import Card, Numbering, Writer, figures_of
from arcops.core.cards.figures import NO_FIGURES, Figures, together
from arcops.core.cards.holders import Census
from arcops.core.cards.incidents import Incident
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Known, Reading, Unknown
from arcops.daemon.aside import Aside
from arcops.daemon.card_page import READ_WITHIN, Page, fault
from arcops.daemon.clock import Clock
from arcops.machine.gpu import CardIdentity, find_cards
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.gpu.census import readings

EVERY: Final = 2.0
"""Seconds between two readings while a backend lives, or a client looks."""
SELDOM: Final = 30.0
"""The same while nobody does."""
LOOKED_FOR: Final = 10.0
"""Seconds for which a client that has asked counts as one that looks: streams ask once a second."""
COUNT_EVERY: Final = 10.0
"""Seconds between two looks at what our own backend holds."""
COUNT_WITHIN: Final = 30.0
"""Seconds for a look at who holds the cards: it takes tenths of one where there are thousands of processes."""
FRESH: Final = 1.0
"""Seconds for which what was read is not read again at a client's word."""
NAMED_AGAIN: Final = 10.0
"""Seconds for which the name of a lock's holder is kept: finding it reads every process's descriptors."""
ANSWER_WITHIN: Final = 4.0
"""Seconds after which a client is told what there is: more than `READ_WITHIN`, so that it hears of what hangs."""
RATE_AFTER: Final = 0.25
"""Seconds between the first two readings of a card, at a client's word: power and use come of two."""
OLD_AFTER: Final = 3 * EVERY
"""Seconds after which a reading is none of the second that the history tells."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Concern:
    """What the supervisor has to do with cards now."""

    cards: tuple[str, ...] = ()
    """Of what runs or is ordered."""
    alive: bool = False
    """There is a backend."""
    locks: tuple[str, ...] = ()
    """Paths that the supervisor or its backend holds locked."""
    allowed: tuple[str, ...] = ()
    """Commands that the profile lets hold memory."""


def _nothing(_address: str) -> None:
    """Where nobody knows."""


def _no_incidents(_address: str) -> tuple[Incident, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Sources:
    """What others know. All but `ours` is asked on the loop, and costs nothing."""

    concern: Callable[[], Concern]
    ours: Callable[[], frozenset[int]]
    """Pids of our backend; from any thread. Raises OSError."""
    looked: Callable[[str], Census | None] = _nothing
    """The last look at a card's holders before a launch or after a stop."""
    baseline: Callable[[str], int | None] = _nothing
    """Bytes that a card has in use when nobody holds any."""
    incidents: Callable[[str], tuple[Incident, ...]] = _no_incidents
    resets: Callable[[str], int | None] = _nothing
    watching: Callable[[], str] = lambda: "cannot watch, because nothing does"
    read: Callable[[CardReading], None] = lambda _reading: None
    """Is told of each reading: a card may say in it what befell it."""


class CardBook:
    """A page for each card that was of concern, or asked for."""

    def __init__(self, clock: Clock, sources: Sources, roots: Roots = MACHINE) -> None:
        self._clock = clock
        self._sources = sources
        self._roots = roots
        self._pages: dict[str, Page] = {}
        self._all: tuple[CardIdentity, ...] = ()
        self._turn = asyncio.Event()
        self._looked_at = float("-inf")
        self._finding = Aside[tuple[CardIdentity, ...]](READ_WITHIN, at_once=1)
        self._counting = {kind: Aside[dict[str, Reading[Census]]](COUNT_WITHIN, at_once=1) for kind in (True, False)}
        self._counts: dict[bool, asyncio.Task[None]] = {}
        self._counted_at = float("-inf")
        self._search: asyncio.Task[None] | None = None
        self._naming: asyncio.Task[None] | None = None

    # -- what is known, at once ---------------------------------------------------------------------------------------
    def glances(self) -> tuple[wire.CardGlance, ...]:
        """The cards of what runs or is ordered, for a client that looks at a status."""
        self._touch()
        concern, writer = self._sources.concern(), self._writer()
        return tuple(writer.glance(self._card(self._pages[one])) for one in concern.cards if one in self._pages)

    def figures(self) -> Figures:
        """The same cards together, for the history; of those that were not read lately nothing is known."""
        now, addresses = self._clock.monotonic(), self._sources.concern().cards
        readings = [self._pages[one].reading for one in addresses if one in self._pages]
        if len(readings) < len(addresses):
            return NO_FIGURES
        return together([NO_FIGURES if now - one.at > OLD_AFTER else figures_of(one) for one in readings])

    def told(self) -> wire.Cards:
        """Every page, by address."""
        writer = self._writer()
        cards = tuple(writer.info(self._card(self._pages[address])) for address in sorted(self._pages))
        return wire.Cards(at=self._clock.wall(), cards=cards, watching=self._sources.watching())

    def _card(self, page: Page) -> Card:
        now, sources = self._clock.monotonic(), self._sources
        return Card(
            identity=page.identity,
            reading=page.reading,
            census=page.census(sources.looked(page.address), now),
            baseline=sources.baseline(page.address),
            lock=Known("this supervisor and its backend", now) if self._is_locked_by_us(page) else page.lock,
            incidents=sources.incidents(page.address),
            resets=sources.resets(page.address),
        )

    def _is_locked_by_us(self, page: Page) -> bool:
        return lock_path(page.address, self._roots) in self._sources.concern().locks

    def _writer(self) -> Writer:
        return Writer(self._clock.to_wall, Numbering(self._all), frozenset(self._sources.concern().allowed))

    # -- what goes on -------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Sample until cancelled; a fault of ours costs one turn's numbers."""
        try:
            while True:
                self._turn.clear()
                alive = False
                try:
                    concern = self._sources.concern()
                    alive = concern.alive
                    await self._begin(concern)
                except Exception:  # noqa: BLE001 - the next turn may go well, and none would come after it
                    _log.exception("cards")
                busy = alive or self._clock.monotonic() - self._looked_at < LOOKED_FOR
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY if busy else SELDOM):
                        await self._turn.wait()
        finally:
            self._close()

    async def look(self, *, everybody: bool) -> wire.Cards:
        """All cards of the machine as they are now, as far as that is known in time."""
        self._touch()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN):
                await _landed([self._found()])
                await self._look(everybody=everybody)
        return self.told()

    async def _look(self, *, everybody: bool) -> None:
        now = self._clock.monotonic()
        pages = [self._page(address) for address in sorted({*(one.address for one in self._all), *self._pages})]
        tasks = [page.read_again() for page in pages if now - page.reading.at > FRESH]
        if everybody:
            tasks.append(self._count(everybody=True))
        nameless = [page for page in pages if now - page.lock.at > NAMED_AGAIN and not self._is_locked_by_us(page)]
        if nameless:
            tasks.append(self._name(nameless))
        await _landed(tasks)
        again = [page for page in pages if page.looks == 1]
        if again:
            await asyncio.sleep(RATE_AFTER)
            await _landed([page.read_again() for page in again])

    def _close(self) -> None:
        for task in (*self._counts.values(), self._search, self._naming):
            if task is not None:
                task.cancel()
        for page in self._pages.values():
            page.close()

    def _touch(self) -> None:
        """A client looks."""
        now = self._clock.monotonic()
        if now - self._looked_at >= LOOKED_FOR:
            self._turn.set()
        self._looked_at = now

    async def _begin(self, concern: Concern) -> None:
        """What is due now; nothing of it is waited for, but for which cards there are, the first time."""
        if not concern.cards:
            return
        if not self._all:
            await _landed([self._found()])
        for address in concern.cards:
            self._page(address).read_if_due()
        if concern.alive and self._clock.monotonic() - self._counted_at >= COUNT_EVERY:
            self._counted_at = self._clock.monotonic()
            self._count(everybody=False)

    def _page(self, address: str) -> Page:
        if address not in self._pages:
            nameless = CardIdentity(address, vendor=0, device=0, driver=None, name=None, render_node=None)
            identity = next((one for one in self._all if one.address == address), nameless)
            self._pages[address] = Page(identity, self._clock, self._roots, self._sources.read)
        return self._pages[address]

    def _found(self) -> "asyncio.Task[None]":
        """The search for cards that is under way, or a new one."""
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._find())
        return self._search

    async def _find(self) -> None:
        """Which cards there are; those of before, where nobody can say in time."""
        with suppress(TimeoutError, OSError):
            self._all = await self._finding.run(partial(find_cards, self._roots.sys))

    # -- who holds them -----------------------------------------------------------------------------------------------
    def _count(self, *, everybody: bool) -> "asyncio.Task[None]":
        """The look at who holds the cards that is under way, or a new one."""
        task = self._counts.get(everybody)
        if task is None or task.done():
            task = self._counts[everybody] = asyncio.create_task(self._take(everybody=everybody))
        return task

    async def _take(self, *, everybody: bool) -> None:
        at, ours = self._clock.monotonic(), self._sources.ours
        concern = self._sources.concern().cards
        wanted = [page for page in self._pages.values() if everybody or page.address in concern]
        cards = [page.identity for page in wanted]

        def take() -> dict[str, Reading[Census]]:
            return readings(cards, at, ours, None if everybody else ours(), self._roots)

        found: dict[str, Reading[Census]] = {}
        missing = Unknown("its driver says nothing of who holds it", at)
        try:
            found = await self._counting[everybody].run(take)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear that it came to nothing
            missing = fault("who holds it", error, at)
        for page in wanted:
            seen = found.get(page.address, missing)
            if everybody:
                page.everybody = seen
            else:
                page.own = seen

    def _name(self, pages: Sequence[Page]) -> "asyncio.Task[None]":
        """Who has the locks: the search that is under way, or a new one."""
        if self._naming is None or self._naming.done():
            self._naming = asyncio.create_task(_find_holders(pages))
        return self._naming


async def _find_holders(pages: Sequence[Page]) -> None:
    for page in pages:
        await page.find_lock_holder()


async def _landed(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Wait for these; they go on where the wait is given up."""
    waiting = list(tasks)
    if waiting:
        await asyncio.wait(waiting)
