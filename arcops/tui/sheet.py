"""Widgets that fill what room there is with lines of text: one that scrolls, and one of whose rows one is selected.

What is drawn is the rows in sight, however many there are. Text is never markup.
"""

from abc import abstractmethod
from collections.abc import Callable

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from arcops.tui.ink import Ink, Line, Lines, content, cut, padded, quiet

WHEEL = 3
"""Rows that one step of the mouse's wheel moves."""


class Sheet(Widget):
    """Draws what `lines` gives, when that has changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._drawn: Lines | None = None
        self._next: tuple[tuple[int, int], Lines] | None = None
        """What is to be drawn next, and for which room: made once, to be compared and to be drawn."""

    @abstractmethod
    def lines(self, width: int, height: int) -> Lines:
        """The rows in sight, at most `height`."""

    @abstractmethod
    def scroll_rows(self, rows: int) -> None:
        """Down (up) by so many."""

    def redraw(self) -> None:
        """Draw anew, if that makes a difference."""
        if not self.is_mounted:
            return
        self._next = (self.room, self.lines(*self.room))
        if self._next[1] != self._drawn:
            self.refresh()

    @property
    def room(self) -> tuple[int, int]:
        """Width and height, in cells."""
        return self.content_size.width, self.content_size.height

    def render(self) -> Content:
        made, self._next = self._next, None
        self._drawn = made[1] if made is not None and made[0] == self.room else self.lines(*self.room)
        return content(self._drawn)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-WHEEL)


class Pane(Sheet):
    """A text that may be longer than there is room for; the last row then says how much more there is."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text: Callable[[int, int], Lines] = lambda _, __: ()
        self._top = 0

    def tell(self, text: Callable[[int, int], Lines], *, from_top: bool = False) -> None:
        """Show these lines: what `text` gives for a width and a height. They may be more than the height."""
        self._text = text
        self._top = 0 if from_top else self._top
        self.redraw()

    def lines(self, width: int, height: int) -> Lines:
        whole = self._text(width, height)
        if len(whole) <= height:
            return whole
        top = min(self._top, len(whole) - height)
        seen = whole[top : top + height]
        below = len(whole) - top - height
        return (*seen[:-1], (quiet(f"↓ {below + 1} more lines"),)) if below and height > 1 else seen

    def scroll_rows(self, rows: int) -> None:
        width, height = self.room
        self._top = max(0, min(self._top + rows, len(self._text(width, height)) - height))
        self.redraw()

    def to_end(self, *, last: bool) -> None:
        """The very end, or the beginning."""
        width, height = self.room
        length = len(self._text(width, height))
        self.scroll_rows(length if last else -length)


class Rows(Sheet):
    """A list, a row each, of which one is selected; the mouse selects as well as the keys do."""

    class Selected(Message):
        """Another row is selected."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._count = 0
        self._row: Callable[[int, int], Line] = lambda _, __: ()
        self._nothing = ""
        self._above: Callable[[int], Lines] = lambda _: ()
        self.selected = 0
        """Which one; of no meaning where there is none."""
        self._top = 0

    def put_above(self, above: Callable[[int], Lines]) -> None:
        """Lines that stand above the rows: what `above` gives for a width."""
        self._above = above

    def tell(self, count: int, row: Callable[[int, int], Line], selected: int, nothing: str) -> None:
        """There are `count` rows: `row` draws one by its number and width; `nothing` stands where there are none."""
        self._count, self._row, self._nothing = count, row, nothing
        self.selected = max(0, min(selected, count - 1))
        self.redraw()

    def lines(self, width: int, height: int) -> Lines:
        above = self._above(width)
        if self._count == 0:
            return (*above, (quiet(self._nothing),))[:height]
        room = max(1, height - len(above))
        self._top = self._in_sight(room)
        last = min(self._count, self._top + room)
        return (*above, *(self._drawn_row(number, width) for number in range(self._top, last)))[:height]

    @property
    def page(self) -> int:
        """Rows that are in sight at once."""
        width, height = self.room
        return max(1, height - len(self._above(width)))

    def move(self, rows: int) -> None:
        """Select the row so many further down (up)."""
        self._select(self.selected + rows)

    def to_end(self, *, last: bool) -> None:
        self._select(self._count - 1 if last else 0)

    def scroll_rows(self, rows: int) -> None:
        self.move(1 if rows > 0 else -1)

    def on_click(self, event: events.Click) -> None:
        row = event.y - len(self._above(self.room[0]))
        if row >= 0 and self._top + row < self._count:
            self._select(self._top + row)

    def _select(self, number: int) -> None:
        number = max(0, min(number, self._count - 1))
        if number != self.selected and self._count:
            self.selected = number
            self.redraw()
            self.post_message(self.Selected())

    def _in_sight(self, height: int) -> int:
        """The first row to be shown, so that the selected one is."""
        lowest = max(0, self._count - height)
        return min(lowest, max(self.selected - height + 1, min(self._top, self.selected)))

    def _drawn_row(self, number: int, width: int) -> Line:
        """The selected one is marked by a character, and in reverse."""
        if number != self.selected:
            return (("  ", Ink.PLAIN), *self._row(number, width - 2))
        text = "".join(text for text, _ in self._row(number, width - 2))
        return (("▸ ", Ink.STRONG), (padded(cut(text, width - 2), width - 2), Ink.MARK))
