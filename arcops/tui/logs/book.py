"""The lines of a log that are kept for reading: bounded, filtered by level, searched. What it costs to add a line does
not depend on how many are kept."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from arcops import words
from arcops.core.diagnosis import root

MOST = 20_000
"""Lines that are kept; the oldest are dropped by the thousand."""
_DROPPED = 1_000
_JOINED = 50
"""Lines by which the end of what is kept is found again in what is read anew."""


class Level(IntEnum):
    """How much a line wants to be looked at. Debugging words, information and what has no level are all the same."""

    ALL = 0
    WARNING = 1
    ERROR = 2

    @property
    def words(self) -> str:
        return ("all lines", "warnings and errors", "errors")[self]

    @property
    def sign(self) -> str:
        return " WE"[self]


@dataclass(frozen=True, slots=True)
class Line:
    """One line, made harmless."""

    number: int
    """Counted since the book was opened; never used twice."""
    text: str
    level: Level


# Without a level of vLLM's own: uvicorn's lines, structlog's, glog's (torch, c10d), Python's warnings and exceptions,
# argparse's complaint.
_NAMED = re.compile(r"(?:\S{1,40} )?\[?(debug|info|warning|error|critical)(?: {0,8}\]|:) ", re.IGNORECASE)
_GLOG = re.compile(r"(?:\[rank\d{1,4}\]:)?\[?([IWEF])\d{4} \d\d:\d\d:\d\d")
_PYTHON_WARNING = re.compile(r"[^ ]{1,300}:\d{1,7}: \w{0,60}Warning: ")
_EXCEPTION = re.compile(
    r"(?:\[rank\d{1,4}\]: ?)?(?:Traceback \(most recent|During handling of the above|The above exception was"
    r"|(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,80}(?<=Error|ption|rrupt|gExit|mExit)(?::|$)"
    r"|[\w./-]{1,200}(?: [\w./-]{1,40}){0,3}: error: )"
)
_CONTINUES = (" ", "\t", "│", "╭", "╰", "|", "+-")
_BY_WORD = {"WARNING": Level.WARNING, "ERROR": Level.ERROR, "CRITICAL": Level.ERROR}
_BY_LETTER = {"I": Level.ALL, "W": Level.WARNING, "E": Level.ERROR, "F": Level.ERROR}


class Levels:
    """Tells the level of each line. One without a level that continues another (a traceback) has that one's."""

    def __init__(self) -> None:
        self._last: dict[str, Level] = {}
        """By the process that wrote."""

    def of(self, text: str) -> Level:
        """`text` is the next line of the log, made harmless."""
        line = root.read((text,))[0]
        if not line.text:
            return Level.ALL
        level = self._told(line)
        if level is None:
            level = self._last.get(line.process, Level.ALL) if _continues(line.text) else Level.ALL
        if len(self._last) > 1_000:  # a log that invents a process a line
            self._last.clear()
        self._last[line.process] = level
        return level

    def _told(self, line: root.Line) -> Level | None:
        """What the line says itself."""
        if line.level:
            return _BY_WORD.get(line.level, Level.ALL)
        if (named := _NAMED.match(line.text)) is not None:
            return _BY_WORD.get(named[1].upper(), Level.ALL)
        if (letter := _GLOG.match(line.text)) is not None:
            return _BY_LETTER[letter[1]]
        if _PYTHON_WARNING.match(line.text) is not None:
            return Level.WARNING
        return Level.ERROR if _EXCEPTION.match(line.text) is not None else None


def _continues(text: str) -> bool:
    return text.startswith(_CONTINUES)


