"""One line that names the views and their keys; the one that is shown is marked. A click shows the one clicked on."""

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

from textual import events
from textual.message import Message

from arcops.tui.ink import Ink, Line, Lines, length, plain, quiet
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot


class TabsPanel(Panel):
    """`1 overview  2 profiles …`; the marked one is in brackets, so that it shows without colour."""

    class Chosen(Message):
        """A view's name was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Sequence[str], shown: str) -> None:
        super().__init__()
        self._names, self._current = tuple(names), shown

    def mark(self, name: str) -> None:
        """`name` is the view that is shown."""
        self._current = name
        self.refresh()

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        del snapshot
        return (self._line(room.width),)

    def _line(self, width: int) -> Line:
        return tuple(piece for tab in self._tabs(width) for piece in tab)

    def _tabs(self, width: int) -> tuple[Line, ...]:
        """A view's piece of the line each: names with blanks around them, or without, or one name alone."""
        forms = [tuple(self._tab(number, form) for number in range(len(self._names))) for form in _Form]
        return next((tabs for tabs in forms if sum(map(length, tabs)) <= width), forms[-1])

    def _tab(self, number: int, form: "_Form") -> Line:
        name = self._names[number]
        key = str(number + 1)
        if name == self._current:
            return ((f"[{key} {name}]", Ink.TITLE), plain(" "))
        match form:
            case _Form.WIDE:
                return (quiet(f" {key} {name} "), plain(" "))
            case _Form.TIGHT:
                return (quiet(f"{key} {name}"), plain(" "))
            case _Form.NUMBERS:
                return (quiet(f" {key} "), plain(" "))
            case _:
                assert_never(form)

    def on_click(self, event: events.Click) -> None:
        end = 0
        for name, tab in zip(self._names, self._tabs(self.content_size.width), strict=True):
            end += length(tab)
            if event.x < end:
                self.post_message(self.Chosen(name))
                return


class _Form(Enum):
    """How much of the names is shown."""

    WIDE = "wide"
    TIGHT = "tight"
    NUMBERS = "numbers"
