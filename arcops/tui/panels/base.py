"""What all panels have in common: lines made from a snapshot, drawn again only when they differ."""

from abc import abstractmethod
from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from arcops.tui.ink import Lines, content
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

    @abstractmethod
    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        """What to show; nothing at all hides the panel. Lines that are too long are cut with an ellipsis."""

    def show(self, snapshot: Snapshot) -> None:
        """Take the new snapshot, and draw only if that makes a difference."""
        self._snapshot = snapshot
        lines = self._lines(self.content_size.width)
        if lines == self._shown:
            return
        another_height = not self.fills and len(lines) != len(self._shown)
        self._shown = lines
        if self.display != bool(lines):
            self.display = bool(lines)
        if lines:
            self.refresh(layout=another_height)

    def render(self) -> Content:
        self._shown = self._lines(self.content_size.width)
        return content(self._shown)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def _lines(self, width: int) -> Lines:
        if self._snapshot is None:
            return ()
        screen = self.screen.size
        room = Room(width or screen.width, self.content_size.height, screen.height >= TALL)
        return self.lines(self._snapshot, room)
