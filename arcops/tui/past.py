"""The past behind the plots: seconds for some minutes, minutes for some hours before them, and where launches began.

`Past` takes in what the daemon tells and forgets what is too old. `Rollup` makes a plot's columns of it, and only
looks at what is new.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor

from arcops import wire

SECONDS = 1200
"""Seconds that are kept one by one: more than a plot of five minutes takes on the widest terminal."""
FIRST_SECONDS = 600
"""Seconds that are asked for at first."""
MINUTES = 240
"""Minutes that are kept before those."""
MOST_COLUMNS = 600
"""Columns that are kept: more than any terminal has."""
NO_GAP = 2.6
"""Seconds between two looks that follow on each other: the daemon looks once a second, and now and then misses one."""


class Point(wire.HistoryPoint, frozen=True, kw_only=True):
    """A second (or a minute) of the past with what the daemon's samples say beyond its short history.

    Of a minute, rates are the mean and gauges the highest.
    """

    requests: float | None = None
    """Finished, per second."""
    tokens_per_step: float | None = None
    ttft: float | None = None
    """Seconds, the estimate of its median."""
    card_memory: float | None = None
    """Bytes in use of the launch's cards, together."""
    card_power: float | None = None
    """Watts, together."""


Get = Callable[[wire.HistoryPoint], float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """Another launch began at `at` (seconds since the epoch)."""

    at: float
    profile: str


class Ledger:
    """Tells what was prefilled when. vLLM counts a prompt when its prefill is complete; what was seen of it by the KV
    gauge while it went on was told already, and is not told twice: over a prefill, what is plotted adds up to the
    count."""

    def __init__(self) -> None:
        self._told = 0.0

    def prefill(self, counted: float | None, live: float | None, seconds: float) -> float | None:
        """Prompt tokens per second over these `seconds`; the daemon says `counted`, and `live` while one goes on."""
        if live is None and counted is None:
            return None
        if live is None and not counted:
            self._told = 0.0  # it was complete, or was given up
            return counted
        fresh = max(0.0, (counted or 0.0) * seconds - self._told)
        self._told = max(0.0, self._told - (counted or 0.0) * seconds) + (live or 0.0) * seconds
        return (live or 0.0) + (fresh / seconds if seconds > 0 else 0.0)


class Past:
    """Grows at its end; each part is handed out as a tuple that is made anew only when it has changed."""

    def __init__(self) -> None:
        self.seconds: tuple[wire.HistoryPoint, ...] = ()
        self.minutes: tuple[wire.HistoryPoint, ...] = ()
        self.marks: tuple[Mark, ...] = ()
        self._points: deque[wire.HistoryPoint] = deque()
        self._ledger = Ledger()
        self._launches: set[str] = set()
        self._first: wire.SamplePoint | None = None
        self._last: wire.SamplePoint | None = None
        """Of the seconds."""

    @property
    def newest(self) -> float | None:
        """The time of the newest second."""
        return self._points[-1].at if self._points else None

    def forget(self) -> None:
        """The clock was set: earlier times mean nothing any more."""
        self.__init__()

    def launched(self, launch_id: str, profile: str, at: float) -> None:
        """There is such a launch, since `at`; one that is known already is passed over."""
        if launch_id not in self._launches:
            self._launches.add(launch_id)
            self.marks = tuple(sorted((*self.marks, Mark(at, profile)), key=lambda mark: mark.at))[-MINUTES:]

    def take_minutes(self, points: Iterable[wire.SamplePoint]) -> None:
        """What was before the first second that is known."""
        before = self._points[0].at // 60 * 60 if self._points else None
        kept = [point for point in points if before is None or point.at + 60 <= before]
        self._see_launches(kept, None)
        if kept and self._first is not None:
            self._see_launches([self._first], kept[-1])
        self.minutes = tuple(_point(point, point.prefill) for point in kept)[-MINUTES:]

    def take_samples(self, points: Iterable[wire.SamplePoint]) -> bool:
        """Seconds, in order; whether there was a new one."""
        newest = self.newest
        new = [point for point in points if newest is None or point.at > newest]
        if not new:
            return False
        self._see_launches(new, self._last)
        self._first, self._last = self._first or new[0], new[-1]
        return self.take([self._second(point) for point in new])

    def take(self, points: Iterable[wire.HistoryPoint]) -> bool:
        """The same, as the short history tells them."""
        newest = self.newest
        new = [point for point in points if newest is None or point.at > newest]
        if not new:
            return False
        self._points.extend(new)
        while self._points[-1].at - self._points[0].at > SECONDS:
            self._fold_a_minute()
        self.seconds = tuple(self._points)
        return True

    def _see_launches(self, points: Iterable[wire.SamplePoint], before: wire.SamplePoint | None) -> None:
        """Mark where one launch follows on another; the first that is seen may have begun long before."""
        for point in points:
            if before is not None and before.launch_id != point.launch_id:
                self.launched(point.launch_id, point.profile, point.at)
            before = point

    def _second(self, point: wire.SamplePoint) -> Point:
        live = None if point.prefilling is None else point.prefilling.mean
        return _point(point, self._ledger.prefill(point.prefill, live, point.seconds))

    def _fold_a_minute(self) -> None:
        """The oldest minute of seconds becomes a minute."""
        begin = self._points[0].at // 60 * 60
        seconds: list[wire.HistoryPoint] = []
        while self._points and self._points[0].at < begin + 60:
            seconds.append(self._points.popleft())
        extra = [point for point in seconds if isinstance(point, Point)]
        folded = Point(
            at=begin,
            running=_most(point.running for point in seconds),
            waiting=_most(point.waiting for point in seconds),
            kv_usage=_most(point.kv_usage for point in seconds),
            prefill=_mean(point.prefill for point in seconds),
            decode=_mean(point.decode for point in seconds),
            requests=_mean(point.requests for point in extra),
            tokens_per_step=_mean(point.tokens_per_step for point in extra),
            ttft=_mean(point.ttft for point in extra),
            card_memory=_most(point.card_memory for point in extra),
            card_power=_mean(point.card_power for point in extra),
        )
        self.minutes = (*self.minutes, folded)[-MINUTES:]


def _point(point: wire.SamplePoint, prefill: float | None) -> Point:
    return Point(
        at=point.at,
        running=None if point.running is None else point.running.high,
        waiting=None if point.waiting is None else point.waiting.high,
        kv_usage=None if point.kv_usage is None else point.kv_usage.high,
        prefill=prefill,
        decode=point.decode,
        requests=point.requests,
        tokens_per_step=point.tokens_per_step,
        ttft=None if point.ttft is None else point.ttft.p50.estimate,
        card_memory=None if point.card_memory is None else point.card_memory.high,
        card_power=None if point.card_power is None else point.card_power.mean,
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(slots=True)
class _Bucket:
    """What the points within one stretch of time add up to."""

    weight: float = 0.0
    total: float = 0.0
    most: float = float("-inf")

    def add(self, value: float, weight: float) -> None:
        self.weight += weight
        self.total += value * weight
        self.most = max(self.most, value)


class Rollup:
    """One number of the past in stretches of `step` seconds, which begin at whole multiples of it, so that a column
    keeps its height while it wanders to the left.

    A look tells about the time since the look before it; where there was none for longer than `NO_GAP`, there is a gap.
    """

    def __init__(self, get: Get, step: int, *, most: bool) -> None:
        self.step = step
        self._get, self._most = get, most
        self._clear()

    def _clear(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._minutes: Sequence[wire.HistoryPoint] = ()
        self._seen: wire.HistoryPoint | None = None

    def follow(self, seconds: Sequence[wire.HistoryPoint], minutes: Sequence[wire.HistoryPoint] = ()) -> None:
        """Take in what is new of these; all of it, if they do not go on where the last ones ended."""
        new = _after(self._seen, seconds) if minutes is self._minutes else None
        if new is None:
            self._clear()
            self._minutes = minutes
            self._take_minutes(minutes)
            new = 0
        for point in seconds[new:]:
            self._take(point)
        if len(self._buckets) > 2 * MOST_COLUMNS:
            oldest = max(self._buckets) - MOST_COLUMNS
            self._buckets = {index: bucket for index, bucket in self._buckets.items() if index >= oldest}

    def columns(self, now: float, columns: int) -> tuple[float | None, ...]:
        """The newest `columns` stretches up to `now`, the newest last; None where nothing is known."""
        last = self.last(now)
        return tuple(self._value(index) for index in range(last - columns + 1, last + 1))

    def last(self, now: float) -> int:
        """The newest stretch that is shown: the one of the newest look as long as the next one is not overdue."""
        if self._seen is not None and 0 <= now - self._seen.at <= NO_GAP + self.step:
            return floor(self._seen.at / self.step)
        return floor(now / self.step)

    def _value(self, index: int) -> float | None:
        bucket = self._buckets.get(index)
        if bucket is None:
            return None
        return bucket.most if self._most else bucket.total / bucket.weight

    def _take_minutes(self, minutes: Iterable[wire.HistoryPoint]) -> None:
        for point in minutes:
            value = self._get(point)
            if value is not None:
                self._add(floor(point.at / self.step), value, 60.0)

    def _take(self, point: wire.HistoryPoint) -> None:
        before, self._seen = self._seen, point
        value = self._get(point)
        if value is None:
            return
        index = floor(point.at / self.step)
        first = index
        if before is not None and point.at - before.at <= NO_GAP:
            first = min(index, floor(before.at / self.step) + 1)
        for covered in range(first, index + 1):
            self._add(covered, value, 1.0)

    def _add(self, index: int, value: float, weight: float) -> None:
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = _Bucket()
        bucket.add(value, weight)


def _after(seen: wire.HistoryPoint | None, points: Sequence[wire.HistoryPoint]) -> int | None:
    """Where in `points` what comes after `seen` begins; None if they are not the same past."""
    if seen is None:
        return None
    index = bisect_right(points, seen.at, key=lambda point: point.at)
    return index if index and points[index - 1] is seen else None
