"""The past in numbers: what a launch did between two scrapes, and how stretches add up to longer ones.

A tally holds what can be added without loss: counters' differences, gauges by their looks, and histograms as the
observations in each bucket. So a quantile over an hour is that of the hour's observations, not an average of averages.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

import msgspec

from arcops.core.cards.figures import NO_FIGURES, Figures
from arcops.core.metrics import Histogram, Sample
from arcops.core.rates import Quantiles, Timed, quantile, restarted

MINUTE: Final = 60.0
"""Seconds of a rollup."""
LONGEST_GAP: Final = 60.0
"""Seconds between two scrapes beyond which nobody can say when between them it happened: that is a gap."""


class Gauge(msgspec.Struct, frozen=True, array_like=True):
    """A gauge at each look of a stretch."""

    total: float
    """The sum of what was read."""
    looks: int
    low: float
    high: float

    @property
    def mean(self) -> float:
        return self.total / self.looks


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """Observations of a histogram, by the buckets that have any: (above, up to (or inf), how many), in order."""

    buckets: tuple[tuple[float, float, float], ...]
    sum: float | None
    """Of all observations, in the unit of the bounds; None where it is not known."""

    @property
    def count(self) -> float:
        return sum(count for _, _, count in self.buckets)


NOTHING_OBSERVED: Final = Observed((), 0.0)


class Tally(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one launch did over a stretch of time. Counts are differences; None is unknown, and never 0.

    Tens of thousands are kept, encoded: hence a Struct, and as an array. A new field comes last, and has a default.
    """

    launch_id: str
    profile: str
    phase: str
    """At the last look."""
    at: float
    """When the last look was made, in seconds since the epoch by the clock of that time."""
    seconds: float
    """That the differences cover, by a clock that nobody sets; 0 for a look that had none before it."""
    running: Gauge | None = None
    waiting: Gauge | None = None
    kv_usage: Gauge | None = None
    """0..1."""
    prefilling: Gauge | None = None
    """Tokens per second of a prefill that goes on, at the looks at which one did."""
    prompt_tokens: float | None = None
    prompt_tokens_cached: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    """That finished."""
    preemptions: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    ttft: Observed | None = None
    """In seconds, as the two below."""
    inter_token: Observed | None = None
    queue: Observed | None = None
    card_memory: Gauge | None = None
    """Bytes in use of the launch's cards, together."""
    card_power: Gauge | None = None
    """Watts, together."""
    card_temperature: Gauge | None = None
    """°C, of the hottest."""
    card_clock: Gauge | None = None
    """MHz of the compute engines, of the slowest."""

    @property
    def minute(self) -> float:
        """When the minute that it belongs to begins, in seconds since the epoch."""
        return start_of(self.at, MINUTE)

    @property
    def prefill_tokens(self) -> float | None:
        """Prompt tokens that were computed: those found in the prefix cache were not."""
        if self.prompt_tokens is None:
            return None
        return self.prompt_tokens - min(self.prompt_tokens_cached or 0.0, self.prompt_tokens)

    @property
    def acceptance(self) -> float | None:
        """0..1; None without speculation, and where nothing was drafted."""
        if not self.draft_tokens or self.accepted_tokens is None:
            return None
        return min(1.0, self.accepted_tokens / self.draft_tokens)

    @property
    def tokens_per_step(self) -> float | None:
        """Mean accepted length, 1 + accepted / drafts."""
        return None if not self.drafts or self.accepted_tokens is None else 1.0 + self.accepted_tokens / self.drafts

    def per_second(self, amount: float | None) -> float | None:
        """A count as a rate over what is covered."""
        return None if amount is None or self.seconds <= 0 else amount / self.seconds


def start_of(at: float, step: float) -> float:
    """When the step that `at` lies in begins; steps are counted from the epoch on."""
    return at // step * step


def between(
    old: Timed | None,
    new: Timed,
    *,
    at: float,
    profile: str,
    phase: str,
    prefilling: float | None = None,
    cards: Figures = NO_FIGURES,
) -> Tally:
    """What happened between two scrapes, as of `at` (since the epoch); the gauges alone where nothing connects them.

    That is so without an earlier scrape, after another launch's, over a counter that began anew, and over a gap.
    `cards` are those of the launch, as they were read last.
    """
    sample = new.sample
    before = old.sample if old is not None and _connected(old, new) else None

    def rise(get: Callable[[Sample], float | None]) -> float | None:
        return _rise(None if before is None else get(before), get(sample))

    def observed(get: Callable[[Sample], Histogram | None]) -> Observed | None:
        return None if before is None else _observed(get(before), get(sample))

    return Tally(
        launch_id=new.launch_id,
        profile=profile,
        phase=phase,
        at=at,
        seconds=new.at - old.at if old is not None and before is not None else 0.0,
        running=look(sample.running),
        waiting=look(sample.waiting),
        kv_usage=look(sample.kv_usage),
        prefilling=look(prefilling),
        prompt_tokens=rise(lambda s: s.prompt_tokens),
        prompt_tokens_cached=rise(lambda s: s.prompt_tokens_cached),
        generation_tokens=rise(lambda s: s.generation_tokens),
        requests=rise(lambda s: None if s.finished is None else sum(s.finished.values())),
        preemptions=rise(lambda s: s.preemptions),
        drafts=rise(lambda s: s.drafts),
        draft_tokens=rise(lambda s: s.draft_tokens),
        accepted_tokens=rise(lambda s: s.accepted_tokens),
        ttft=observed(lambda s: s.ttft),
        inter_token=observed(lambda s: s.inter_token),
        queue=observed(lambda s: s.queue),
        card_memory=look(cards.memory),
        card_power=look(cards.power),
        card_temperature=look(cards.temperature),
        card_clock=look(cards.clock),
    )