class Logbook:
    """The lines, the level from which on they are shown, and what is searched."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._dropped_at_once = max(1, min(_DROPPED, most // 2))
        self._lines: list[Line] = []
        self._next = 0
        self._levels = Levels()
        self._level = Level.ALL
        self._needle = ""
        self._shown: list[int] = []
        """Numbers of the lines that the level lets through, ascending."""
        self._found: list[int] = []
        """Numbers of those that have what is searched, ascending."""

    @property
    def level(self) -> Level:
        return self._level

    @property
    def needle(self) -> str:
        return self._needle

    @property
    def kept(self) -> int:
        """How many lines are kept, shown or not."""
        return len(self._lines)

    @property
    def shown(self) -> Sequence[int]:
        """Numbers of the lines to be shown, ascending: to be read, and not to be kept."""
        return self._shown

    @property
    def found(self) -> Sequence[int]:
        """Numbers of the shown lines that have what is searched, ascending: to be read, and not to be kept."""
        return self._found

    def __getitem__(self, number: int) -> Line:
        """Raises IndexError where the line is not kept any more."""
        index = number - (self._next - len(self._lines))
        if index < 0:
            raise IndexError(number)
        return self._lines[index]

    def add(self, texts: Sequence[str]) -> None:
        """Put lines at the end; their text comes from outside."""
        for text in texts[-self._most :]:
            harmless = words.clean(text)
            self._put(Line(self._next, harmless, self._levels.of(harmless)))
        self._drop()

    def divide(self, title: str) -> None:
        """A line of our own, between what was written before and what is written from now on."""
        self._levels = Levels()
        self._put(Line(self._next, f"──── {words.clean(title)} ────", Level.ALL))
        self._drop()

    def unread(self, texts: Sequence[str]) -> Sequence[str] | None:
        """What of these, read anew after a break, is not kept yet; None where that cannot be told."""
        return after([line.text for line in self._lines[-_JOINED:]], texts)

    def clear(self) -> None:
        """Forget all lines; the level and what is searched stay."""
        self._lines.clear()
        self._shown.clear()
        self._found.clear()
        self._levels = Levels()

    def filter(self, level: Level) -> None:
        """Show only lines of this level and those above it."""
        self._level = level
        self._shown = [line.number for line in self._lines if line.level >= level]
        self.search(self._needle)

    def search(self, needle: str) -> None:
        """Find this text, whether capital or small; nothing: search no more."""
        self._needle = needle.casefold()
        shown = (self[number] for number in self._shown) if self._needle else ()
        self._found = [line.number for line in shown if self._needle in line.text.casefold()]

    def first_error(self) -> int | None:
        """The number of the first line that tells an error; None where there is none."""
        return next((line.number for line in self._lines if line.level is Level.ERROR), None)

    def next_error(self, after_number: int) -> int | None:
        """The first line of the next error behind that line: what goes on with the same one does not count."""
        start = max(0, after_number + 1 - (self._next - len(self._lines)))
        previous = Level.ALL if start == 0 else self._lines[start - 1].level
        for line in self._lines[start:]:
            if line.level is Level.ERROR and previous is not Level.ERROR:
                return line.number
            previous = line.level
        return None

    def place(self, number: int) -> int:
        """Where that line is among those shown; where it is not, the place of the next one."""
        return bisect_left(self._shown, number)

    def match(self, number: int, *, forward: bool) -> int | None:
        """The next line behind (before) that one with what is searched; around the end; None where there is none."""
        if not self._found:
            return None
        if forward:
            index = bisect_right(self._found, number)
            return self._found[index % len(self._found)]
        return self._found[bisect_left(self._found, number) - 1]

    def _put(self, line: Line) -> None:
        self._next += 1
        self._lines.append(line)
        if line.level >= self._level:
            self._shown.append(line.number)
            if self._needle and self._needle in line.text.casefold():
                self._found.append(line.number)

    def _drop(self) -> None:
        if len(self._lines) <= self._most:
            return
        over = max(self._dropped_at_once, len(self._lines) - self._most)
        del self._lines[:over]
        first = self._next - len(self._lines)
        del self._shown[: bisect_left(self._shown, first)]
        del self._found[: bisect_left(self._found, first)]


def after(tail: Sequence[str], read: Sequence[str]) -> Sequence[str] | None:
    """What of `read`, from outside, comes behind `tail`, the harmless end of what was read before.

    None where that end is not in `read`.
    """
    if not tail:
        return read
    for end in range(len(read), 0, -1):
        if words.clean(read[end - 1]) == tail[-1]:
            length = min(end, len(tail))
            if [words.clean(text) for text in read[end - length : end]] == list(tail[-length:]):
                return read[end:]
    return None
