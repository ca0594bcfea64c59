"""The card: its locks, who holds what of it, what befell it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui.checks.examination import Examination
from arcops.tui.ink import Lines
from arcops.tui.panels import card
from arcops.tui.panels.card_facts import CardFacts
from arcops.tui.panels.card_past import is_about_card
from arcops.tui.sheet import Pane
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import OnDemand
from arcops.tui.views.base import View

PAST = 5_000
"""Events of the past that are looked through."""
_MOST = 200
"""Events about the card that are kept."""
RETRY = 1.0
EVERY = 2.0
"""Seconds between two questions about the cards, while they are shown."""


class Card(View):
    """Sections one below the other; more than there is room for is scrolled."""

    NAME = "card"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "look", "look", tooltip="look at every process that may hold the card, and run its checks again"),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "end(False)", "top", show=False),
        Binding("end,G", "end(True)", "bottom", show=False),
    ]

    def __init__(self, source: OnDemand, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(id=self.NAME)
        self._source = source
        self._examination = Examination(source, card.CHECKS, clock)
        self._snapshot: Snapshot | None = None
        self._events: list[wire.Event] = []
        self._events_read = False
        self._events_problem = ""
        self._cards: wire.Cards | None = None
        self._cards_problem = ""
        self._everybody = False
        """Every process is to be looked at with the next question."""
        self._looking = False
        self._ask_now = asyncio.Event()
        self._pane = Pane(id="card-pane")
        self._working: tuple[Worker[None], ...] = ()

    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        self._pane.tell(self._lines)

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pane.redraw()

    def opened(self) -> None:
        super().opened()
        self._working = (self._follow(), self._ask_cards())
        if not self._examination.findings:
            self._examine()

    def closed(self) -> None:
        for worker in self._working:
            worker.cancel()

    def copyable(self) -> tuple[tuple[str, str], ...]:
        """What there is to copy."""
        status = None if self._snapshot is None else self._snapshot.status
        locks = () if status is None else status.locks
        known = () if self._cards is None else self._cards.cards
        found = [("card", words.clean(one.address)) for one in known]
        found += [("card", address) for address in card.cards(locks) if ("card", address) not in found]
        found += [("mask", words.clean(one.mask)) for one in known if one.mask]
        found += [("lock", words.clean(lock)) for lock in locks]
        found += [
            (f"what to do about {finding.name}", words.clean(finding.remedy))
            for finding in self._examination.findings
            if finding.remedy
        ]
        return tuple(found)

    def _lines(self, width: int, height: int) -> Lines:
        del height
        if self._snapshot is None:
            return ()
        events_told = "" if self._events_read else "reading…"
        facts = CardFacts(
            snapshot=self._snapshot,
            findings=self._examination.findings,
            looked=self._examination.told,
            look_problem=self._examination.problem,
            events=self._events,
            events_told=f"no new ones: {self._events_problem}" if self._events_problem else events_told,
            cards=self._cards,
            cards_problem=self._cards_problem,
            looking=self._looking,
        )
        return card.lines(facts, width)

    @work(exclusive=True, group="events")
    async def _follow(self) -> None:
        while True:
            try:
                page = (await self._source.events(-PAST, PAST)).events
                self._events = [event for event in page if is_about_card(event)]
                self._events_read, self._events_problem = True, ""
                self._pane.redraw()
                async for event in self._source.follow_events(page[-1].id if page else 0):
                    if is_about_card(event):
                        self._events = [*self._events[-_MOST:], event]
                        self._pane.redraw()
                self._events_problem = "the daemon has ended"
            except ArcopsError as error:
                self._events_problem = words.clean(error.message)
            self._pane.redraw()
            await asyncio.sleep(RETRY)

    @work(exclusive=True, group="cards")
    async def _ask_cards(self) -> None:
        while True:
            self._ask_now.clear()
            self._looking, self._everybody = self._everybody, False
            if self._looking:
                self._pane.redraw()
            try:
                self._cards, self._cards_problem = await self._source.cards(everybody=self._looking), ""
            except ArcopsError as error:
                self._cards_problem = words.clean(error.message)
            self._looking = False
            self._pane.redraw()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ask_now.wait(), EVERY)

    def action_look(self) -> None:
        """Have the daemon look at every process, and the doctor at the machine."""
        self._everybody = True
        self._ask_now.set()
        self._examine()

    def _examine(self) -> None:
        """Have the doctor look; nothing where it does already."""
        if not self._examination.running:
            self._look()

    @work(exclusive=True, group="checks")
    async def _look(self) -> None:
        await self._examination.run(self._pane.redraw)

    def action_move(self, rows: int) -> None:
        self._pane.scroll_rows(rows)

    def action_page(self, pages: int) -> None:
        self._pane.scroll_rows(pages * max(1, self._pane.room[1] - 1))

    def action_end(self, last: bool) -> None:
        self._pane.to_end(last=last)
