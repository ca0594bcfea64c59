"""Places and words along an axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from arcops import words

Ticks = tuple[tuple[float, str], ...]
"""Where on the axis, and what is written there."""
_MOST = 1e15
"""What is larger is no measurement, and is drawn at the edge."""
_LEAST = 1e-12
"""The narrowest that an axis is."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis in its own coordinates: those of a logarithmic one are logarithms."""

    low: float
    high: float
    ticks: Ticks


def from_zero(values: Sequence[float]) -> Scale:
    """From 0 to a round number above the largest."""
    most = max((bounded(value) for value in values), default=0.0)
    step = _round_step(most if most > 0 else 1.0)
    count = max(1, ceil(most / step - 1e-9))
    return Scale(0.0, count * step, tuple((at * step, plain(at * step)) for at in range(count + 1)))


def between(low: float, high: float) -> Scale:
    """From one value to another, with round numbers between; for time, and for depths."""
    low, high = bounded(low), bounded(high)
    if high - low < 1.0:
        high = low + 1.0
    step = _round_step(high - low)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return Scale(low, high, tuple((at * step, plain(at * step)) for at in range(first, last + 1)))


def depths(values: Sequence[int]) -> Scale:
    """Of tokens, with ticks at the depths themselves: nothing was measured between."""
    known = sorted({bounded(value) for value in values}) or [0.0]
    width = max(known[-1] - known[0], known[-1] * 0.1, 1.0)
    ticks = _apart([(value, _kibi(value)) for value in known], width * 0.09)
    return Scale(known[0] - width * 0.05, known[-1] + width * 0.05, tuple(ticks))


def doublings(values: Sequence[int]) -> Scale:
    """Logarithmic, with a tick at each of the values: rungs of a ladder."""
    known = sorted({max(1, value) for value in values}) or [1]
    ticks = [(log2(value), f"{value:,}") for value in known]
    return Scale(ticks[0][0] - 0.25, ticks[-1][0] + 0.25, tuple(_apart(ticks, 0.4)))


def decades(values: Sequence[float]) -> Scale:
    """Logarithmic in base 10, for times in seconds from microseconds on."""
    known = [bounded(value) for value in values if value > 0]
    low, high = (floor(log10(min(known))), ceil(log10(max(known)))) if known else (-3, 0)
    low, high = max(low, -7), max(min(high, 15), max(low, -7) + 1)
    return Scale(low, high, tuple((float(at), _seconds(10.0**at)) for at in range(low, high + 1)))


def categories(names: Sequence[str]) -> Scale:
    """One place for each name."""
    ticks = tuple((float(at), name if len(name) <= 16 else f"{name[:15]}…") for at, name in enumerate(names))
    return Scale(-0.6, len(names) - 0.4, ticks)


def at_decade(seconds: float) -> float:
    """A time's place on `decades`."""
    return log10(min(max(seconds, 1e-7), _MOST))


def at_doubling(value: int) -> float:
    """A number's place on `doublings`."""
    return log2(max(1, value))


def bounded(value: float) -> float:
    """What a plot can show of any number."""
    return 0.0 if value != value else float(min(max(value, -_MOST), _MOST))


def plain(value: float) -> str:
    """`0`, `0.05`, `250`, `4,096`."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def _kibi(tokens: float) -> str:
    """`2K` for 2,048 tokens, as contexts are called; `2,000` for what is no multiple."""
    return f"{tokens / 1024:,.0f}K" if tokens >= 1024 and tokens % 1024 == 0 else f"{tokens:,.0f}"


def _round_step(width: float) -> float:
    """1, 2 or 5 times a power of ten, so that some five of them fill the width."""
    rough = max(width, _LEAST) / 5
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _apart(ticks: list[tuple[float, str]], least: float) -> list[tuple[float, str]]:
    """Without those that would be written over their neighbours."""
    kept: list[tuple[float, str]] = []
    for tick in ticks:
        if not kept or tick[0] - kept[-1][0] >= least:
            kept.append(tick)
    return kept


def _seconds(value: float) -> str:
    return words.latency(value) if value >= 0.001 else f"{value * 1e6:.3g} µs"
