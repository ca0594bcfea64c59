"""Rates and quantiles over a window, from timed scrapes: what the operator reads.

Counters only ever tell differences. A difference is taken within one launch, and not across a moment at which a counter
fell or the server's start time changed, so that no rate is ever negative. What the window cannot tell is None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from arcops.core.metrics import Histogram, Sample


@dataclass(frozen=True, slots=True)
class Timed:
    """A scrape of the launch `launch_id`, made at `at` (seconds, monotonic)."""

    at: float
    sample: Sample
    launch_id: str


@dataclass(frozen=True, slots=True)
class Quantile:
    """What a histogram says about a quantile: it lies above `low` and not above `high` (None: no upper bound known).

    `estimate` interpolates linearly within the bucket, as Prometheus does; without an upper bound it is `low`.
    """

    low: float
    high: float | None
    estimate: float


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of `count` observations that were made within the window, in the unit of the histogram."""

    p50: Quantile
    p90: Quantile
    p99: Quantile
    mean: float | None
    count: float


@dataclass(frozen=True, slots=True)
class Speculation:
    """How the draft did within the window."""

    drafts: float
    """Drafts that were verified."""
    acceptance: float | None
    """0..1: accepted over drafted tokens."""
    tokens_per_step: float
    """Mean accepted length: what one step brings a request, 1 + accepted / drafts."""
    per_position: tuple[float, ...]
    """0..1 each: how often the draft's token at this position was accepted; empty where vLLM does not say."""


@dataclass(frozen=True, slots=True)
class Prefilling:
    """A prefill that is going on, read from the KV gauge: vLLM's token counters stand still until it is complete."""

    since: float
    """The last look before the gauge began to rise (on the clock of `Rates.at`): early by no more than one scrape."""
    rate: float | None
    """Prompt tokens per second, lately; None until two steps were seen, or where the pool's size is unknown."""
    tokens_done: float | None
    """Tokens that went into the KV cache since then, those found in the prefix cache included."""
    kv_slope: float
    """Rise of the KV usage per second, since `since`."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the newest launch does, over the last `seconds`, as of `at`.

    This is also a message of wire/. Its two times, `at` and `prefilling.since`, are in seconds on the clock of the
    scrapes: monotonic as `rates` gives them, since the epoch as they go over the wire.
    """

    at: float | None = None
    """When the newest scrape was made; None without any."""
    launch_id: str | None = None
    seconds: float = 0.0
    """Time that the differences really cover, in seconds."""
    absent: str | None = None
    """Why there are no rates, in words; None where there are some."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """These three are as of now: 0..1 for the usage, the mean over engines."""
    kv_capacity: float | None = None
    """Tokens that the KV cache holds, by vLLM's own count."""

    prefill: float | None = None
    """Prompt tokens per second that were computed; they are counted when their prefill is complete."""
    prefill_speed: float | None = None
    """Tokens per second of prefill time, over the requests that finished."""
    decode: float | None = None
    """Generated tokens per second, all requests together."""
    requests: float | None = None
    """Finished requests per second."""
    finished: Mapping[str, float] | None = None
    """Requests that finished, by reason."""
    preemptions: float | None = None
    """How many, not how often."""
    prefix_hit_rate: float | None = None
    """0..1: tokens found in the prefix cache over tokens looked up; None if nothing was looked up."""
    cached_share: float | None = None
    """0..1: cached over all prompt tokens of the requests whose prefill is complete."""
    ttft: Quantiles | None = None
    inter_token: Quantiles | None = None
    """Between decode steps of a request; with speculation a step brings several tokens."""
    queue: Quantiles | None = None
    e2e: Quantiles | None = None
    """From a request's arrival to its last token."""
    speculation: Speculation | None = None
    """None without speculation, and where nothing was drafted."""
    prefilling: Prefilling | None = None


def rates(samples: Sequence[Timed], window: float) -> Rates:
    """Rates over the last `window` seconds of `samples`, which are in order of time.

    Only the newest sample's launch counts. `prefilling` looks further back than the window, to where the prefill began.
    """
    if not samples:
        return Rates(absent="nothing was scraped yet")
    newest = samples[-1]
    mine = _of_launch(samples, newest.launch_id)
    sample = newest.sample
    spans = _spans([timed for timed in mine if timed.at >= newest.at - window])
    delta = _Delta(spans)
    prompt, cached = delta.number(lambda s: s.prompt_tokens), delta.number(lambda s: s.prompt_tokens_cached)
    finished = delta.table(lambda s: s.finished)
    return Rates(
        at=newest.at,
        launch_id=newest.launch_id,
        seconds=delta.seconds,
        absent=None if spans else f"no two scrapes of this launch within {window:g} s",
        running=sample.running,
        waiting=sample.waiting,
        kv_usage=sample.kv_usage,
        kv_capacity=sample.kv_capacity_tokens,
        prefill=delta.per_second(None if prompt is None else prompt - min(cached or 0.0, prompt)),
        prefill_speed=_speed(delta),
        decode=delta.per_second(delta.number(lambda s: s.generation_tokens)),
        requests=delta.per_second(None if finished is None else sum(finished.values())),
        finished=finished,
        preemptions=delta.number(lambda s: s.preemptions),
        prefix_hit_rate=_share(delta.number(lambda s: s.prefix_hits), delta.number(lambda s: s.prefix_queries)),
        cached_share=_share(cached, prompt),
        ttft=_quantiles(delta.histogram(lambda s: s.ttft)),
        inter_token=_quantiles(delta.histogram(lambda s: s.inter_token)),
        queue=_quantiles(delta.histogram(lambda s: s.queue)),
        e2e=_quantiles(delta.histogram(lambda s: s.e2e)),
        speculation=_speculation(delta),
        prefilling=_prefilling(mine, window),
    )


