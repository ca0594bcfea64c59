"""What a stretch of a run took of the cards, by the looks at them."""

from collections.abc import Iterable, Mapping, Sequence

from arcops.core.evidence.setting import CardSample

Span = tuple[float, float]
"""From when to when, in seconds since the run began."""


def power_of(samples: Sequence[CardSample], time: Span | None) -> float | None:
    """Watts of all cards together, the mean of the looks at each; None where a card had fewer than two."""
    found = _by_card((one.address, one.power) for one in _within(samples, time))
    means = [sum(values) / len(values) for values in found.values() if len(values) > 1]
    return sum(means) if means and len(means) == len(found) else None


def peak_memory_of(samples: Sequence[CardSample], time: Span | None) -> int | None:
    """Bytes: the sum of what each card held at most; None where a card could not be read."""
    found = _by_card((one.address, one.memory_used) for one in _within(samples, time))
    peaks = [int(max(values)) for values in found.values() if values]
    return sum(peaks) if peaks and len(peaks) == len(found) else None


def _within(samples: Sequence[CardSample], time: Span | None) -> list[CardSample]:
    return [] if time is None else [one for one in samples if time[0] <= one.at <= time[1]]


def _by_card(readings: Iterable[tuple[str, float | None]]) -> Mapping[str, list[float]]:
    """The known ones of each card; a card of which none is known is there, too."""
    found: dict[str, list[float]] = {}
    for address, value in readings:
        kept = found.setdefault(address, [])
        if value is not None:
            kept.append(value)
    return found
