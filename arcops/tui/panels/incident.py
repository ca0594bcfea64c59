"""The server's numbers around a moment: a minute before it and a minute after, a small plot each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from arcops import wire, words
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule, strong

AROUND = 60.0
"""Seconds before, and after."""
_LABEL = 10
_HIGHEST = 3
"""Rows of a plot, where there is room."""
_MEANS = 26
"""Cells for the means before and after."""

Value = Callable[[wire.SamplePoint], float | None]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the daemon has of them."""

    at: float
    """The moment, in seconds since the epoch."""
    samples: wire.Samples | None = None
    """None while they are asked for, or where there is no answer."""
    problem: str = ""
    """Why there is none."""


def lines(numbers: Numbers, width: int, height: int = 0) -> Lines:
    """A rule, and a plot for each number, as high as `height` allows; or why there are none."""
    title = "Numbers around it"
    if numbers.problem:
        return (rule(title, width), (plain(words.unknown(numbers.problem)),))
    samples = numbers.samples
    if samples is None:
        return (rule(title, width), (quiet("reading…"),))
    if not any(_columns(point, numbers.at - AROUND, samples.step, 120, 1) for point in samples.points):
        why = samples.absent or "no server was read within a minute of it"
        return (rule(title, width), (plain(words.unknown(why)),))
    columns = max(12, width - _LABEL - _MEANS - 2)
    seconds = max(1, ceil(2 * AROUND / columns))
    columns = ceil(2 * AROUND / seconds)
    remark = "means of a minute" if samples.step > 1 else f"{seconds} s a column" if seconds > 1 else ""
    high = max(1, min(_HIGHEST, (height - 3) // len(_ROWS)))
    rows = (
        line
        for label, value, shown in _ROWS
        for line in _plot(label, numbers.at, samples, (columns, seconds, high), value, shown)
    )
    absent = ((quiet(f"not all of it: {words.clean(samples.absent)}"),),) if samples.absent else ()
    return (rule(title, width, remark=remark), *rows, _axis(columns), *absent)


def columns_of(at: float, samples: wire.Samples, columns: int, seconds: int, value: Value) -> tuple[float | None, ...]:
    """The means of `seconds` each; `at` is where the second half begins. None where nothing is known."""
    sums, counts = [0.0] * columns, [0] * columns
    for point in samples.points:
        found = value(point)
        if found is None:
            continue
        for column in _columns(point, at - AROUND, samples.step, columns, seconds):
            sums[column] += found
            counts[column] += 1
    return tuple(total / n if n else None for total, n in zip(sums, counts, strict=True))


def _columns(point: wire.SamplePoint, since: float, step: float, columns: int, seconds: int) -> range:
    """Those that a point tells about: a second's look is at its end, a minute begins where it says."""
    first = int((point.at - since) // seconds)
    last = first if step <= 1 else int((point.at + step - since - 0.001) // seconds)
    return range(max(0, first), min(columns - 1, last) + 1)


def _plot(
    label: str,
    at: float,
    samples: wire.Samples,
    size: tuple[int, int, int],
    value: Value,
    shown: Callable[[float], str],
) -> Iterator[Line]:
    """`size`: columns, seconds of each, and rows."""
    columns, seconds, high = size
    values = columns_of(at, samples, columns, seconds, value)
    top = 1.0 if shown is words.percent else max((one for one in values if one is not None), default=0.0)
    half = columns // 2
    *upper, lowest = plot.plot(values, top, high)
    for drawn in upper:
        yield (quiet(" " * _LABEL), (drawn[:half], Ink.BAR), quiet("│"), (drawn[half:], Ink.BAR))
    yield (
        quiet(label.ljust(_LABEL)),
        (lowest[:half], Ink.BAR),
        quiet("│"),
        (lowest[half:], Ink.BAR),
        plain(" "),
        strong(_shown(_mean(at - AROUND, at, samples, value), shown).rjust(11)),
        quiet(" → "),
        strong(_shown(_mean(at, at + AROUND, samples, value), shown)),
    )


def _axis(columns: int) -> Line:
    half = columns // 2
    long = half > len("60 s before")
    left = (f"{AROUND:.0f} s before" if long else f"−{AROUND:.0f} s").ljust(half, "─")
    right = (f"{AROUND:.0f} s after" if long else f"+{AROUND:.0f} s").rjust(columns - half, "─")
    return (quiet(" " * _LABEL), quiet(left), plain("▲"), quiet(f"{right} {'before':>11} → after"))


def _mean(since: float, until: float, samples: wire.Samples, value: Value) -> float | None:
    """Of the points in that minute; None where nothing is known of it."""
    middle = samples.step / 2 if samples.step > 1 else 0.0
    found = [value(point) for point in samples.points if since <= point.at + middle < until]
    known = [one for one in found if one is not None]
    return sum(known) / len(known) if known else None


def _shown(value: float | None, shown: Callable[[float], str]) -> str:
    return "unknown" if value is None else shown(value)


def _spread(spread: wire.Spread | None) -> float | None:
    return None if spread is None else spread.mean


def _prefill(point: wire.SamplePoint) -> float | None:
    """What was counted, or what the KV cache's growth says of a prefill that goes on."""
    live = _spread(point.prefilling)
    if live is None:
        return point.prefill
    return live if point.prefill is None else max(live, point.prefill)


_ROWS: Sequence[tuple[str, Value, Callable[[float], str]]] = (
    ("running", lambda point: _spread(point.running), words.number),
    ("waiting", lambda point: _spread(point.waiting), words.number),
    ("KV cache", lambda point: _spread(point.kv_usage), words.percent),
    ("prefill", _prefill, words.tokens_per_second),
    ("decode", lambda point: point.decode, words.tokens_per_second),
)
