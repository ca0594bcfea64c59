"""The history with its reasons, and the server's numbers around what happened."""

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Key
from textual.timer import Timer
from textual.worker import Worker

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui.ask import Ask
from arcops.tui.event_book import EventBook
from arcops.tui.ink import Line, Lines
from arcops.tui.panels import event_detail, event_list
from arcops.tui.panels.incident import AROUND, Numbers
from arcops.tui.panels.silence import silence_of
from arcops.tui.sheet import Rows
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import OnDemand
from arcops.tui.views.listed import Listed

PAST = 5_000
"""Events of the past that are asked for at first."""
NUMBERS_AFTER = 0.2
"""Seconds that an event is selected before the numbers around it are asked for: keys that run past it ask nothing."""
SHOWN_EVERY = 0.25
RETRY = 1.0


class Events(Listed):
    """A list, and all about the selected one."""

    NAME = "events"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "ask", "filter", key_display="/", tooltip="show those with these words: a kind, phase, cause, …"
        ),
        Binding("p", "problems", "problems", tooltip="only what somebody should know of, or all"),
        Binding("o", "order", "order", tooltip="newest first, or last"),
        Binding("escape", "no_filter", "all events", show=False, key_display="esc", tooltip="all events again"),
    ]

    def __init__(self, source: OnDemand) -> None:
        super().__init__("event-list", "event")
        self._source = source
        self._book = EventBook()
        self._problem = ""
        self._read = False
        """The past was read."""
        self._snapshot: Snapshot | None = None
        self._numbers: Numbers | None = None
        self._timer: Timer | None = None
        self._following: Worker[None] | None = None
        self._asking: Worker[None] | None = None
        self._rows.put_above(
            lambda width: event_list.head(self._book, self._problem or silence_of(self._snapshot), width)
        )
        self._ask = Ask("words that all must be there: a kind, phase, profile, cause, …; esc ends it", self._filter)

    def compose(self) -> ComposeResult:
        with Container(classes="parts"):
            yield self._rows
            yield self._pane
        yield self._ask

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows.redraw()
        self._pane.redraw()

    def opened(self) -> None:
        super().opened()
        self._numbers = None
        self._list()
        self._following = self._follow()

    def closed(self) -> None:
        for worker in (self._following, self._asking):
            if worker is not None:
                worker.cancel()

    def copyable(self) -> tuple[tuple[str, str], ...]:
        """What there is to copy of the selected event."""
        event = self._selected
        if event is None:
            return ()
        status = None if self._snapshot is None else self._snapshot.status
        found = (
            ("reason", words.clean(event.reason)),
            ("what to do", event_detail.hint_of(event, status)),
            ("cause", event.cause or ""),
            ("launch", event.launch_id or ""),
        )
        return tuple((label, value) for label, value in found if value)

    @property
    def _selected(self) -> wire.Event | None:
        return self._book.at(self._rows.selected)

    @work(exclusive=True, group="events")
    async def _follow(self) -> None:
        while True:
            try:
                await self._read_past()
                async for event in self._source.follow_events(self._book.last_id):
                    self._problem = ""
                    self._take(event)
                    if self._timer is None:
                        self._timer = self.set_timer(SHOWN_EVERY, self._list)
                self._problem = "the daemon has ended"
            except ArcopsError as error:
                self._problem = words.clean(error.message)
            self._list()
            await asyncio.sleep(RETRY)

    async def _read_past(self) -> None:
        """Once; and again where the history is another one: its ids have begun anew, or a recording was wound back."""
        if self._read:
            newest = (await self._source.events(-1, 1)).events
            if not newest or newest[-1].id >= self._book.last_id:
                self._problem = ""
                self._list()
                return
            self._book.clear()
        for event in (await self._source.events(-PAST, PAST)).events:
            self._take(event)
        self._read, self._problem = True, ""
        self._list()

    def _take(self, event: wire.Event) -> None:
        """Whoever has the newest selected goes on with the newest; any other selection stays where it is."""
        selected, newest = self._selected, self._book.following(self._rows.selected)
        self._book.add(event)
        if selected is None or newest:
            self._rows.selected = 0 if self._book.newest_first else max(0, self._book.count - 1)
        else:
            self._rows.selected = self._book.row_of(selected.id)

    def _list(self) -> None:
        """Show the list anew, and all about the event that is selected now."""
        self._timer = None
        if self._book.count == 0 and len(self._book):
            nothing = "no event is like that"
        else:
            nothing = "nothing was read" if self._problem else "no events yet" if self._read else "reading…"
        self._rows.tell(self._book.count, self._row, self._rows.selected, nothing)
        self._detail()

    def _row(self, number: int, width: int) -> Line:
        event = self._book.at(number)
        return () if event is None else event_list.row(event, width)

    def _detail(self) -> None:
        event = self._selected
        if event is None:
            self._numbers = None
            self._pane.tell(lambda _, __: (), from_top=True)
            return
        if self._numbers is not None and self._numbers.at == event.at:
            self._pane.redraw()
            return
        self._numbers = Numbers(event.at)
        self._pane.tell(self._lines, from_top=True)
        self._asking = self._ask_numbers(event.at)

    def _lines(self, width: int, height: int) -> Lines:
        event, snapshot = self._selected, self._snapshot
        if event is None or snapshot is None or self._numbers is None:
            return ()
        before = self._book.before(event)
        return event_detail.lines(event, before, snapshot.status, self._numbers, snapshot.now, width, height)

    @work(exclusive=True, group="numbers")
    async def _ask_numbers(self, at: float) -> None:
        """For an event that has just happened, again when the minute after it is over."""
        await asyncio.sleep(NUMBERS_AFTER)
        while True:
            try:
                # From earlier on: a minute's mean is told where the minute begins.
                numbers = Numbers(at, samples=await self._source.samples(at - 2 * AROUND, at + AROUND))
            except ArcopsError as error:
                numbers = Numbers(at, problem=words.clean(error.message))
            self._numbers = numbers
            self._pane.redraw()
            now = 0.0 if self._snapshot is None else self._snapshot.now
            if now > at + AROUND + 2 or numbers.problem:
                return
            await asyncio.sleep(5.0)

    def on_rows_selected(self, message: Rows.Selected) -> None:
        message.stop()
        self._detail()

    def action_problems(self) -> None:
        """Only what somebody should know of, or all."""
        self._choose(self._book.text, problems_only=not self._book.problems_only)

    def action_order(self) -> None:
        """Newest first, or last."""
        selected = self._selected
        self._book.newest_first = not self._book.newest_first
        self._select(selected)

    def on_key(self, event: Key) -> None:
        """Before it is looked up what the key does."""
        self._ask.catch(event, self.action_ask)

    def action_ask(self) -> None:
        self._ask.ask(self._book.text)

    def action_no_filter(self) -> None:
        """All events again."""
        self._ask.leave()
        self._choose("", problems_only=False)

    def _filter(self, text: str) -> None:
        self._choose(text, problems_only=self._book.problems_only)

    def _choose(self, text: str, *, problems_only: bool) -> None:
        selected = self._selected
        self._book.filter(text, problems_only=problems_only)
        self._select(selected)

    def _select(self, event: wire.Event | None) -> None:
        """Have this one selected, or its neighbour."""
        self._rows.selected = 0 if event is None else self._book.row_of(event.id)
        self._list()
