"""Seconds become minutes, and minutes hours, without losing or inventing anything."""

import base64
from collections.abc import Sequence
from itertools import pairwise
from math import inf, isclose

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.figures import NO_FIGURES, Figures, together
from arcops.core.metrics import Histogram, Sample
from arcops.core.rates import Timed, quantile
from arcops.core.rates import rates as rates_over
from arcops.core.rollup import LONGEST_GAP, Gauge, Observed, Tally, between, merged, quantiles, rolled_up, start_of

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, inf)
EPOCH = 1_790_000_040.0
"""A whole minute."""


def histogram(counts: Sequence[int]) -> Histogram:
    """Cumulative, from how many there are in each bucket."""
    so_far = [float(sum(counts[: index + 1])) for index in range(len(counts))]
    return Histogram(BOUNDS, tuple(so_far), float(sum(counts)) / 2, so_far[-1])


def scrape(at: float, sample: Sample, launch: str = "L1") -> Timed:
    return Timed(at, sample, launch)


def tally_between(old: Timed | None, new: Timed) -> Tally:
    return between(old, new, at=EPOCH + new.at, profile="p", phase="serving")


def tallies_of(scrapes: Sequence[Timed]) -> list[Tally]:
    """A tally for each scrape, as the daemon makes them."""
    return [tally_between(old, new) for old, new in pairwise([None, *scrapes]) if new is not None]


def folded(tallies: Sequence[Tally]) -> Tally:
    whole = tallies[0]
    for tally in tallies[1:]:
        whole = merged(whole, tally)
    return whole


def observations(counts: list[int]) -> Observed:
    """From how many there are in each bucket."""
    buckets = zip(pairwise((0.0, *BOUNDS)), counts, strict=True)
    return Observed(tuple((low, high, float(n)) for (low, high), n in buckets if n), float(sum(counts)))


def gauge(values: list[float]) -> Gauge:
    return Gauge(sum(values), len(values), min(values), max(values))


whole = st.integers(0, 10_000).map(float)
gauges = st.none() | st.lists(whole, min_size=1, max_size=9).map(gauge)
counters = st.none() | whole
observed = st.none() | st.lists(st.integers(0, 9), min_size=len(BOUNDS), max_size=len(BOUNDS)).map(observations)
tallies = st.builds(
    Tally,
    launch_id=st.just("L1"),
    profile=st.just("p"),
    phase=st.sampled_from(("serving", "suspect")),
    at=whole,
    seconds=whole,
    running=gauges,
    waiting=gauges,
    kv_usage=gauges,
    prefilling=gauges,
    prompt_tokens=counters,
    prompt_tokens_cached=counters,
    generation_tokens=counters,
    requests=counters,
    preemptions=counters,
    drafts=counters,
    draft_tokens=counters,
    accepted_tokens=counters,
    ttft=observed,
    inter_token=observed,
    queue=observed,
    card_memory=gauges,
    card_power=gauges,
    card_temperature=gauges,
    card_clock=gauges,
)
growth = st.lists(st.tuples(whole, st.lists(st.integers(0, 5), min_size=6, max_size=6)), min_size=2, max_size=40)


def grown(steps: Sequence[tuple[float, Sequence[int]]]) -> list[Timed]:
    """Scrapes a second apart of a server whose counters grow by the steps."""
    scrapes: list[Timed] = []
    tokens, counts = 0.0, [0] * len(BOUNDS)
    for at, (more, observations) in enumerate(steps):
        tokens += more
        counts = [old + new for old, new in zip(counts, observations, strict=True)]
        sample = Sample(running=float(at), generation_tokens=tokens, ttft=histogram(counts))
        scrapes.append(scrape(float(at), sample))
    return scrapes


@given(tallies, tallies, tallies)
def test_it_does_not_matter_in_what_groups_stretches_are_added_up(one: Tally, two: Tally, three: Tally) -> None:
    assert merged(merged(one, two), three) == merged(one, merged(two, three))


