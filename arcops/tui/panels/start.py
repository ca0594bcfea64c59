"""How far a start has got."""

from arcops import wire, words
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 10
_LONGEST_BAR = 60


class StartPanel(Panel):
    """The stage, with a bar where the log gives its fraction; and the time, with a bar where the usual one is known."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        start = None if snapshot.status is None else snapshot.status.start
        if start is None:
            return ()
        # The daemon's figure is as old as its status.
        elapsed = start.elapsed + snapshot.silent
        return (
            rule("Start", room.width, remark=words.clean(start.stage)),
            _stage(start, room.width),
            _time(elapsed, start.usual, room.width),
        )


def _stage(start: wire.StartInfo, width: int) -> Line:
    detail = words.clean(start.detail) or words.clean(start.stage)
    if start.fraction is None:
        return (quiet("doing".ljust(_LABEL)), plain(detail))
    return (*_bar("doing", start.fraction, width), strong(f"{start.fraction * 100:3.0f} %  "), plain(detail))


def _time(elapsed: float, usual: float | None, width: int) -> Line:
    passed = words.duration(elapsed)
    if usual is None or usual <= 0:
        return (quiet("time".ljust(_LABEL)), plain(f"{passed}; how long it usually takes is unknown"))
    return (*_bar("time", elapsed / usual, width), strong(passed), plain(f" of usually {words.duration(usual)}"))


def _bar(label: str, share: float, width: int) -> Line:
    filled, empty = plot.bar(share, min(_LONGEST_BAR, max(8, width - _LABEL - 36)))
    return (quiet(label.ljust(_LABEL)), (filled, Ink.BAR), quiet(empty), plain("  "))
