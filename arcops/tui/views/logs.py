"""The logs: the backend's and the supervisor's own, to be followed, searched and filtered."""

from bisect import bisect_right
from contextlib import suppress
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.timer import Timer
from textual.worker import Worker

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui.ask import Ask
from arcops.tui.ink import Lines, quiet
from arcops.tui.logs.book import Level, Logbook
from arcops.tui.logs.choose_launch import NEWEST, ChooseLaunch
from arcops.tui.logs.launches import launches
from arcops.tui.logs.reader import Reader
from arcops.tui.logs.stream import LogStream
from arcops.tui.panels.log_head import LogState, head
from arcops.tui.panels.silence import silence_of
from arcops.tui.sheet import Sheet
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import OnDemand
from arcops.tui.views.base import View

EVENTS = 2_000
"""Events that are looked through for earlier launches."""
SHOWN_EVERY = 0.5
"""Seconds for which lines are gathered before they are shown."""


class LogSheet(Sheet):
    """The head, and the rows that are in sight."""

    def __init__(self, view: "Logs") -> None:
        super().__init__(id="log-lines")
        self._view = view

    def lines(self, width: int, height: int) -> Lines:
        above = head(self._view.state, width)
        reader = self._view.reader
        rows = reader.rows(width, max(1, height - len(above)))
        if not rows:
            return (*above, (quiet(self._view.nothing),))
        return (*above, *(reader.ink(row, width) for row in rows))[:height]

    def scroll_rows(self, rows: int) -> None:
        self._view.move(rows)

    @property
    def page(self) -> tuple[int, int]:
        """Width and height of what is below the head."""
        width, height = self.room
        return width, max(1, height - len(head(self._view.state, width)))