@given(growth)
def test_minutes_of_seconds_hold_what_the_counters_rose_by_and_every_observation(
    steps: list[tuple[float, list[int]]],
) -> None:
    scrapes = grown(steps)
    minutes = [tally for _, tally in rolled_up(tallies_of(scrapes), 60.0)]
    assert sum(minute.seconds for minute in minutes) == scrapes[-1].at - scrapes[0].at
    first, last = scrapes[0].sample, scrapes[-1].sample
    assert last.generation_tokens is not None
    assert first.generation_tokens is not None
    rise = last.generation_tokens - first.generation_tokens
    assert sum(minute.generation_tokens or 0.0 for minute in minutes) == rise
    assert last.ttft is not None
    assert first.ttft is not None
    observations = sum(0.0 if minute.ttft is None else minute.ttft.count for minute in minutes)
    assert observations == last.ttft.count - first.ttft.count


@given(growth)
def test_quantiles_of_added_up_seconds_are_those_of_the_window_and_not_averages(
    steps: list[tuple[float, list[int]]],
) -> None:
    scrapes = grown(steps)
    window = rates_over(scrapes, 1e9)
    assert quantiles(folded(tallies_of(scrapes)).ttft) == window.ttft
    assert folded(tallies_of(scrapes)).per_second(folded(tallies_of(scrapes)).generation_tokens) == window.decode


@given(st.lists(st.integers(0, 9), min_size=6, max_size=6), st.sampled_from((0.01, 0.5, 0.9, 0.99, 1.0)))
def test_a_quantile_lies_in_the_same_bucket_with_and_without_the_empty_ones(counts: list[int], q: float) -> None:
    dense = histogram(counts)
    got = tally_between(scrape(0, Sample(ttft=histogram([0] * 6))), scrape(1, Sample(ttft=dense))).ttft
    assert got is not None
    found = quantiles(got)
    if not sum(counts):
        assert found is None
        return
    assert found is not None
    assert (found.p50, found.p99) == (quantile(dense, 0.5), quantile(dense, 0.99))


@given(st.lists(st.lists(whole, min_size=1, max_size=20), min_size=1, max_size=5))
def test_a_gauges_mean_counts_each_look_once_however_they_are_grouped(groups: list[list[float]]) -> None:
    looks = [
        Tally(launch_id="L1", profile="p", phase="serving", at=EPOCH, seconds=1.0, running=Gauge(v, 1, v, v))
        for group in groups
        for v in group
    ]
    running = folded(looks).running
    values = [v for group in groups for v in group]
    assert running is not None
    assert isclose(running.mean, sum(values) / len(values))
    assert (running.low, running.high, running.looks) == (min(values), max(values), len(values))


def test_the_first_look_at_a_launch_has_gauges_and_unknown_differences_never_zero() -> None:
    first = tally_between(None, scrape(5, Sample(running=2.0, generation_tokens=700.0, ttft=histogram([1] * 6))))
    assert (first.running, first.seconds) == (Gauge(2.0, 1, 2.0, 2.0), 0.0)
    assert (first.generation_tokens, first.ttft, first.per_second(first.generation_tokens)) == (None, None, None)


def test_nothing_is_counted_across_launches_restarts_or_gaps() -> None:
    before = scrape(0, Sample(generation_tokens=100.0))
    apart = (
        scrape(1, Sample(generation_tokens=150.0), launch="L2"),
        scrape(1, Sample(generation_tokens=50.0)),
        scrape(LONGEST_GAP + 1, Sample(generation_tokens=150.0)),
        scrape(0, Sample(generation_tokens=150.0)),
    )
    for after in apart:
        assert (tally_between(before, after).generation_tokens, tally_between(before, after).seconds) == (None, 0.0)
    together = tally_between(before, scrape(LONGEST_GAP, Sample(generation_tokens=150.0)))
    assert (together.generation_tokens, together.seconds) == (50.0, LONGEST_GAP)


def test_a_minute_of_which_ten_seconds_were_seen_says_so() -> None:
    scrapes = [scrape(float(at), Sample(generation_tokens=7.0 * at)) for at in range(11)]
    ((start, minute),) = rolled_up(tallies_of(scrapes), 60.0)
    assert (start, minute.seconds, minute.per_second(minute.generation_tokens)) == (EPOCH, 10.0, 7.0)


def test_launches_within_one_minute_stay_apart_and_steps_are_aligned_to_the_epoch() -> None:
    one = [scrape(float(at), Sample(generation_tokens=1.0 * at)) for at in range(3)]
    two = [scrape(float(at), Sample(generation_tokens=9.0 * at), launch="L2") for at in range(3, 6)]
    found = rolled_up(tallies_of([*one, *two]), 60.0)
    assert [(tally.launch_id, tally.generation_tokens) for _, tally in found] == [("L1", 2.0), ("L2", 18.0)]
    assert start_of(EPOCH + 59.999, 60.0) == EPOCH
    assert start_of(EPOCH, 3600.0) % 3600.0 == 0.0


