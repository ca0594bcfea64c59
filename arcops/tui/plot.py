"""Bars and plots made of characters. A gap is what is unknown; a known zero has a mark of its own."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from math import ceil, floor, log10

from arcops import words
from arcops.tui.ink import Ink, Line, Lines, quiet

SCALE = 9
"""Cells of a value axis: `2,500 ┤` with room for seven digits."""
MARK = "▲"
"""On the time axis, where another launch began."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_SECOND = "▒"
"""What the second of two stacked series is made of."""
_FULL_MINUTES_FROM = 20
"""Seconds a column from which on it is whole minutes: the past beyond some minutes is known in minutes."""
_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_TICKS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
"""Seconds between two marks of a time axis."""
_TICK_CELLS = 12
"""Cells from one mark of a time axis to the next, at least."""


def bar(share: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar of `width` cells, for a share of 0..1."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (_EIGHTHS[rest] if rest else "")
    return filled, "░" * (width - len(filled))


def seconds_per_column(window: float, columns: int) -> int:
    """Whole seconds (or minutes, where they are many), so that `columns` of them cover at least the window."""
    seconds = max(1, ceil(window / max(1, columns)))
    return seconds if seconds < _FULL_MINUTES_FROM else ceil(seconds / 60) * 60


def round_top(peak: float) -> float:
    """The end of a value axis for values up to `peak`: a round number, so that it seldom moves."""
    if peak <= 0:
        return 1.0
    power = 10.0 ** floor(log10(peak))
    return next(step * power for step in (*_ROUND, 20.0) if step * power >= peak * 0.999)


def plot(values: Sequence[float | None], top: float, rows: int) -> tuple[str, ...]:
    """`rows` lines, the uppermost first, in which `top` is the full height. A known value shows at least the lowest
    mark; what is above zero shows one more."""
    heights = [None if value is None else _height(value, top, rows) for value in values]
    # What a cell shows, by how many eighths the value is above the cell's foot; long enough for all that can be.
    ladder = " " * 8 * rows + _LEVELS[:8] + "█" * 8 * rows
    return tuple(
        "".join([" " if height is None else ladder[height + foot] for height in heights])
        for foot in range(8, 8 * rows + 8, 8)
    )


def stacked(
    lower: Sequence[float | None], upper: Sequence[float | None], top: float, rows: int
) -> tuple[tuple[str, ...], ...]:
    """Like `plot`, for two series of which the second stands on the first. What of it is above zero shows a cell."""
    below = [None if value is None else _height(value, top, rows) for value in lower]
    above = [
        0 if low is None or not up else max(1, round((_height(low + up, top, rows) - max(0, height or 0)) / 8))
        for low, up, height in zip(lower, upper, below, strict=True)
    ]
    return tuple(
        tuple(
            " " if height is None else _stacked_cell(height, cells, row)
            for height, cells in zip(below, above, strict=True)
        )
        for row in reversed(range(rows))
    )


def _stacked_cell(height: int, cells: int, row: int) -> str:
    if not cells:
        return _LEVELS[min(8, max(0, height - 8 * row))]
    whole = max(0, round(height / 8))
    return "█" if row < whole else _SECOND if row < whole + cells else " "


def _height(value: float, top: float, rows: int) -> int:
    if value <= 0 or top <= 0:
        return 1
    return max(2, round(min(1.0, value / top) * 8 * rows))


def time_axis(columns: int, seconds: int, marks: Collection[int] = ()) -> str:
    """`──┴60 s ago───┴45 s────────┴30 s────────now`: a corner below the column of that age; `columns` cells.

    In the columns `marks` another launch began; `now` stands to the left of one that began just now.
    """
    cells = ["─"] * columns
    for mark in marks:
        if 0 <= mark < columns:
            cells[mark] = MARK
    end = next((end for end in range(columns, 2, -1) if MARK not in cells[end - len("now") : end]), 0)
    if end:
        cells[end - len("now") : end] = "now"
    every = next((tick for tick in _TICKS if tick >= _TICK_CELLS * seconds), None)
    if every is not None:
        ages = range(every, columns * seconds, every)
        for age in ages:
            ago = " ago" if age == ages[-1] else ""
            _write(cells, columns - 1 - age // seconds, f"┴{_age(age, every)}{ago}")
    return "".join(cells)


def _write(cells: list[str], at: int, text: str) -> None:
    """Set the text in, if there is room for it before what stands there already."""
    if at >= 0 and all(cell == "─" for cell in cells[at : at + len(text) + 1]) and at + len(text) <= len(cells):
        cells[at : at + len(text)] = text


def _age(seconds: int, every: int) -> str:
    """`30 s`, `5 min`, `2 h`: in the unit of the steps, the same all along an axis."""
    if every % 3600 == 0:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if every % 60 == 0 else f"{seconds} s"


def framed(rows: Sequence[Iterable[str]], top: str, middle: str, unit: str, axis: str, marks: Collection[int]) -> Lines:
    """Drawn rows with a value axis to the left and the time axis below."""
    last = len(rows) - 1
    scale = dict.fromkeys(range(len(rows)), "│")
    if last >= 3:
        scale[1] = f"{unit} │"
    if middle and last >= 4 and last % 2 == 0:
        scale[last // 2] = f"{middle} ┤"
    scale |= {last: "0 ┤", 0: f"{top} ┤"}
    lines = ((quiet(scale[number].rjust(SCALE)), *_inked(_with_marks(row, marks))) for number, row in enumerate(rows))
    return (*lines, (quiet(" " * (SCALE - 1) + "└" + axis),))


def _with_marks(row: Iterable[str], marks: Collection[int]) -> str:
    cells = list(row)
    for mark in marks:
        if 0 <= mark < len(cells) and cells[mark] == " ":
            cells[mark] = "┊"
    return "".join(cells)


def _inked(row: str) -> Line:
    """The second series in an ink of its own."""
    if _SECOND not in row:
        return ((row, Ink.BAR),)
    return tuple(
        ("".join(cells), Ink.WARN if second else Ink.BAR)
        for second, cells in groupby(row, lambda cell: cell == _SECOND)
    )


def scale_number(value: float) -> str:
    """A number for a value axis: whole where it is, else short."""
    return f"{value:,.0f}" if value == round(value) else words.number(value)
