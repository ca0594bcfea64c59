"""Where in a log somebody reads: follows its end, or stands at a line; and the rows that are seen from there."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import chop_cells

from arcops import words
from arcops.tui.ink import Ink, Piece
from arcops.tui.ink import Line as InkLine
from arcops.tui.logs.book import Level, Line, Logbook

GUTTER = 2
"""Cells before the text: the level's letter, and the mark of a line with what is searched."""
_INDENT = "    "
_PAN = 20
"""Columns that one key moves long lines by."""
_MOST_ROWS = 200
"""Of one wrapped line."""

_INKS = {Level.ALL: Ink.PLAIN, Level.WARNING: Ink.WARN, Level.ERROR: Ink.BAD}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the screen."""

    line: Line
    text: str
    part: int
    """Which of the line's rows this is, from 0."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stood."""

    following: bool
    top: tuple[int, int]
    seen: int


class Reader:
    """A place in a book. Sizes are told with each call: the screen may change between any two."""

    def __init__(self, book: Logbook) -> None:
        self.book = book
        self.following = True
        self.wrap = False
        self.pan = 0
        """Columns that are left out at the left; only where lines are not wrapped."""
        self.current: int | None = None
        """The number of the line with what is searched that was gone to last."""
        self.marked: int | None = None
        """The number of the error that was gone to last."""
        self._top = (0, 0)
        """Number of the line and part of it in the first row, while not following."""
        self._seen = 0
        """Number behind the last line that was there when following ended."""

    def rows(self, width: int, height: int) -> list[Row]:
        """What is to be seen, from the top; at most `height` rows."""
        if self.following:
            return self._above(len(self.book.shown), 0, width, height)
        place, part = self._placed()
        found: list[Row] = []
        for line in self._from(place):
            found += self._rows_of(line, width)[part:]
            part = 0
            if len(found) >= height:
                break
        # At the end the last page is full.
        return found[:height] if len(found) >= height else self._above(len(self.book.shown), 0, width, height)

    @property
    def new_lines(self) -> int:
        """Shown lines that came since following ended."""
        return 0 if self.following else len(self.book.shown) - self.book.place(self._seen)

    def follow(self) -> None:
        self.following = True

    def begin(self) -> None:
        """The book is another one now."""
        self.following, self.pan, self.current, self.marked = True, 0, None, None

    @property
    def place(self) -> Place:
        """Where this stands now."""
        return Place(self.following, self._top, self._seen)

    def go_back(self, place: Place) -> None:
        """Stand where this stood then."""
        self.following, self._top, self._seen = place.following, place.top, place.seen

    def move(self, rows: int, width: int, height: int) -> None:
        """Down (up) by so many rows. Up ends following; the very end begins it again."""
        seen = self.rows(width, height)
        if not seen or (self.following and rows > 0):
            return
        if rows < 0:
            place = self.book.place(seen[0].line.number)
            above = self._above(place, seen[0].part, width, -rows)
            if above or not self.following:
                self._stand(above[0] if above else seen[0])
            return
        place = self.book.place(seen[-1].line.number)
        rest = len(self._rows_of(seen[-1].line, width)) - seen[-1].part - 1
        left = rest
        for line in self._from(place + 1):
            if left > rows:
                break
            left += len(self._rows_of(line, width))
        if left <= rows:
            self.follow()
            return
        below = [*seen, *self._below(seen[-1], width, rows)]
        self._stand(below[rows])

    def to_start(self) -> None:
        """The first line that is kept."""
        if self.book.shown:
            self._stand_at(self.book.shown[0], 0)

    def go_to(self, number: int, width: int, height: int) -> None:
        """Have that line in sight, a third from the top."""
        above = self._above(self.book.place(number), 0, width, height // 3)
        self._stand(above[0]) if above else self._stand_at(number, 0)

    def find(self, width: int, height: int, *, forward: bool) -> None:
        """Go to the next (previous) line with what is searched; the newest first while following."""
        start = self.current
        if start is None:
            seen = self.rows(width, height)
            start = 0 if not seen else seen[0].line.number - 1 if forward else seen[-1].line.number + 1
        number = self.book.match(start, forward=forward)
        self.current = number
        if number is not None:
            self.go_to(number, width, height)
            self._pan_to(number, width)

    def move_sideways(self, steps: int) -> None:
        """Where lines are not wrapped: to the right (left)."""
        self.pan = max(0, self.pan + steps * _PAN)

    def ink(self, row: Row, width: int) -> InkLine:
        """A row as it is drawn: level and match are marked by characters as well as by ink."""
        found = bool(self.book.needle) and self.book.needle in row.line.text.casefold()
        mark = "»" if row.line.number in (self.current, self.marked) else "›" if found else " "
        mark = mark if row.part == 0 else " "
        ink = _INKS[row.line.level]
        gutter = row.line.level.sign if row.part == 0 else " "
        text = row.text
        if not self.wrap and self.pan:
            text = text[self.pan :]
        return ((gutter, ink), (mark, Ink.STRONG), *_marked(text[: 4 * width], self.book.needle, ink))

    def _pan_to(self, number: int, width: int) -> None:
        """Have the match itself in sight where lines are not wrapped."""
        if self.wrap:
            return
        at = _unwrapped(self.book[number].text).casefold().find(self.book.needle)
        end = at + len(self.book.needle)
        if at >= 0 and not (self.pan <= at and end <= self.pan + width - GUTTER):
            self.pan = 0 if end <= width - GUTTER else at - at % _PAN

    def _stand(self, row: Row) -> None:
        self._stand_at(row.line.number, row.part)

    def _stand_at(self, number: int, part: int) -> None:
        if self.following:
            self._seen = self.book.shown[-1] + 1 if self.book.shown else 0
        self.following = False
        self._top = (number, part)

    def _placed(self) -> tuple[int, int]:
        """Place and part of the first row; the next line where that one is not shown (any more)."""
        number, part = self._top
        place = self.book.place(number)
        shown = place < len(self.book.shown) and self.book.shown[place] == number
        return place, part if shown else 0

    def _above(self, place: int, part: int, width: int, height: int) -> list[Row]:
        """At most `height` rows above that part of the line at `place`, from the top."""
        found: list[Row] = []
        if part and place < len(self.book.shown):
            found = list(reversed(self._rows_of(self.book[self.book.shown[place]], width)[:part]))
        while len(found) < height and place > 0:
            place -= 1
            found += reversed(self._rows_of(self.book[self.book.shown[place]], width))
        return list(reversed(found[:height]))

    def _below(self, row: Row, width: int, height: int) -> list[Row]:
        """At most `height` rows below that one."""
        found = self._rows_of(row.line, width)[row.part + 1 :]
        for line in self._from(self.book.place(row.line.number) + 1):
            if len(found) >= height:
                break
            found += self._rows_of(line, width)
        return found[:height]

    def _from(self, place: int) -> Iterator[Line]:
        """The shown lines from that place on."""
        return (self.book[self.book.shown[index]] for index in range(place, len(self.book.shown)))

    def _rows_of(self, line: Line, width: int) -> list[Row]:
        if not self.wrap:
            return [Row(line, _unwrapped(line.text), 0)]
        return [Row(line, text, part) for part, text in enumerate(_wrapped(line.text, max(8, width - GUTTER)))]


def _unwrapped(text: str) -> str:
    return words.short_log_line(text)


def _wrapped(text: str, width: int) -> list[str]:
    """Whole lines, broken at a blank where there is one near the end: nothing is left out, blanks stay as they are."""
    if len(text) <= width and text.isascii():
        return [text]
    first, rest = _cut(text, width)
    inner = width - len(_INDENT)
    pieces = [first]
    while rest and len(pieces) < _MOST_ROWS:
        piece, rest = _cut(rest, inner)
        pieces.append(_INDENT + piece)
    return pieces


def _cut(text: str, width: int) -> tuple[str, str]:
    """What fits into `width` cells, and the rest; a character may take two cells."""
    if not text[: width + 1].isascii():
        first = next(iter(chop_cells(text[:width], width)), "") or text[:1]
        return first, text[len(first) :]
    if len(text) <= width:
        return text, ""
    blank = text.rfind(" ", width // 2, width + 1)
    at = width if blank < 0 else blank + 1
    return text[:at].rstrip() if blank >= 0 else text[:at], text[at:]


def _marked(text: str, needle: str, ink: Ink) -> tuple[Piece, ...]:
    """`text` with what is searched in reverse, which shows without colour too."""
    folded = text.casefold()
    if not needle or needle not in folded or len(folded) != len(text):
        return ((text, ink),)
    pieces: list[Piece] = []
    done = 0
    while (at := folded.find(needle, done)) >= 0:
        pieces += [(text[done:at], ink), (text[at : at + len(needle)], Ink.MARK)]
        done = at + len(needle)
    return (*pieces, (text[done:], ink))
