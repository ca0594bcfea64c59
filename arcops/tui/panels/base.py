"""What all panels have in common: lines made from a snapshot, of which only those are drawn again that differ."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.segment import Segment
from textual.app import App
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from arcops.tui.ink import Ink, Line, Lines, content, fitted
from arcops.tui.snapshot import Snapshot

TALL = 36
"""Rows of the screen from which on panels may take more than they need."""


@dataclass(frozen=True, slots=True)
class Room:
    """The space that a panel has, in cells."""

    width: int
    height: int
    """0 for a panel that takes the lines that it needs."""
    tall: bool
    """There is room to be generous with lines."""


class Panel(Widget):
    """A part of the screen, about one subject. Its text is never markup."""

    fills = False
    """It takes what room there is, whatever it has to say: its lines never move the other panels."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._snapshot: Snapshot | None = None
        self._shown: Lines = ()
        self._room: Room | None = None
        """What the lines were made for; None if they are to be made anew."""
        self._inks: dict[Ink, Style] = {}
        self._inks_for: tuple[Style, str] | None = None

    @abstractmethod
    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        """What to show; nothing at all hides the panel. Lines that are too long are cut with an ellipsis."""

    def show(self, snapshot: Snapshot) -> None:
        """Take the new snapshot, and draw only what makes a difference."""
        self._snapshot = snapshot
        room = self._room_now(self.content_size.width)
        before, lines = self._shown, self.lines(snapshot, room)
        if lines == before and self._room == room:
            return
        self._shown = lines
        if self.display != bool(lines):
            self.display = bool(lines)
        if not lines:
            return
        if len(lines) == len(before) and self._room == room:
            self.refresh(*_changed(before, lines, room.width))
        else:
            self.refresh(layout=not self.fills and len(lines) != len(before))
        self._room = room

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """As in Widget. Without regions the lines are made anew as well."""
        if not regions:
            self._room = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render(self) -> Content:
        """All lines, for what asks for the whole: a selection of text."""
        self._make()
        return content(self._shown)

    def render_line(self, y: int) -> Strip:
        """One line without the way over `Content`, which takes ten times as long."""
        if self.text_selection is not None:
            return super().render_line(y)
        self._make()
        style = self.visual_style
        if y >= len(self._shown):
            return Strip.blank(self.size.width, style.rich_style)
        return self._strip(fitted(self._shown[y], self.content_size.width), y, style)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self._snapshot is None:
            return 0
        return len(self.lines(self._snapshot, self._room_now(width)))

    def _make(self) -> None:
        """Make the lines, if they were not made for the room that there is."""
        room = self._room_now(self.content_size.width)
        if self._room != room:
            self._room = room
            self._shown = () if self._snapshot is None else self.lines(self._snapshot, room)

    def _room_now(self, width: int) -> Room:
        screen = self.screen.size
        return Room(width or screen.width, self.content_size.height, screen.height >= TALL)

    def _strip(self, line: Line, y: int, style: Style) -> Strip:
        """The segments of a line. Each knows its offset, which the selection of text goes by."""
        app: App[object] = self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - an App of anything
        if self._inks_for != (style, app.theme):
            self._inks = {ink: style + Style.parse(ink.value, app.theme_variables) for ink in Ink}
            self._inks_for = (style, app.theme)
        segments: list[Segment] = []
        x = 0
        for text, ink in line:
            segments.append(Segment(text, self._inks[ink].rich_style_with_offset(x, y)))
            x += len(text)
        return Strip(segments)


def _changed(before: Lines, lines: Lines, width: int) -> Sequence[Region]:
    """Where the lines differ."""
    return [Region(0, y, width, 1) for y, (old, new) in enumerate(zip(before, lines, strict=True)) if old != new]
