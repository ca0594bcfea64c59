"""That this is a recording, and where in it: nobody may take it for what goes on now."""

from datetime import UTC, datetime

from arcops.tui.ink import Ink, Line, Lines, length, plain, pushed_apart, quiet, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Playback, Snapshot


class PlaybackPanel(Panel):
    """A line above all others; none for a daemon that is there."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if snapshot.playback is None:
            return ()
        return (pushed_apart(_where(snapshot.playback, room.width), (quiet(_KEYS),), room.width),)


_KEYS = "space pause · < > pace · ← → 10 s · shift 1 min"


def _where(playback: Playback, width: int) -> Line:
    """`▶ recording of 2026-11-30 18:05, at 01:23 of 10:00, x4`; where room is short, without the day it is of."""
    began = f" of {datetime.fromtimestamp(playback.began, UTC).astimezone():%Y-%m-%d %H:%M}"
    forms = [
        _line(playback, day, cut)
        for day, cut in ((began, "; the file was cut off"), (began, "; cut off"), ("", "; cut off"))
    ]
    return next((form for form in forms if length(form) <= width), forms[-1])


def _line(playback: Playback, day: str, cut: str) -> Line:
    sign = "■" if playback.ended else "‖" if playback.paused else "▶"
    at = f"at {clock(playback.at)} of {clock(playback.length)}"
    state = f"x{playback.speed}{', the end' if playback.ended else ', paused' if playback.paused else ''}"
    line: Line = ((f"{sign} recording", Ink.WARN), plain(f"{day}, "), strong(at), plain(f", {state}"))
    return (*line, quiet(cut)) if playback.cut else line


def clock(seconds: float) -> str:
    """`01:23`, `1:02:03`."""
    whole = int(seconds)
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02d}:{whole % 60:02d}"
