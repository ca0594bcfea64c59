"""The last line: the keys of the view that is shown to the left, those that work everywhere to the right."""

from textual import events
from textual.message import Message

from arcops.tui.ink import Line, Lines, length, plain, quiet, strong
from arcops.tui.keys import NEVER_LEFT_OUT, Key, Keys
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot


class KeysPanel(Panel):
    """Where room is short, keys are left out, from the end: of those that work everywhere, then of the view's own."""

    class Pressed(Message):
        """A key's words were clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    fills = True

    def __init__(self) -> None:
        super().__init__()
        self._keys = Keys()

    def tell(self, keys: Keys) -> None:
        """These are the keys now."""
        if keys.footer != self._keys:
            self._keys = keys.footer
            self.refresh()

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        del snapshot
        own, everywhere = fitting(self._keys, room.width)
        left, right = _line(own), _line(everywhere)
        return ((*left, plain(" " * max(0, room.width - length(left) - length(right))), *right),)

    def on_click(self, event: events.Click) -> None:
        own, everywhere = fitting(self._keys, self.content_size.width)
        from_right = self.content_size.width - length(_line(everywhere))
        found = at(own, event.x) or at(everywhere, event.x - from_right)
        if found is not None:
            self.post_message(self.Pressed(found.press))


def fitting(keys: Keys, width: int) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    """What there is room for: of the view, and of what works everywhere."""
    own, everywhere = list(keys.own), list(keys.everywhere)
    while length(_line(tuple(own))) + length(_line(tuple(everywhere))) + 2 * bool(own) > width:
        dispensable = [key for key in everywhere if key.action not in NEVER_LEFT_OUT]
        if dispensable:
            everywhere.remove(dispensable[-1])
        elif own:
            own.pop()
        else:
            break
    return tuple(own), tuple(everywhere)


def at(keys: tuple[Key, ...], x: int) -> Key | None:
    """The key whose words stand `x` characters from the start of the line."""
    if x < 0:
        return None
    end = 0
    for key in keys:
        end += length(_entry(key))
        if x < end:
            return key
        end += 2
        if x < end:
            return None
    return None


def _line(keys: tuple[Key, ...]) -> Line:
    line: Line = ()
    for key in keys:
        line = (*line, plain("  ") if line else plain(""), *_entry(key))
    return line


def _entry(key: Key) -> Line:
    return (strong(key.keys[0]), quiet(f" {key.label}"))
