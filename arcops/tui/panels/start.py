"""How far an order has got, and the start that belongs to it."""

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 10
_LONGEST_BAR = 60


_DOWN = (Phase.DRAINING, Phase.STOPPING, Phase.CLEARING)
_UP = (Phase.STARTING, Phase.CHECKING, Phase.SERVING)


class StartPanel(Panel):
    """The phases that an order goes through; of a start the stage, with a bar where the log gives its fraction, and the
    time, with a bar where the usual one is known."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if snapshot.status is None:
            return ()
        return (*_order(snapshot.status, snapshot.phase, room), *_start(snapshot, snapshot.status.start, room))


def _order(status: wire.Status, phase: Phase | None, room: Room) -> Lines:
    """`draining · stopping · [clearing] · starting · …`; nothing where no order is under way, or it has not begun."""
    way = _way(status)
    if status.order.committed or phase not in way:
        return ()
    title, remark = ("Switch", f"to {words.clean(status.order.profile or 'unknown')}")
    if status.order.goal != "run":
        title, remark = "Stop", ""
    steps = [((f"[{step.value}]", Ink.TITLE) if step is phase else quiet(step.value)) for step in way]
    if sum(len(text) for text, _ in steps) + 3 * len(steps) + _LABEL > room.width:
        number = way.index(phase) + 1
        steps = [(f"[{phase.value}]", Ink.TITLE), quiet(f"{number} of {len(way)}")]
    line: Line = (quiet("phases".ljust(_LABEL)),)
    for number, step in enumerate(steps):
        line = (*line, quiet(" · " if number else ""), step)
    return (rule(title, room.width, remark=remark), line)


def _way(status: wire.Status) -> tuple[Phase, ...]:
    """The phases from what ran to what was ordered."""
    if status.order.goal != "run":
        return (*_DOWN, Phase.STOPPED)
    began_below = status.order.previous is None and (
        status.backend is None or status.backend.profile == status.order.profile
    )
    return _UP if began_below and status.phase not in {step.value for step in _DOWN} else (*_DOWN, *_UP)


def _start(snapshot: Snapshot, start: wire.StartInfo | None, room: Room) -> Lines:
    """The start itself."""
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