def look(value: float | None) -> Gauge | None:
    """One look at a gauge."""
    return None if value is None else Gauge(value, 1, value, value)


def merged(first: Tally, second: Tally) -> Tally:
    """Both stretches as one; `second` is the later one, of the same launch. Associative.

    What is unknown of one of them is known of the part that the other covers.
    """
    if first.launch_id != second.launch_id:
        raise ValueError(f"tallies of two launches: {first.launch_id} and {second.launch_id}")
    return Tally(
        launch_id=second.launch_id,
        profile=second.profile,
        phase=second.phase,
        at=second.at,
        seconds=first.seconds + second.seconds,
        running=_gauges(first.running, second.running),
        waiting=_gauges(first.waiting, second.waiting),
        kv_usage=_gauges(first.kv_usage, second.kv_usage),
        prefilling=_gauges(first.prefilling, second.prefilling),
        prompt_tokens=_sum(first.prompt_tokens, second.prompt_tokens),
        prompt_tokens_cached=_sum(first.prompt_tokens_cached, second.prompt_tokens_cached),
        generation_tokens=_sum(first.generation_tokens, second.generation_tokens),
        requests=_sum(first.requests, second.requests),
        preemptions=_sum(first.preemptions, second.preemptions),
        drafts=_sum(first.drafts, second.drafts),
        draft_tokens=_sum(first.draft_tokens, second.draft_tokens),
        accepted_tokens=_sum(first.accepted_tokens, second.accepted_tokens),
        ttft=_both(first.ttft, second.ttft),
        inter_token=_both(first.inter_token, second.inter_token),
        queue=_both(first.queue, second.queue),
        card_memory=_gauges(first.card_memory, second.card_memory),
        card_power=_gauges(first.card_power, second.card_power),
        card_temperature=_gauges(first.card_temperature, second.card_temperature),
        card_clock=_gauges(first.card_clock, second.card_clock),
    )


def rolled_up(tallies: Iterable[Tally], step: float) -> list[tuple[float, Tally]]:
    """The tallies of each launch in each step of `step` seconds as one, with the step's start; by that, then as given.

    What a launch did within one step is together even where a clock that was set back told that time twice.
    """
    found: dict[tuple[float, str], Tally] = {}
    for tally in tallies:
        key = (start_of(tally.at, step), tally.launch_id)
        earlier = found.get(key)
        found[key] = tally if earlier is None else merged(earlier, tally)
    return sorted(((start, tally) for (start, _), tally in found.items()), key=lambda pair: pair[0])


def quantiles(observed: Observed | None) -> Quantiles | None:
    """p50, p90 and p99 with the bounds of their buckets; None where nothing was observed."""
    if observed is None or not observed.buckets:
        return None
    histogram = _cumulative(observed)
    p50, p90, p99 = (quantile(histogram, q) for q in (0.5, 0.9, 0.99))
    if p50 is None or p90 is None or p99 is None:
        return None
    mean = None if observed.sum is None else observed.sum / histogram.count
    return Quantiles(p50, p90, p99, mean, histogram.count)


def _connected(old: Timed, new: Timed) -> bool:
    """Whether the counters of `new` go on where those of `old` ended, not too long before."""
    return (
        old.launch_id == new.launch_id
        and 0.0 < new.at - old.at <= LONGEST_GAP
        and not restarted(old.sample, new.sample)
    )


def _rise(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before


def _observed(before: Histogram | None, after: Histogram | None) -> Observed | None:
    """What was observed between two looks at a histogram; None where they are not of the same one."""
    if before is None or after is None or before.bounds != after.bounds:
        return None
    if before.count == after.count:
        return NOTHING_OBSERVED
    buckets: list[tuple[float, float, float]] = []
    low, below = 0.0, 0.0
    for bound, old, new in zip(after.bounds, before.counts, after.counts, strict=True):
        count = new - old - below
        if count < 0.0:
            return None
        if count:
            buckets.append((low, bound, count))
        low, below = bound, new - old
    total = None if before.sum is None or after.sum is None else after.sum - before.sum
    return Observed(tuple(buckets), total)


def _cumulative(observed: Observed) -> Histogram:
    """The form in which quantiles are read: an empty bucket matters only where the next one begins."""
    bounds: list[float] = []
    counts: list[float] = []
    count = 0.0
    for low, high, here in observed.buckets:
        if low > (bounds[-1] if bounds else 0.0):
            bounds.append(low)
            counts.append(count)
        count += here
        bounds.append(high)
        counts.append(count)
    if bounds[-1] != inf:
        bounds.append(inf)
        counts.append(count)
    return Histogram(tuple(bounds), tuple(counts), observed.sum, count)


def _gauges(first: Gauge | None, second: Gauge | None) -> Gauge | None:
    if first is None or second is None:
        return second if first is None else first
    return Gauge(
        first.total + second.total,
        first.looks + second.looks,
        min(first.low, second.low),
        max(first.high, second.high),
    )


def _sum(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _both(first: Observed | None, second: Observed | None) -> Observed | None:
    if first is None or second is None:
        return second if first is None else first
    if not first.buckets or not second.buckets:
        return second if not first.buckets else first
    buckets: dict[tuple[float, float], float] = {}
    for low, high, count in (*first.buckets, *second.buckets):
        buckets[low, high] = buckets.get((low, high), 0.0) + count
    return Observed(
        tuple((low, high, count) for (low, high), count in sorted(buckets.items())), _sum_known(first.sum, second.sum)
    )


def _sum_known(first: float | None, second: float | None) -> float | None:
    """A mean needs all of the sum."""
    return None if first is None or second is None else first + second