def _of_launch(samples: Sequence[Timed], launch_id: str) -> list[Timed]:
    """The unbroken tail of samples of this launch, strictly forward in time."""
    tail: list[Timed] = []
    for timed in reversed(samples):
        if timed.launch_id != launch_id:
            break
        if not tail or timed.at < tail[-1].at:
            tail.append(timed)
    tail.reverse()
    return tail


def restarted(old: Sample, new: Sample) -> bool:
    """Whether the counters began anew between two scrapes."""
    if (old.process_start_time, new.process_start_time) != (None, None) and (
        old.process_start_time != new.process_start_time
    ):
        return True
    pairs = (
        (old.prompt_tokens, new.prompt_tokens),
        (old.generation_tokens, new.generation_tokens),
        (old.prefix_queries, new.prefix_queries),
        (old.drafts, new.drafts),
    )
    return any(before is not None and after is not None and after < before for before, after in pairs)


def _spans(samples: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """First and last sample of each stretch without a restart, for stretches of at least two samples."""
    spans: list[tuple[Timed, Timed]] = []
    if not samples:
        return spans
    first = samples[0]
    for old, new in pairwise(samples):
        if restarted(old.sample, new.sample):
            if old is not first:
                spans.append((first, old))
            first = new
    if samples[-1] is not first:
        spans.append((first, samples[-1]))
    return spans


class _Delta:
    """Differences over the spans, added up. A span that lacks a number (or in which it fell) tells nothing about it."""

    def __init__(self, spans: Sequence[tuple[Timed, Timed]]) -> None:
        self._spans = [(first.sample, last.sample) for first, last in spans]
        self.seconds = sum(last.at - first.at for first, last in spans)

    def number(self, get: Callable[[Sample], float | None]) -> float | None:
        total: float | None = None
        for first, last in self._spans:
            before, after = get(first), get(last)
            if before is not None and after is not None and after >= before:
                total = (total or 0.0) + after - before
        return total

    def per_second(self, amount: float | None) -> float | None:
        return None if amount is None or self.seconds <= 0 else amount / self.seconds

    def table(self, get: Callable[[Sample], Mapping[str, float] | None]) -> Mapping[str, float] | None:
        keys = {key for _, last in self._spans for key in get(last) or {}}
        # A reason that was not there at first has begun at 0: vLLM may show a label set only once it has happened.
        parts = {key: self.number(lambda s, key=key: _at(get(s), key)) for key in sorted(keys)}
        return {key: part for key, part in parts.items() if part is not None} if keys else None

    def histogram(self, get: Callable[[Sample], Histogram | None]) -> Histogram | None:
        total: Histogram | None = None
        for first, last in self._spans:
            part = _minus(get(last), get(first))
            if part is not None:
                total = part if total is None else (_plus(total, part) or part)
        return total


def _at(table: Mapping[str, float] | None, key: str) -> float | None:
    return None if table is None else table.get(key, 0.0)


def _minus(after: Histogram | None, before: Histogram | None) -> Histogram | None:
    if after is None or before is None or after.bounds != before.bounds:
        return None
    counts = tuple(new - old for new, old in zip(after.counts, before.counts, strict=True))
    if any(low > high for low, high in pairwise((0.0, *counts))):
        return None
    total = None if after.sum is None or before.sum is None else after.sum - before.sum
    return Histogram(after.bounds, counts, total, after.count - before.count)


def _plus(one: Histogram, other: Histogram) -> Histogram | None:
    if one.bounds != other.bounds:
        return None
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    total = None if one.sum is None or other.sum is None else one.sum + other.sum
    return Histogram(one.bounds, counts, total, one.count + other.count)


def quantile(histogram: Histogram, q: float) -> Quantile | None:
    """The `q` quantile (0 < q <= 1) of non-negative observations; None if there are none."""
    if histogram.count <= 0:
        return None
    rank = q * histogram.count
    low, below = 0.0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if count >= rank and count > below:
            if bound == inf:
                return Quantile(low, None, low)
            return Quantile(low, bound, low + (bound - low) * max(0.0, rank - below) / (count - below))
        low, below = bound, count
    return None


def _quantiles(histogram: Histogram | None) -> Quantiles | None:
    if histogram is None:
        return None
    p50, p90, p99 = (quantile(histogram, q) for q in (0.5, 0.9, 0.99))
    if p50 is None or p90 is None or p99 is None:
        return None
    mean = None if histogram.sum is None else histogram.sum / histogram.count
    return Quantiles(p50, p90, p99, mean, histogram.count)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else min(1.0, part / whole)


def _speed(delta: _Delta) -> float | None:
    tokens, time = delta.histogram(lambda s: s.prefill_computed), delta.histogram(lambda s: s.prefill_time)
    if tokens is None or time is None or not tokens.sum or not time.sum or time.sum <= 0:
        return None
    return tokens.sum / time.sum


def _speculation(delta: _Delta) -> Speculation | None:
    drafts, accepted = delta.number(lambda s: s.drafts), delta.number(lambda s: s.accepted_tokens)
    if not drafts or accepted is None:
        return None
    positions = delta.table(_positions)
    return Speculation(
        drafts=drafts,
        acceptance=_share(accepted, delta.number(lambda s: s.draft_tokens)),
        tokens_per_step=1.0 + accepted / drafts,
        per_position=() if positions is None else tuple(min(1.0, n / drafts) for n in positions.values()),
    )


def _positions(sample: Sample) -> Mapping[str, float] | None:
    counts = sample.accepted_per_position
    return None if counts is None else {f"{position:03d}": count for position, count in enumerate(counts)}


# A prefill that is going on. The gauge is a staircase: it rises once a step, when the step's chunk of the prompt is in,
# and a step may take seconds. So speed is read between the edges of the stairs, not between arbitrary looks at it.


def _prefilling(samples: Sequence[Timed], window: float) -> Prefilling | None:
    """What goes on at the newest sample, if it is a prefill.

    Decoding fills the cache as well, by a token for each one generated. So the start of a prefill is the latest look at
    which "usage in tokens, less twice the tokens generated" was lowest: while only decoding goes on that number falls.
    """
    if not samples or not samples[-1].sample.running:
        return None
    stretch = _rising_tail(samples)
    newest = stretch[-1].sample
    growth = newest.kv_growth_tokens
    excess = [_usage(timed) * (growth or 1.0) - 2.0 * _decoded(stretch[0], timed) for timed in stretch]
    start = min(range(len(stretch)), key=lambda index: (excess[index], -index))
    base, now = stretch[start], stretch[-1]
    edges = [later for earlier, later in pairwise(stretch[start:]) if _usage(later) > _usage(earlier)]
    if not edges:
        return None
    decoded = _decoded(base, now)
    # Blocks are whole: every running request may have begun one without a prefill.
    slack = (newest.running or 0.0) * (newest.kv_block_tokens or 0.0) if decoded else 0.0
    if decoded and (growth is None or excess[-1] - excess[start] <= slack):
        return None
    rise, seconds = _usage(now) - _usage(base), now.at - base.at
    begun = max(0.0, (newest.running or 0.0) - (base.sample.running or 0.0))
    state = begun * (newest.kv_state_tokens or 0.0)
    speed = _edge_slope(edges, now.at, window)
    return Prefilling(
        since=base.at,
        rate=None if speed is None or growth is None else max(0.0, speed * growth - decoded / seconds),
        tokens_done=None if growth is None else max(0.0, rise * growth - decoded - state),
        kv_slope=rise / seconds,
    )


def _usage(timed: Timed) -> float:
    return timed.sample.kv_usage or 0.0


def _decoded(first: Timed, last: Timed) -> float:
    return (last.sample.generation_tokens or 0.0) - (first.sample.generation_tokens or 0.0)


def _rising_tail(samples: Sequence[Timed]) -> list[Timed]:
    """The newest samples over which no prefill was completed and no KV memory was given back, oldest first."""
    tail = [samples[-1]]
    for timed in reversed(samples[:-1]):
        earlier, later = timed.sample, tail[-1].sample
        if earlier.kv_usage is None or later.kv_usage is None or earlier.kv_usage > later.kv_usage:
            break
        if earlier.prompt_tokens != later.prompt_tokens or restarted(earlier, later):
            break
        tail.append(timed)
    tail.reverse()
    return tail


def _edge_slope(edges: Sequence[Timed], now: float, window: float) -> float | None:
    """KV usage per second from edge to edge, of those within the window (at least two); None with fewer than two.

    The first edge only gives a starting point: its rise may hold the prefix cache's part and the recurrent state. If no
    edge has come for longer than any step took so far, the time until now counts too, so that a standstill shows.
    """
    if len(edges) < 2:
        return None
    recent = [edge for edge in edges if edge.at >= now - window]
    recent = recent if len(recent) >= 2 else list(edges[-2:])
    longest = max(later.at - earlier.at for earlier, later in pairwise(recent))
    end = recent[-1].at if now - recent[-1].at <= longest else now
    return (_usage(recent[-1]) - _usage(recent[0])) / (end - recent[0].at)
