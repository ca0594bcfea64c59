"""Rates, quantiles and live prefill: on made-up samples, and on recorded prefills of real vLLM."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from time import process_time
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.metrics import Histogram, Sample, parse
from arcops.core.rates import Prefilling, Quantile, Rates, Timed, quantile, rates

DATA = Path(__file__).parents[1] / "data" / "metrics"


class Truth(TypedDict):
    """What the client that sent the prompt saw; seconds on the clock of the recording."""

    tokens: int
    start: float
    first: float
    end: float


def recorded(name: str) -> tuple[Truth, list[Timed]]:
    """A recording: each scrape holds the lines that changed since the one before."""
    record = json.loads((DATA / f"{name}.json").read_text())
    timed: list[Timed] = []
    lines: list[str] = []
    for scrape in record["scrapes"]:
        lines = list(scrape.get("lines", lines))
        for number, line in scrape.get("changed", {}).items():
            lines[int(number)] = line
        timed.append(Timed(float(scrape["at"]), parse("\n".join(lines) + "\n"), "one"))
    return record["truth"], timed


def series(*samples: Sample, every: float = 1.0, launch: str = "one") -> list[Timed]:
    return [Timed(number * every, sample, launch) for number, sample in enumerate(samples)]


def histogram(*counts: float, total: float | None = None) -> Histogram:
    return Histogram((0.1, 1.0, 10.0, inf), counts, total, counts[-1])


def test_nothing_scraped_and_a_single_scrape_say_why_there_are_no_rates() -> None:
    assert rates([], 10) == Rates(absent="nothing was scraped yet")
    single = rates(series(Sample(running=2, waiting=1, kv_usage=0.5)), 10)
    assert (single.running, single.waiting, single.kv_usage, single.decode) == (2, 1, 0.5, None)
    assert single.absent == "no two scrapes of this launch within 10 s"


def test_a_window_of_nothing_holds_nothing() -> None:
    got = rates(series(Sample(generation_tokens=1), Sample(generation_tokens=3)), -1)
    assert (got.decode, got.absent) == (None, "no two scrapes of this launch within -1 s")


def test_counters_become_rates_over_the_window() -> None:
    samples = [
        Sample(
            prompt_tokens=1000.0 * n,
            prompt_tokens_cached=250.0 * n,
            generation_tokens=40.0 * n,
            finished={"stop": float(n), "length": 0.0},
            preemptions=float(n),
            prefix_queries=1000.0 * n,
            prefix_hits=250.0 * n,
        )
        for n in range(21)
    ]
    got = rates(series(*samples), 10)
    assert (got.seconds, got.prefill, got.decode, got.requests, got.absent) == (10, 750, 40, 1, None)
    assert (got.finished, got.preemptions, got.prefix_hit_rate, got.cached_share) == (
        {"length": 0, "stop": 10}, 10, 0.25, 0.25,
    )  # fmt: skip


def test_what_a_version_does_not_count_stays_unknown() -> None:
    got = rates(series(Sample(generation_tokens=1), Sample(generation_tokens=3)), 10)
    assert got.decode == 2
    assert (got.prefill, got.requests, got.finished, got.preemptions, got.ttft) == (None,) * 5
    assert (got.cached_share, got.prefix_hit_rate, got.speculation, got.prefill_speed) == (None,) * 4


def test_a_share_of_nothing_is_unknown() -> None:
    assert rates(series(*[Sample(prefix_queries=5, prefix_hits=2)] * 2), 10).prefix_hit_rate is None


def test_a_reason_that_first_shows_up_within_the_window_began_at_zero() -> None:
    got = rates(series(Sample(finished={}), Sample(finished={"abort": 2.0})), 10)
    assert got.finished == {"abort": 2}


def test_a_fallen_counter_drops_that_step_and_nothing_else() -> None:
    counts = [100, 110, 5, 15]
    got = rates(series(*(Sample(generation_tokens=float(n)) for n in counts)), 10)
    assert (got.seconds, got.decode) == (2, 10)


def test_a_new_start_time_drops_that_step_even_if_the_counter_rose() -> None:
    samples = [Sample(process_start_time=start, generation_tokens=n) for start, n in ((1, 0), (1, 8), (2, 9), (2, 19))]
    got = rates(series(*samples), 10)
    assert (got.seconds, got.decode) == (2, 9)


def test_a_step_at_the_very_end_that_is_a_restart_leaves_what_came_before() -> None:
    got = rates(
        series(Sample(drafts=1, generation_tokens=1), Sample(drafts=2, generation_tokens=5), Sample(drafts=0)), 10
    )
    assert (got.seconds, got.decode) == (1, 4)


def test_only_the_newest_launch_counts() -> None:
    old = series(Sample(generation_tokens=0), Sample(generation_tokens=90))
    new = [Timed(2.0 + n, Sample(generation_tokens=100.0 + n), "two") for n in range(3)]
    got = rates(old + new, 10)
    assert (got.launch_id, got.seconds, got.decode) == ("two", 2, 1)


def test_samples_that_go_back_in_time_are_left_out() -> None:
    samples = [Timed(at, Sample(generation_tokens=n), "one") for at, n in ((0.0, 0), (1.0, 5), (1.0, 6), (2.0, 8))]
    assert rates(samples, 10).decode == 4


@pytest.mark.parametrize(
    ("counts", "q", "expected"),
    [
        ((10, 10, 10, 10), 0.5, Quantile(0.0, 0.1, 0.05)),
        ((0, 10, 10, 10), 0.5, Quantile(0.1, 1.0, 0.55)),
        ((5, 10, 10, 10), 0.5, Quantile(0.0, 0.1, 0.1)),
        ((5, 5, 10, 10), 0.9, Quantile(1.0, 10.0, 8.2)),
        ((0, 0, 0, 4), 0.5, Quantile(10.0, None, 10.0)),
    ],
)
def test_a_quantile_lies_in_its_bucket_and_is_interpolated(
    counts: tuple[float, ...], q: float, expected: Quantile
) -> None:
    got = quantile(histogram(*counts), q)
    assert got is not None
    assert (got.low, got.high) == (expected.low, expected.high)
    assert got.estimate == pytest.approx(expected.estimate)


def test_no_observation_has_no_quantile() -> None:
    assert quantile(histogram(0, 0, 0, 0), 0.5) is None
    assert rates(series(*[Sample(ttft=histogram(1, 2, 3, 4))] * 2), 10).ttft is None


def test_a_histogram_whose_count_exceeds_its_buckets_has_no_quantile() -> None:
    assert quantile(Histogram((1.0, inf), (1, 1), None, 9), 0.9) is None


def test_quantiles_are_those_of_the_window_alone() -> None:
    before, after = histogram(100, 100, 100, 100, total=5), histogram(100, 104, 104, 104, total=7)
    got = rates(series(Sample(ttft=before), Sample(ttft=after)), 10).ttft
    assert got is not None
    assert (got.count, got.mean) == (4, 0.5)
    assert (got.p50.low, got.p50.high, got.p50.estimate) == (0.1, 1.0, pytest.approx(0.55))


def test_the_end_to_end_latency_and_the_size_of_the_cache_are_told() -> None:
    before, after = histogram(0, 0, 0, 0, total=0), histogram(0, 2, 2, 2, total=1)
    got = rates(series(Sample(e2e=before), Sample(e2e=after, kv_capacity_tokens=4096.0)), 10)
    assert got.e2e is not None
    assert (got.e2e.count, got.e2e.mean, got.kv_capacity) == (2, 0.5, 4096)


def test_histograms_of_the_stretches_around_a_restart_add_up() -> None:
    values = [(0, 1, 1, 1), (0, 2, 2, 2), (0, 0, 0, 0), (3, 3, 3, 3)]
    samples = [
        Sample(queue=histogram(*counts, total=float(counts[-1])), generation_tokens=generated)
        for counts, generated in zip(values, (5, 6, 0, 1), strict=True)
    ]
    got = rates(series(*samples), 10).queue
    assert got is not None
    assert (got.count, got.mean) == (4, 1)


def test_histograms_that_changed_their_bounds_or_fell_tell_nothing() -> None:
    other = Histogram((5.0, inf), (9, 9), None, 9)
    assert rates(series(Sample(ttft=histogram(1, 1, 1, 1)), Sample(ttft=other)), 10).ttft is None
    assert rates(series(Sample(ttft=histogram(5, 5, 5, 5)), Sample(ttft=histogram(1, 6, 6, 6))), 10).ttft is None
    restarted = [Sample(queue=h, drafts=d) for h, d in (
        (histogram(0, 0, 0, 0), 5), (histogram(0, 0, 0, 1), 5), (Histogram((5.0, inf), (0, 0), None, 0), 0), (other, 1),
    )]  # fmt: skip
    got = rates(series(*restarted), 10).queue
    assert got is not None
    assert got.count == 9


def test_a_mean_without_a_sum_is_unknown() -> None:
    got = rates(series(Sample(ttft=histogram(0, 0, 0, 0)), Sample(ttft=histogram(1, 1, 1, 1))), 10).ttft
    assert got is not None
    assert got.mean is None


def test_prefill_speed_is_computed_tokens_over_prefill_time() -> None:
    samples = [
        Sample(
            prefill_computed=histogram(n, n, n, n, total=6000.0 * n), prefill_time=histogram(n, n, n, n, total=2.0 * n)
        )
        for n in range(3)
    ]
    assert rates(series(*samples), 10).prefill_speed == 3000
    assert rates(series(samples[0], samples[0]), 10).prefill_speed is None


def test_speculation_tells_acceptance_and_tokens_per_step() -> None:
    before = Sample(drafts=10, draft_tokens=30, accepted_tokens=12, accepted_per_position=(7, 3, 2))
    after = Sample(drafts=20, draft_tokens=60, accepted_tokens=30, accepted_per_position=(15, 9, 6))
    got = rates(series(before, after), 10).speculation
    assert got is not None
    assert (got.drafts, got.acceptance, got.tokens_per_step) == (10, 0.6, 2.8)
    assert got.per_position == (0.8, 0.6, 0.4)
    bare = rates(series(*(replace(s, accepted_per_position=None, draft_tokens=None) for s in (before, after))), 10)
    assert bare.speculation is not None
    assert (bare.speculation.acceptance, bare.speculation.per_position) == (None, ())


def test_nothing_drafted_is_no_speculation() -> None:
    assert rates(series(*[Sample(drafts=10, accepted_tokens=3)] * 2), 10).speculation is None
    assert rates(series(Sample(drafts=1), Sample(drafts=2)), 10).speculation is None


# Live prefill.


def busy(kv: float | None, *, prompt: float = 0, generated: float = 0, running: float = 1) -> Sample:
    return Sample(
        running=running,
        kv_usage=kv,
        prompt_tokens=prompt,
        generation_tokens=generated,
        kv_capacity_tokens=100_000,
        kv_growth_tokens=100_000,
        kv_block_tokens=100,
    )


def prefilling(samples: Sequence[Timed], window: float = 10) -> Prefilling | None:
    return rates(samples, window).prefilling


@pytest.mark.parametrize(("name", "tolerance"), [("prefill_dense", 0.15), ("prefill_hybrid", 0.15)])
def test_a_recorded_prefill_shows_with_a_rate_close_to_the_truth(name: str, tolerance: float) -> None:
    truth, timed = recorded(name)
    shown = [(timed[: n + 1], rates(timed[: n + 1], 10)) for n in range(len(timed))]
    during = [r for seen, r in shown if truth["start"] + 1.2 < seen[-1].at < truth["first"] - 0.05]
    assert len(during) >= 3
    for one in during:
        assert one.prefilling is not None
        assert one.prefilling.rate is not None
        assert one.decode == 0
        assert one.prefilling.since == pytest.approx(truth["start"], abs=0.6)
    last = during[-1].prefilling
    assert last is not None
    assert last.rate == pytest.approx(truth["tokens"] / (truth["first"] - truth["start"]), rel=tolerance)
    assert last.tokens_done is not None
    assert 0.8 * truth["tokens"] < last.tokens_done < 1.02 * truth["tokens"]
    outside = [r for seen, r in shown if seen[-1].at < truth["start"] or seen[-1].at > truth["first"] + 0.1]
    assert all(one.prefilling is None for one in outside)


def test_a_staircase_is_measured_from_step_to_step() -> None:
    # One step of 8,000 tokens every three seconds, looked at once a second.
    steps = [0.0, 0.0, 0.08, 0.08, 0.08, 0.16, 0.16, 0.16, 0.24, 0.24]
    got = prefilling(series(*(busy(kv) for kv in steps)), 60)
    assert got is not None
    assert got.rate == pytest.approx(8000 / 3)
    assert (got.since, got.tokens_done) == (1, pytest.approx(24_000))
    assert got.kv_slope == pytest.approx(0.24 / 8)


def test_a_standstill_brings_the_rate_down() -> None:
    steps = [0.0, 0.1, 0.2, 0.3] + [0.3] * 6
    rate = [prefilling(series(*(busy(kv) for kv in steps[:n]))) for n in (4, 10)]
    assert rate[0] is not None
    assert rate[1] is not None
    assert rate[0].rate == pytest.approx(10_000)
    assert rate[1].rate == pytest.approx(20_000 / 8)


def test_the_rate_is_a_recent_one() -> None:
    steps = [0.01 * n for n in range(20)] + [0.19 + 0.02 * n for n in range(1, 11)]
    got = prefilling(series(*(busy(kv) for kv in steps)), 5)
    assert got is not None
    assert (got.rate, got.since) == (pytest.approx(2000), 0)


def test_edges_before_the_window_serve_when_there_are_too_few_in_it() -> None:
    steps = [0.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]
    got = prefilling(series(*(busy(kv) for kv in steps)), 2.5)
    assert got is not None
    assert got.rate == pytest.approx(10_000 / 3)


def test_a_first_step_alone_shows_a_prefill_of_unknown_rate() -> None:
    got = prefilling(series(busy(0.0, running=0), busy(0.1)))
    assert got is not None
    assert (got.rate, got.tokens_done) == (None, pytest.approx(10_000))


def test_a_pool_of_unknown_size_shows_a_prefill_without_numbers() -> None:
    samples = [replace(busy(kv), kv_growth_tokens=None) for kv in (0.0, 0.1, 0.2)]
    got = prefilling(series(*samples))
    assert got is not None
    assert (got.rate, got.tokens_done, got.kv_slope) == (None, None, pytest.approx(0.1))


def test_the_state_that_a_new_request_holds_is_not_counted_as_tokens() -> None:
    samples = [replace(busy(kv, running=n), kv_state_tokens=1000) for kv, n in ((0.0, 0), (0.05, 1), (0.09, 1))]
    got = prefilling(series(*samples))
    assert got is not None
    assert got.tokens_done == pytest.approx(8000)


@pytest.mark.parametrize(
    "samples",
    [
        [busy(0.0), busy(0.1, running=0)],
        [busy(0.1), busy(0.1)],
        [busy(0.1), busy(0.05)],
        [busy(0.0), busy(0.1, prompt=10_000)],
        [busy(None), busy(0.1)],
        [busy(0.1), busy(None)],
        [busy(0.0, generated=9), busy(0.1, generated=1)],
        [busy(0.1)],
    ],
    ids=["idle", "level", "freed", "complete", "unknown before", "unknown now", "restarted", "single"],
)
def test_what_is_no_prefill_is_not_called_one(samples: list[Sample]) -> None:
    assert prefilling(series(*samples)) is None


def test_decoding_alone_is_not_called_a_prefill() -> None:
    # 40 tokens a second in blocks of 100: the gauge rises by whole blocks.
    samples = [busy(0.1 + (40 * n // 100) * 0.001, prompt=500, generated=40.0 * n) for n in range(60)]
    for n in range(2, 60):
        assert prefilling(series(*samples[:n])) is None


def test_a_prefill_beside_decoding_shows_with_the_decoding_taken_off() -> None:
    # After 30 s of decoding alone at 40 tokens a second a prefill of 2,000 tokens a second comes in.
    kv = [0.1 + 0.0004 * n for n in range(30)]
    kv += [kv[-1] + 0.0204 * n for n in range(1, 11)]
    samples = [busy(usage, prompt=500, generated=40.0 * n, running=1 + (n >= 30)) for n, usage in enumerate(kv)]
    got = prefilling(series(*samples))
    assert got is not None
    assert got.since == 29
    assert got.rate == pytest.approx(2000, rel=0.01)
    assert got.tokens_done == pytest.approx(20_000, rel=0.01)
    unknown = [replace(sample, kv_growth_tokens=None) for sample in samples]
    assert prefilling(series(*unknown)) is None


COUNT = st.one_of(st.none(), st.floats(0, 1e9))
SAMPLES = st.builds(
    Sample,
    running=COUNT,
    kv_usage=st.one_of(st.none(), st.floats(0, 1)),
    kv_growth_tokens=st.one_of(st.none(), st.floats(1, 1e9)),
    kv_block_tokens=st.one_of(st.none(), st.just(16.0)),
    prompt_tokens=COUNT,
    prompt_tokens_cached=COUNT,
    generation_tokens=COUNT,
    preemptions=COUNT,
    prefix_queries=COUNT,
    prefix_hits=COUNT,
    finished=st.one_of(st.none(), st.dictionaries(st.sampled_from(["stop", "abort"]), st.floats(0, 1e9))),
    drafts=COUNT,
    draft_tokens=COUNT,
    accepted_tokens=COUNT,
    accepted_per_position=st.one_of(st.none(), st.tuples(st.floats(0, 1e9), st.floats(0, 1e9))),
    process_start_time=st.sampled_from([None, 1.0, 2.0]),
    ttft=st.one_of(st.none(), st.lists(st.floats(0, 1e6), min_size=4, max_size=4).map(lambda c: histogram(*sorted(c)))),
)
TIMED = st.lists(st.builds(Timed, at=st.floats(0, 100), sample=SAMPLES, launch_id=st.sampled_from(["one", "two"])))


@given(TIMED, st.floats(0, 200))
def test_whatever_the_samples_nothing_is_negative_and_every_share_is_one(timed: list[Timed], window: float) -> None:
    got = rates(timed, window)
    numbers = [got.seconds, got.prefill, got.decode, got.requests, got.preemptions]
    assert all(number is None or number >= 0 for number in numbers)
    shares = [got.prefix_hit_rate, got.cached_share]
    if got.speculation is not None:
        shares += [got.speculation.acceptance, *got.speculation.per_position]
        assert got.speculation.tokens_per_step >= 1
    assert all(share is None or 0 <= share <= 1 for share in shares)
    if got.prefilling is not None:
        assert got.prefilling.kv_slope > 0
        assert got.prefilling.rate is None or got.prefilling.rate >= 0
    if got.ttft is not None:
        for one, other in pairwise((got.ttft.p50, got.ttft.p90, got.ttft.p99)):
            assert one.low <= other.low
            assert one.estimate <= other.estimate


def test_a_minute_of_scrapes_takes_a_small_part_of_a_millisecond() -> None:
    text = (DATA / "mtp_load.txt").read_text()
    sample = parse(text)
    samples = series(*(replace(sample, generation_tokens=100.0 * n, kv_usage=0.001 * n) for n in range(60)))
    times: list[float] = []
    for _ in range(20):
        begin = process_time()
        rates(samples, 60)
        times.append(process_time() - begin)
    assert min(times) < 0.002  # 0.2 ms as measured
