"""Percentiles as numpy has them: held to figures that were worked out by hand, and to what must hold of any values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.evidence.statistics import Spread, deviation, median, percentile, ratio, spread

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40)
PERCENT = st.floats(0, 100)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (25, 1.75), (50, 2.5), (90, 3.7), (99, 3.97), (100, 4.0)])
def test_a_percentile_lies_between_the_two_nearest_ranks(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == pytest.approx(expected)


def test_of_nothing_there_is_no_percentile_and_no_spread() -> None:
    assert percentile([], 50) is None
    assert median([]) is None
    assert deviation([]) is None
    assert spread([None, None]) is None


@pytest.mark.parametrize("percent", [-0.1, 100.1, float("nan")])
def test_what_is_no_percentage_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="no percentage"):
        percentile([1.0], percent)


@given(VALUES, PERCENT)
def test_the_order_of_the_values_does_not_matter(values: list[float], percent: float) -> None:
    assert percentile(sorted(values), percent) == percentile(values[::-1], percent) == percentile(values, percent)


@given(VALUES, PERCENT, PERCENT)
def test_a_percentile_is_bounded_and_grows_with_its_percentage(values: list[float], one: float, other: float) -> None:
    low, high = (percentile(values, percent) for percent in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert min(values) <= low <= high <= max(values)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=41))
def test_the_median_has_as_many_values_below_it_as_above(values: list[int]) -> None:
    middle = median(values)
    assert middle is not None
    assert sum(value < middle for value in values) <= len(values) / 2
    assert sum(value > middle for value in values) <= len(values) / 2


def test_one_straggler_does_not_move_the_deviation() -> None:
    assert deviation([1.0, 2.0, 3.0, 4.0, 5.0]) == 1.0
    assert deviation([1.0, 2.0, 3.0, 4.0, 1e9]) == 1.0


def test_a_spread_counts_what_is_unknown_and_takes_it_for_nothing() -> None:
    assert spread([3.0, None, 1.0]) == Spread(median=2.0, least=1.0, most=3.0, count=2, unknown=1)


@pytest.mark.parametrize(
    ("part", "whole"), [(None, 1.0), (1.0, None), (1.0, 0.0), (1.0, -1.0), (1e308, 5e-324), (0.0, 0.0), (10**400, 1)]
)
def test_a_ratio_that_cannot_be_is_unknown(part: float | None, whole: float | None) -> None:
    assert ratio(part, whole) is None
