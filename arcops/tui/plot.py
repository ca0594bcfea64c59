"""Bars and plots made of characters. A gap is what is unknown; a known zero has a mark of its own."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor

from arcops import wire

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar of `width` cells, for a share of 0..1."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (_EIGHTHS[rest] if rest else "")
    return filled, "░" * (width - len(filled))


def seconds_per_column(window: float, columns: int) -> int:
    """Whole seconds, so that `columns` of them cover at least the window."""
    return max(1, ceil(window / max(1, columns)))


def buckets(
    points: Iterable[wire.HistoryPoint],
    value_of: Callable[[wire.HistoryPoint], float | None],
    now: float,
    columns: int,
    seconds: int,
) -> tuple[float | None, ...]:
    """Means over `seconds` each, the newest last; None where nothing is known.

    The buckets begin at whole multiples of `seconds`, so that a bar keeps its height while it wanders to the left.
    """
    newest = floor(now / seconds)
    sums, counts = [0.0] * columns, [0] * columns
    for point in points:
        column = columns - 1 - (newest - floor(point.at / seconds))
        value = value_of(point)
        if value is not None and 0 <= column < columns:
            sums[column] += value
            counts[column] += 1
    return tuple(total / n if n else None for total, n in zip(sums, counts, strict=True))


def plot(values: Sequence[float | None], top: float, rows: int) -> tuple[str, ...]:
    """`rows` lines, the uppermost first, in which `top` is the full height. A known value shows at least the lowest
    mark; what is above zero shows one more."""
    heights = [None if value is None else _height(value, top, rows) for value in values]
    return tuple(
        "".join(" " if height is None else _LEVELS[min(8, max(0, height - 8 * row))] for height in heights)
        for row in reversed(range(rows))
    )


def _height(value: float, top: float, rows: int) -> int:
    if value <= 0 or top <= 0:
        return 1
    return max(2, round(min(1.0, value / top) * 8 * rows))
