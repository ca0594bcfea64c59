"""The supervisor's own log, its last lines kept for the screen. All of it goes to stderr, and so into the journal."""

import logging
import threading
from collections import deque
from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any, Final

import structlog
from structlog.processors import format_exc_info

LINES: Final = 1_000
"""That are kept."""
LONGEST: Final = 2_000
"""Characters of one line."""
_NOT_TEXT: Final = frozenset({"event", "level", "timestamp", "exception", "exc_info", "stack"})

# structlog's own word for what an event holds: anything that a caller says.
Said = MutableMapping[str, Any]


class OwnLog:
    """A ring of lines, `WARNING 11-30 18:05:01 [arcopsd] text` as vLLM writes them. Any thread may write and read."""

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        self._now = now
        self._lines: deque[str] = deque(maxlen=LINES)
        self._written = 0
        self._guard = threading.Lock()

    def __call__(self, logger: object, method: str, said: Said) -> Said:
        """A processor of structlog, behind the one that adds the level; changes nothing."""
        level = str(said.get("level", method)).upper()
        text = " ".join((str(said.get("event", "")), *(f"{k}={said[k]}" for k in said if k not in _NOT_TEXT)))
        # A copy: the renderer formats it in its own way.
        trace = str(format_exc_info(None, method, dict(said)).get("exception", ""))
        for line in (*text.splitlines(), *trace.splitlines()):
            self.add(level, line)
        return said

    def add(self, level: str, text: str) -> None:
        """Keep one line."""
        line = f"{level} {self._now():%m-%d %H:%M:%S} [arcopsd] {text}"[:LONGEST]
        with self._guard:
            self._lines.append(line)
            self._written += 1

    def after(self, number: int) -> tuple[int, tuple[str, ...]]:
        """The lines behind the `number`-th, as far as they are kept, and the number of the last one."""
        with self._guard:
            new = max(0, min(self._written - number, len(self._lines)))
            return self._written, tuple(self._lines)[len(self._lines) - new :]

    def tail(self, lines: int) -> tuple[int, tuple[str, ...]]:
        """The last lines, and the number of the last one."""
        with self._guard:
            kept = tuple(self._lines)
            return self._written, kept[max(0, len(kept) - lines) :]


class Library(logging.Handler):
    """What libraries say by way of Python's logging, in the supervisor's log like its own: warnings and worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, f"{record.name}: {record.getMessage()}", exc_info=record.exc_info or None)