def test_speculation_over_a_stretch_is_weighted_by_its_drafts() -> None:
    def seen(drafts: float, accepted: float) -> Tally:
        return Tally(
            launch_id="L1", profile="p", phase="serving", at=EPOCH, seconds=1.0,
            drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=accepted,
        )  # fmt: skip

    both = merged(seen(1.0, 3.0), seen(99.0, 0.0))
    assert (both.acceptance, both.tokens_per_step) == (0.01, 1.03)
    nothing = seen(0.0, 0.0)
    assert (nothing.acceptance, nothing.tokens_per_step) == (None, None)


def test_cached_tokens_are_no_computed_ones() -> None:
    before = scrape(0, Sample(prompt_tokens=0.0, prompt_tokens_cached=0.0))
    after = scrape(2, Sample(prompt_tokens=1000.0, prompt_tokens_cached=600.0))
    tally = tally_between(before, after)
    assert tally.per_second(tally.prefill_tokens) == 200.0


WRITTEN_BEFORE_CARDS = (
    "3AAUszIwMjYxMTMwMTIxNzU4LWUwNWGnZGZsYXNoMqdzZXJ2aW5ny0Haw1peYAAAy0BOAAAAAAAAlMtAVQAAAAAAADzLAAAAAAAAAADLQAgAAAAA"
    "AACUywAAAAAAAAAAPMsAAAAAAAAAAMsAAAAAAAAAAJTLQB4AAAAAAAA8yz+wAAAAAAAAyz/QAAAAAAAAwMtA13AAAAAAAMtAv0AAAAAAAMtAp3AA"
    "AAAAAMtAKAAAAAAAAMsAAAAAAAAAAMtAjCAAAAAAAMtApRgAAAAAAMtAl3AAAAAAAJKSk8s/0AAAAAAAAMs/4AAAAAAAAMtAIgAAAAAAAJPLP+AA"
    "AAAAAADLP/AAAAAAAADLQAgAAAAAAADLQBUAAAAAAACSkMsAAAAAAAAAAMA="
)
"""A minute as arcops wrote it before cards had a place in it."""


def test_a_row_of_before_cards_is_read_and_goes_on_into_the_same_minute() -> None:
    old = msgspec.msgpack.decode(base64.b64decode(WRITTEN_BEFORE_CARDS), type=Tally)
    assert (old.launch_id, old.profile, old.generation_tokens) == ("20261130121758-e05a", "dflash2", 3000.0)
    assert old.ttft is not None
    assert old.ttft.count == 12.0
    assert (old.card_memory, old.card_power, old.card_temperature, old.card_clock) == (None, None, None, None)
    seen = scrape(1.0, Sample(generation_tokens=1.0), launch=old.launch_id)
    new = between(None, seen, at=old.at, profile="dflash2", phase="serving", cards=Figures(memory=5.0, power=7.0))
    both = merged(old, new)
    assert (both.card_memory, both.card_power, both.card_clock) == (
        Gauge(5.0, 1, 5.0, 5.0),
        Gauge(7.0, 1, 7.0, 7.0),
        None,
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(both), type=Tally) == both


def test_cards_together_are_a_sum_the_hottest_and_the_slowest() -> None:
    first, second = Figures(10.0, 100.0, 60.0, 2400.0), Figures(20.0, 50.0, 75.0, 2100.0)
    assert together([first, second]) == Figures(30.0, 150.0, 75.0, 2100.0)
    assert together([]) == NO_FIGURES


@pytest.mark.parametrize("name", ["memory", "power", "temperature", "clock"])
def test_what_is_unknown_of_one_card_is_unknown_of_all(name: str) -> None:
    whole = Figures(10.0, 100.0, 60.0, 2400.0)
    lacking = Figures(**{one: None if one == name else 1.0 for one in ("memory", "power", "temperature", "clock")})
    found = together([whole, lacking])
    assert [one for one in ("memory", "power", "temperature", "clock") if getattr(found, one) is None] == [name]
