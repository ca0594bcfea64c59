"""What stands above a log: whose it is, how it is read, and whether it is still being written to us."""

from dataclasses import dataclass

from arcops import words
from arcops.tui.ink import Ink, Line, Lines, Piece, length, plain, quiet, rule, strong
from arcops.tui.logs.book import Level


@dataclass(frozen=True, slots=True)
class LogState:
    """How the log is read at the moment."""

    supervisor: bool
    """The supervisor's own log, not a backend's."""
    launch_id: str | None
    """Of the lines that came last."""
    chosen: bool
    """This launch was chosen; else the newest is followed, and those after it."""
    level: Level
    kept: int
    shown: int
    following: bool
    new_lines: int
    wrap: bool
    needle: str
    found: int
    current: int | None
    """Which of the found ones was gone to last, from 1."""
    problem: str
    """Why no lines come; empty where they do."""


def head(state: LogState, width: int) -> Lines:
    """Two lines, three while something is searched."""
    lines = [_title(state, width), _reading(state, width)]
    if state.needle:
        lines.append(_search(state))
    return tuple(lines)


def _title(state: LogState, width: int) -> Line:
    if state.supervisor:
        return rule("Supervisor log", width)
    launch = words.clean(state.launch_id or "no launch")
    return rule("Backend log", width, remark=f"{launch} (chosen)" if state.chosen else launch)


def _reading(state: LogState, width: int) -> Line:
    place: tuple[Piece, ...]
    if state.problem:
        place = (("! no more lines: ", Ink.WARN), plain(state.problem))
    elif state.following:
        place = (strong("following"),)
    else:
        more = f"{state.new_lines:,} new line{'' if state.new_lines == 1 else 's'} below"
        place = (strong(f"paused, {more}"), quiet(" · f follows"))
    lines = f"{state.kept:,} lines"
    if state.level is not Level.ALL:
        lines = f"{state.level.words}: {state.shown:,} of {lines}"
    rest = quiet(f" · {lines}{' · wrapped' if state.wrap else ''}")
    line = (*place, rest)
    # A long problem must not hide which lines are left out.
    return line if length(line) <= width or not state.problem else (quiet(f"{lines} · "), *place)


def _search(state: LogState) -> Line:
    what = (quiet("search "), strong(f"“{state.needle}”"))
    if not state.found:
        return (*what, plain("  nowhere in these lines"))
    where = f"{state.current:,} of {state.found:,}" if state.current else f"{state.found:,}"
    unit = "line" if state.found == 1 else "lines"
    return (*what, plain(f"  {where} {unit}"), quiet("  n next · N previous · esc ends"))
