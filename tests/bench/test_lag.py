"""How late the loop is, is counted in a room that does not grow."""

import random
import tracemalloc

import pytest

from arcops.bench.lag import LoopLag
from arcops.core.evidence.statistics import percentile


def counted(late: list[float]) -> LoopLag:
    lag = LoopLag()
    for one in late:
        lag.take(one)
    return lag


def test_what_is_kept_of_an_hour_is_no_more_than_of_a_minute() -> None:
    """An hour has 360,000 timers, whose list of floats would take eleven megabytes."""
    dice = random.Random(1)
    lag = counted([dice.expovariate(1000) for _ in range(6_000)])
    tracemalloc.start()
    try:
        for _ in range(360_000):
            lag.take(dice.expovariate(1000))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 50_000


def test_the_percentiles_are_those_of_the_list_to_the_width_of_a_bin_and_the_worst_is_exact() -> None:
    dice = random.Random(2)
    late = [dice.expovariate(1000) for _ in range(5_000)]
    load = counted(late).load()
    assert load.lag_p50 == pytest.approx(percentile(late, 50), rel=0.05)
    assert load.lag_p99 == pytest.approx(percentile(late, 99), rel=0.05)
    assert load.lag_worst == max(late)


@pytest.mark.parametrize("late", [[], [0.0], [-0.001], [3.0], [0.001] * 3, [1e-9, 1e4]])
def test_the_percentiles_are_in_their_order_whatever_was_seen(late: list[float]) -> None:
    load = counted(late).load()
    assert 0.0 <= load.lag_p50 <= load.lag_p99 <= load.lag_worst == max([0.0, *late])
