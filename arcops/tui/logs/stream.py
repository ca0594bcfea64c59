"""Fills a book with one log: its past, then what comes; over breaks, and from launch to launch."""

import asyncio
from collections.abc import Callable

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui.logs.book import Logbook
from arcops.tui.source import OnDemand

LINES = 10_000
"""Lines of the past that are asked for: as many as the daemon gives."""
RETRY = 1.0
"""Seconds between tries, where nothing is to be had."""
_AT_ONCE = 500
"""Lines that are taken in before anything else may be done: some milliseconds."""


class LogStream:
    """Which log is read, and how that goes."""

    def __init__(self, source: OnDemand, book: Logbook) -> None:
        self._source, self._book = source, book
        self.supervisor = False
        """The supervisor's own log; else a backend's."""
        self.chosen: str | None = None
        """The launch that was chosen; None for the newest, and those after it."""
        self.launch: str | None = None
        """Of the lines that came last."""
        self.problem = ""
        """Why no lines come; empty where they do."""
        self.begun = False
        """Something was read of this log."""

    def choose(self, *, supervisor: bool, chosen: str | None) -> bool:
        """Another log from the next `read` on: the book is emptied. False where it is the same."""
        if (supervisor, chosen) == (self.supervisor, self.chosen):
            return False
        self.supervisor, self.chosen, self.launch = supervisor, chosen, chosen
        self.problem, self.begun = "", False
        self._book.clear()
        return True

    async def read(self, changed: Callable[[bool], None]) -> None:
        """Read until cancelled. `changed` is told whether it matters at once, or is only lines that came."""
        while True:
            anew = True
            try:
                launch = None if self.supervisor else self.chosen
                async for message in self._source.follow_logs(LINES, launch, supervisor=self.supervisor):
                    self.problem = ""
                    await self._take(message, anew)
                    changed(anew)
                    anew = False
                self.problem = "the daemon has ended"
            except ArcopsError as error:
                self.problem = words.clean(error.message)
            changed(True)
            await asyncio.sleep(RETRY)

    async def _take(self, message: wire.LogLines, anew: bool) -> None:
        """Put the lines of one message into the book; the first one of a stream tells the past again."""
        same, first = message.launch_id == self.launch, not self.begun
        self.launch, self.begun = message.launch_id, True
        new = self._book.unread(message.lines) if anew and same and not first else message.lines
        if new is None:
            self._book.divide("the stream was broken here; lines may be lacking")
            new = message.lines
        elif not same and not first:
            self._book.divide(f"launch {message.launch_id or 'none'}")
        for start in range(0, len(new), _AT_ONCE):
            self._book.add(new[start : start + _AT_ONCE])
            await asyncio.sleep(0)
