"""How the draft does."""

from arcops import words
from arcops.core.rates import Speculation
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, Piece, length, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 12
_LONGEST_BAR = 16
_NOT_TIMED = "over one token a step; not measured against target-only"


class SpeculationPanel(Panel):
    """Acceptance, tokens a step, and the acceptance by position; nothing where the backend does not speculate."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        status = snapshot.status
        if not snapshot.serves or status is None or status.backend is None:
            return ()
        found = snapshot.rates.speculation
        if found is None and not status.backend.speculates:
            return ()
        window = snapshot.window_words
        title = rule("Speculation", room.width, remark=window)
        if found is None:
            why = snapshot.rates.absent or f"nothing was drafted in the {window}"
            return (title, (plain(words.unknown(why)),))
        lines = (title, _figures(found, room.width), *_positions(found.per_position, room))
        return (*lines, _speed_up(found)) if room.tall else lines


def _figures(found: Speculation, width: int) -> Line:
    """As much as fits, the most important first."""
    parts = (
        ("acceptance ".ljust(_LABEL), f"{words.percent(found.acceptance):>7}", ""),
        ("   tokens per step ", f"{found.tokens_per_step:.2f}", ""),
        (" (without a draft ", "1", ")"),
        ("   accepted ", f"{found.tokens_per_step - 1.0:.2f}", " a draft"),
        ("   drafts ", words.count(found.drafts), ""),
    )
    line: Line = ()
    for label, value, rest in parts:
        longer = (*line, quiet(label), strong(value), quiet(rest))
        if line and length(longer) > width:
            break
        line = longer
    return line


def _speed_up(found: Speculation) -> Line:
    """What it is, and what it is not: a step with a draft also takes longer than one without."""
    times = f"× {found.tokens_per_step:.2f}"
    return (quiet("speed-up".ljust(_LABEL)), strong(times), plain(f" {_NOT_TIMED}"))


def _positions(shares: tuple[float, ...], room: Room) -> Lines:
    if not shares:
        return ((quiet("by position ".ljust(_LABEL)), plain("unknown: the server does not say")),)
    room_each = (room.width - _LABEL) // len(shares)
    cells = min(_LONGEST_BAR, room_each - len("8 ") - len(" 100 %   "))
    if cells < 2:
        return (_small(shares),)
    line: list[Piece] = [quiet("by position ".ljust(_LABEL))]
    for number, share in enumerate(shares, start=1):
        filled, empty = plot.bar(share, cells)
        line += [quiet(f"{number} "), (filled, Ink.BAR), quiet(empty), strong(f"{share * 100:4.0f} %"), plain("   ")]
    return (tuple(line[:-1]),)


def _small(shares: tuple[float, ...]) -> Line:
    """Many positions: a column each, and figures for the first and the last."""
    (drawn,) = plot.plot(shares, 1.0, 1)
    ends = f"  1: {shares[0] * 100:.0f} %, {len(shares)}: {shares[-1] * 100:.0f} %"
    return (quiet("by position ".ljust(_LABEL)), (drawn, Ink.BAR), plain(ends))