class Logs(View):
    """One log at a time. Its lines stay readable when the daemon is gone."""

    NAME = "logs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask", "search", key_display="/", tooltip="search as you type; enter keeps it, esc ends it"),
        Binding("f,end,G", "follow", "follow", tooltip="follow the end of the log again"),
        Binding("e", "error", "error", tooltip="the first error in these lines"),
        Binding("l", "level", "level", tooltip="all lines, warnings and errors, errors alone"),
        Binding("b", "whose", "source", tooltip="the backend's log, or the supervisor's own"),
        Binding("p", "launch", "launches", tooltip="the log of an earlier launch"),
        Binding("z", "wrap", "wrap", tooltip="whole lines over several rows, or a row each"),
        Binding("n", "find(True)", "next", show=False, tooltip="the next line with what is searched"),
        Binding("N", "find(False)", "previous", show=False, tooltip="the line before with what is searched"),
        Binding("E", "next_error", "next error", show=False, tooltip="the error after the one in sight"),
        Binding("escape", "no_search", "end search", show=False, key_display="esc", tooltip="search no more"),
        Binding("up,k", "move(-1)", "up", show=False, tooltip="a row up; the log is not followed then"),
        Binding("down,j", "move(1)", "down", show=False, tooltip="a row down; at the end it is followed again"),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("home,g", "start", "first line", show=False),
        Binding("comma", "sideways(-1)", "left", show=False, key_display=",", tooltip="long lines: to the left"),
        Binding("full_stop", "sideways(1)", "right", show=False, key_display=".", tooltip="long lines: to the right"),
    ]

    def __init__(self, source: OnDemand) -> None:
        super().__init__(id=self.NAME)
        self._source = source
        self._book = Logbook()
        self.reader = Reader(self._book)
        self._stream = LogStream(source, self._book)
        self._silence = ""
        self._timer: Timer | None = None
        self._reading: Worker[None] | None = None
        self._sheet = LogSheet(self)
        self._before = self.reader.place
        """Where the reader stood when a search began."""
        self._ask = Ask("search; enter keeps it, esc ends it", self._search)
        self._log_path: tuple[str, str] | None = None
        """Launch and path of the running backend's log."""

    def compose(self) -> ComposeResult:
        yield self._sheet
        yield self._ask

    @property
    def state(self) -> LogState:
        book, stream, current = self._book, self._stream, self.reader.current
        place = None if current is None else bisect_right(book.found, current)
        return LogState(
            supervisor=stream.supervisor,
            launch_id=stream.launch,
            chosen=stream.chosen is not None,
            level=book.level,
            kept=book.kept,
            shown=len(book.shown),
            following=self.reader.following,
            new_lines=self.reader.new_lines,
            wrap=self.reader.wrap,
            needle=book.needle,
            found=len(book.found),
            current=place,
            problem=stream.problem or self._silence,
        )

    @property
    def nothing(self) -> str:
        """What stands where there are no lines."""
        if self._book.kept:
            return f"no {self._book.level.words} in these lines"
        if self._stream.problem:
            return "nothing was read"
        return "the log is empty" if self._stream.begun else "reading…"

    def show(self, snapshot: Snapshot) -> None:
        backend = None if snapshot.status is None else snapshot.status.backend
        self._log_path = None if backend is None else (backend.launch_id, backend.log_path)
        silence = silence_of(snapshot)
        if silence != self._silence:
            self._silence = silence
            self._sheet.redraw()

    def opened(self) -> None:
        super().opened()
        self._reading = self._read()

    def closed(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def copyable(self) -> tuple[tuple[str, str], ...]:
        """The line with what is searched, or the last one in sight; the launch, and where its log is."""
        rows = self.reader.rows(*self._sheet.page)
        found: list[tuple[str, str]] = []
        if self.reader.current is not None:
            with suppress(IndexError):
                found.append(("found line", self._book[self.reader.current].text))
        if rows:
            found.append(("last line in sight", rows[-1].line.text))
            seen = dict.fromkeys(row.line.number for row in rows)
            found.append(("lines in sight", "\n".join(self._book[number].text for number in seen)))
        launch = self._stream.launch
        if launch is not None and not self._stream.supervisor:
            found.append(("launch", launch))
            if self._log_path is not None and self._log_path[0] == launch:
                found.append(("path of the log", self._log_path[1]))
        return tuple(found)

    @work(exclusive=True, group="log")
    async def _read(self) -> None:
        await self._stream.read(self._changed)

    def _changed(self, at_once: bool) -> None:
        """Lines that come are gathered for a while before they are shown."""
        if at_once:
            self._sheet.redraw()
        elif self._timer is None:
            self._timer = self.set_timer(SHOWN_EVERY, self._show_lines)

    def _show_lines(self) -> None:
        self._timer = None
        self._sheet.redraw()

    def move(self, rows: int) -> None:
        """Down (up) by so many rows."""
        self.reader.move(rows, *self._sheet.page)
        self._sheet.redraw()

    def action_move(self, rows: int) -> None:
        self.move(rows)

    def action_page(self, pages: int) -> None:
        self.move(pages * max(1, self._sheet.page[1] - 1))

    def action_start(self) -> None:
        self.reader.to_start()
        self._sheet.redraw()

    def action_follow(self) -> None:
        self.reader.follow()
        self._sheet.redraw()

    def action_sideways(self, steps: int) -> None:
        self.reader.move_sideways(steps)
        self._sheet.redraw()

    def action_wrap(self) -> None:
        self.reader.wrap = not self.reader.wrap
        self.reader.pan = 0
        self._sheet.redraw()

    def action_level(self) -> None:
        """All, warnings and errors, errors."""
        self._book.filter(Level((self._book.level + 1) % len(Level)))
        self._sheet.redraw()

    def action_error(self) -> None:
        """Where the trouble began: what is told later often only follows from it."""
        self._go_to_error(self._book.first_error())

    def action_next_error(self) -> None:
        rows = self.reader.rows(*self._sheet.page)
        at = self.reader.marked if self.reader.marked is not None else rows[0].line.number if rows else -1
        self._go_to_error(self._book.next_error(at))

    def _go_to_error(self, number: int | None) -> None:
        if number is None:
            self.notify("no error in these lines", markup=False, timeout=3)
            return
        self.reader.marked = number
        self.reader.go_to(number, *self._sheet.page)
        self._sheet.redraw()

    def on_key(self, event: Key) -> None:
        """Before it is looked up what the key does."""
        self._ask.catch(event, self.action_ask)

    def action_ask(self) -> None:
        """Ask what to search for."""
        self._before = self.reader.place
        self._ask.ask(self._book.needle)

    def _search(self, needle: str) -> None:
        """Find what is typed so far, from where the reader stood before."""
        self._book.search(needle)
        self.reader.current = None
        self.reader.go_back(self._before)
        if needle:
            self.reader.find(*self._sheet.page, forward=not self.reader.following)
        self._sheet.redraw()

    def action_find(self, forward: bool) -> None:
        """The next (previous) line with what is searched."""
        if self._book.needle:
            self.reader.find(*self._sheet.page, forward=forward)
            self._sheet.redraw()
        else:
            self.action_ask()

    def action_no_search(self) -> None:
        """Search no more; while it is typed, back to where the reader stood before."""
        if self._ask.display:
            self.reader.go_back(self._before)
        self._book.search("")
        self.reader.current = self.reader.marked = None
        self._ask.leave()
        self._sheet.redraw()

    def action_whose(self) -> None:
        """The backend's log or the supervisor's own."""
        self._choose(supervisor=not self._stream.supervisor, chosen=self._stream.chosen)

    @work(exclusive=True, group="launches")
    async def action_launch(self) -> None:
        """Choose another launch's log."""
        try:
            history = await self._source.events(-EVENTS, EVENTS)
        except ArcopsError as error:
            self.notify(f"earlier launches are unknown: {words.clean(error.message)}", severity="error", markup=False)
            return
        dialog = ChooseLaunch(launches(history.events), self._stream.chosen)
        self.app.push_screen(dialog, self._chose)  # pyright: ignore[reportUnknownMemberType] - the application's type is open

    def _chose(self, launch: str | None) -> None:
        if launch is not None:
            self._choose(supervisor=False, chosen=None if launch == NEWEST else launch)

    def _choose(self, *, supervisor: bool, chosen: str | None) -> None:
        """Read another log from now on."""
        if self._stream.choose(supervisor=supervisor, chosen=chosen):
            self.reader.begin()
            self._reading = self._read()
            self._sheet.redraw()
