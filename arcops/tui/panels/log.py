"""The end of the backend's log. Its text comes from outside: it is never markup, and was made harmless by the feed."""

from arcops import words
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Link, Snapshot


class LogPanel(Panel):
    """As many of the newest lines as there is room for."""

    fills = True
    large = False
    """Whole lines, wrapped; else one row each, with vLLM's prefix cut down."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if snapshot.status is None and snapshot.link is not Link.LIVE:
            return ()
        rows = max(0, room.height - 1)
        tail = snapshot.log.lines[-rows:] if rows else ()
        title = rule("Log", room.width, remark=words.clean(snapshot.log.launch_id or "no launch"))
        if not tail:
            return (title, (quiet(snapshot.log.problem or "no line yet"),))
        if self.large:
            return (title, *_wrapped(tail, room.width, rows))
        return (title, *(_inked(words.short_log_line(line)) for line in tail))

    def enlarge(self, large: bool) -> None:
        """Change between one row a line and whole lines."""
        self.large = large
        self.refresh()


def _wrapped(tail: tuple[str, ...], width: int, rows: int) -> Lines:
    lines: list[Line] = []
    for line in reversed(tail):
        pieces = words.folded(line, max(8, width), indent="    ") or [""]
        ink = _ink(line)
        lines += [((piece, ink),) for piece in reversed(pieces)]
        if len(lines) >= rows:
            break
    return tuple(reversed(lines[:rows]))


def _inked(line: str) -> Line:
    ink = _ink(line)
    return ((line, ink),) if ink is not Ink.PLAIN else (plain(line),)


def _ink(line: str) -> Ink:
    """By the level, which is a word in the line as well."""
    head = line[:80]
    if "ERROR" in head or "CRITICAL" in head:
        return Ink.BAD
    if "WARNING" in head:
        return Ink.WARN
    return Ink.PLAIN
