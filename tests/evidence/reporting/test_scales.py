"""Axes: round numbers, in order, around what is drawn; and the steps of a distribution."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.evidence.report import scales
from arcops.evidence.report.distributions import steps

ANY = st.floats(allow_nan=True, allow_infinity=True)


def holds(scale: scales.Scale) -> None:
    assert scale.low < scale.high
    assert 1 <= len(scale.ticks) <= 16
    places = [at for at, _ in scale.ticks]
    assert all(before < after for before, after in pairwise(places))


@given(st.lists(st.floats(0, allow_infinity=True), max_size=8))
def test_an_axis_from_zero_holds_all_that_is_drawn(values: list[float]) -> None:
    scale = scales.from_zero(values)
    holds(scale)
    assert all(scales.bounded(value) <= scale.high * (1 + 1e-9) for value in values)


@given(ANY, ANY)
def test_an_axis_between_any_two_numbers_is_one(low: float, high: float) -> None:
    assert scales.between(low, high).low < scales.between(low, high).high


@given(st.lists(st.floats(0, 1e300), max_size=8))
def test_decades_hold_every_time_and_a_gap_of_nothing(values: list[float]) -> None:
    scale = scales.decades(values)
    assert scale.low < scale.high
    assert all(scales.at_decade(value) <= scale.high for value in values)


@given(st.lists(st.integers(0, 10**9), max_size=12))
def test_depths_and_rungs_have_ticks_where_something_was_measured(values: list[int]) -> None:
    holds(scales.depths(values))
    places = {at for at, _ in scales.doublings(values).ticks}
    assert places <= {scales.at_doubling(value) for value in values} | {0.0}


@pytest.mark.parametrize(
    ("values", "words"), [([130.0], ["0", "50", "100", "150"]), ([0.04], ["0", "0.01", "0.02", "0.03", "0.04"])]
)
def test_ticks_are_round(values: list[float], words: list[str]) -> None:
    assert [said for _, said in scales.from_zero(values).ticks] == words


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
def test_a_distribution_has_steps_at_real_values_alone_from_none_to_all(values: list[float]) -> None:
    corners = steps(values)
    assert {seconds for seconds, _ in corners} <= set(values)
    assert corners[0] == (min(values), 0.0)
    assert corners[-1] == (max(values), 1.0)
    assert all(before <= after for before, after in pairwise(corners))
