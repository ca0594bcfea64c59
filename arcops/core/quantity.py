"""Readings: a value with the time it was read, or an absence with its reason. Unknown is never zero."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value that was read at `at` (seconds on the monotonic clock)."""

    value: T
    at: float

    def map(self, function: Callable[[T], U]) -> "Known[U]":
        return Known(function(self.value), self.at)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reading that could not be made: `reason` in words for the operator, `at` when it was tried."""

    reason: str
    at: float

    def map(self, function: Callable[[object], object]) -> "Unknown":
        return self


Reading: TypeAlias = Known[T] | Unknown


def value_or_none(reading: "Reading[T]") -> T | None:
    """The value, or None where it is unknown: for edges that have their own word for absence."""
    return reading.value if isinstance(reading, Known) else None


def age(reading: "Known[object] | Unknown", now: float) -> float:
    """Seconds since the reading was made (or tried), never negative."""
    return max(0.0, now - reading.at)
