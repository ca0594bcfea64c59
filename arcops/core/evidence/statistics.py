"""Percentiles, medians and spreads, by one definition for all of arcops' evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isfinite


@dataclass(frozen=True, slots=True)
class Spread:
    """Several values of one figure: the one in the middle, with the least and the most beside it."""

    median: float
    least: float
    most: float
    count: int
    """Values that are known."""
    unknown: int = 0
    """Values that are not; they are in none of the others."""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The value below which `percent` (0..100) of `values` lie; None of nothing.

    Linear between the two nearest ranks, h = (n - 1) * percent / 100, which is what numpy.percentile does when it is
    not told otherwise, and so `vllm bench serve` (definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical
    Packages", 1996). Raises ValueError for a percentage that is none.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} is no percentage")
    if not values:
        return None
    ordered = sorted(values)
    rank = (len(ordered) - 1) * percent / 100
    below = floor(rank)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    share = rank - below
    # From the nearer end, as numpy does: so it is monotone in `percent`, and exact at both ends.
    between = low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)
    return min(max(between, low), high)


def median(values: Sequence[float]) -> float | None:
    """The value in the middle, or halfway between the two there; None of nothing."""
    return percentile(values, 50)


def deviation(values: Sequence[float]) -> float | None:
    """The median absolute deviation from the median, not scaled: a spread that one straggler does not move."""
    middle = median(values)
    return None if middle is None else median([abs(value - middle) for value in values])


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are known; None where none is."""
    given = tuple(values)
    known = [value for value in given if value is not None]
    middle = median(known)
    if middle is None:
        return None
    return Spread(middle, min(known), max(known), len(known), len(given) - len(known))


def ratio(part: float | None, whole: float | None) -> float | None:
    """`part` / `whole`; None where one is unknown, the whole is not above 0, or what comes of it is no number."""
    if part is None or whole is None or whole <= 0:
        return None
    try:
        found = part / whole
    except OverflowError:  # of whole numbers that no float can hold
        return None
    return found if isfinite(found) else None
