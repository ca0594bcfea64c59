"""The card: its locks, who holds what of it, what befell it."""

import asyncio
from collections.abc import Callable
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
from arcops.tui.sheet import Pane
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import OnDemand
from arcops.tui.views.base import View

PAST = 5_000
"""Events of the past that are looked through."""
_MOST = 200
"""Events about the card that are kept."""
RETRY = 1.0


class Card(View):
    """Sections one below the other; more than there is room for is scrolled."""

    NAME = "card"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "look", "look again", tooltip="run the checks of the card again"),
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
        self._pane = Pane(id="card-pane")
        self._following: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        self._pane.tell(self._lines)

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pane.redraw()

    def opened(self) -> None:
        super().opened()
        self._following = self._follow()
        if not self._examination.findings:
            self.action_look()

    def closed(self) -> None:
        if self._following is not None:
            self._following.cancel()

    def copyable(self) -> tuple[tuple[str, str], ...]:
        """What there is to copy."""
        status = None if self._snapshot is None else self._snapshot.status
        locks = () if status is None else status.locks
        found = [("card", address) for address in card.cards(locks)]
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
        facts = card.CardFacts(
            snapshot=self._snapshot,
            findings=self._examination.findings,
            looked=self._examination.told,
            look_problem=self._examination.problem,
            events=self._events,
            events_told=f"no new ones: {self._events_problem}" if self._events_problem else events_told,
        )
        return card.lines(facts, width)

    @work(exclusive=True, group="events")
    async def _follow(self) -> None:
        while True:
            try:
                page = (await self._source.events(-PAST, PAST)).events
                self._events = [event for event in page if card.is_about_card(event)]
                self._events_read, self._events_problem = True, ""
                self._pane.redraw()
                async for event in self._source.follow_events(page[-1].id if page else 0):
                    if card.is_about_card(event):
                        self._events = [*self._events[-_MOST:], event]
                        self._pane.redraw()
                self._events_problem = "the daemon has ended"
            except ArcopsError as error:
                self._events_problem = words.clean(error.message)
            self._pane.redraw()
            await asyncio.sleep(RETRY)

    def action_look(self) -> None:
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
