"""The past behind the plots: what is kept, where launches are marked, and columns that grow as if made anew."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops import wire
from arcops.tui.past import FIRST_SECONDS, MINUTES, NO_GAP, SECONDS, Ledger, Mark, Past, Point, Rollup
from tests.tui import scenes

NOW = scenes.NOW


def decode(point: wire.HistoryPoint) -> float | None:
    return point.decode


def point(at: float, value: float | None) -> wire.HistoryPoint:
    return wire.HistoryPoint(at=at, running=None, waiting=None, kv_usage=None, prefill=None, decode=value)


def of(*pairs: tuple[float, float | None]) -> tuple[wire.HistoryPoint, ...]:
    return tuple(point(at, value) for at, value in pairs)


def columns(points: tuple[wire.HistoryPoint, ...], now: float, many: int, step: int, *, most: bool = False):
    rollup = Rollup(decode, step, most=most)
    rollup.follow(points)
    return rollup.columns(now, many)


def test_a_column_is_the_mean_or_the_most_of_what_is_in_it():
    points = of((10, 1.0), (11, 3.0), (12, 8.0), (13, 2.0))
    assert columns(points, 13, 2, 2) == (2.0, 5.0)
    assert columns(points, 13, 2, 2, most=True) == (3.0, 8.0)


def test_what_nobody_read_is_a_gap_and_not_zero():
    points = of((10, 1.0), (11, None), (12, 0.0), (20, 4.0))
    assert columns(points, 20, 11, 1) == (1.0, None, 0.0, *[None] * 7, 4.0)


def test_a_look_that_came_a_little_late_leaves_no_gap():
    """A look tells about the time since the one before it."""
    assert columns(of((10.98, 1.0), (12.01, 2.0), (12.99, 3.0)), 13.0, 3, 1) == (1.0, 2.0, 2.5)


def test_the_newest_column_is_the_newest_look_until_the_next_one_is_overdue():
    points = of((10, 1.0), (11, 2.0))
    assert columns(points, 12.5, 2, 1) == (1.0, 2.0)
    assert columns(points, 15.0, 5, 1) == (2.0, None, None, None, None)


def test_minutes_come_before_the_seconds_and_weigh_sixty():
    rollup = Rollup(decode, 120, most=False)
    rollup.follow(of((180, 10.0), (181, 10.0)), of((60, 5.0), (120, 1.0)))
    assert rollup.columns(181, 2) == (5.0, pytest.approx((60 * 1.0 + 2 * 10.0) / 62))


@dataclass(frozen=True)
class Growth:
    """A past, in the pieces in which it became known."""

    points: tuple[wire.HistoryPoint, ...]
    cuts: tuple[int, ...]
    step: int


@st.composite
def growths(draw: st.DrawFn) -> Growth:
    many = draw(st.integers(1, 60))
    gaps = draw(st.lists(st.sampled_from([0.4, 0.99, 1.0, 1.01, 2.2, 7.0, 100.0]), min_size=many, max_size=many))
    values = draw(st.lists(st.none() | st.integers(0, 9).map(float), min_size=many, max_size=many))
    times = [1000.0 + sum(gaps[: index + 1]) for index in range(many)]
    cuts = draw(st.lists(st.integers(1, many), max_size=6))
    step = draw(st.sampled_from([1, 2, 7, 60]))
    return Growth(of(*zip(times, values, strict=True)), (*sorted(cuts), many), step)


@given(growths(), st.booleans())
def test_columns_that_grew_are_the_same_as_those_made_anew(growth: Growth, most: bool):
    grown = Rollup(decode, growth.step, most=most)
    for cut in growth.cuts:
        grown.follow(growth.points[:cut])
    now = growth.points[-1].at
    expected = columns(growth.points, now, 90, growth.step, most=most)
    for found, wanted in zip(grown.columns(now, 90), expected, strict=True):
        assert found == (None if wanted is None else pytest.approx(wanted))


@given(growths())
def test_another_past_is_taken_for_what_it_is(growth: Growth):
    """A recording that is wound back, a clock that was set: nothing of the old past is left."""
    rollup = Rollup(decode, growth.step, most=False)
    rollup.follow(growth.points)
    back = growth.points[: max(1, len(growth.points) // 2)]
    rollup.follow(back)
    assert rollup.columns(back[-1].at, 90) == columns(back, back[-1].at, 90, growth.step)


def test_only_what_is_new_is_looked_at():
    looked: list[float] = []

    def get(point: wire.HistoryPoint) -> float | None:
        looked.append(point.at)
        return point.decode

    points = scenes.history(1000)
    rollup = Rollup(get, 1, most=False)
    rollup.follow(points)
    looked.clear()
    rollup.follow((*points, point(NOW + 1, 5.0)))
    rollup.columns(NOW + 1, 200)
    assert looked == [NOW + 1]


def test_old_seconds_become_minutes_and_old_minutes_are_forgotten():
    past = Past()
    past.take(scenes.history(8 * 3600))
    assert past.seconds[-1].at - past.seconds[0].at <= SECONDS
    assert len(past.minutes) == MINUTES
    assert past.minutes[-1].at + 60 <= past.seconds[0].at
    assert past.minutes[-1].running == 3.0
    assert all(later.at - earlier.at == 60 for earlier, later in zip(past.minutes, past.minutes[1:], strict=False))


def test_of_a_folded_minute_gauges_keep_their_peak_and_rates_their_mean():
    past = Past()
    minute = [
        wire.HistoryPoint(at=NOW + n, running=float(n), waiting=None, kv_usage=None, prefill=None, decode=float(n))
        for n in range(60)
    ]
    past.take([*minute, point(NOW + SECONDS + 60, 1.0)])
    assert (past.minutes[-1].running, past.minutes[-1].waiting, past.minutes[-1].decode) == (59.0, None, 29.5)


def test_cards_are_told_by_samples_and_kept_when_their_minute_is_folded():
    past = Past()
    past.take_samples(scenes.samples(SECONDS + 120))
    (second, minute) = (past.seconds[-1], past.minutes[-1])
    assert isinstance(second, Point)
    assert isinstance(minute, Point)
    assert second.card_memory == 28.0 * 1024**3
    assert minute.card_memory in (27.0 * 1024**3, 28.0 * 1024**3)
    assert minute.card_power is not None
    assert 90.0 <= minute.card_power <= 230.0


def test_nothing_is_taken_twice():
    past = Past()
    assert past.take_samples(scenes.samples(15))
    before = past.seconds
    assert not past.take_samples(scenes.samples(15))
    assert past.seconds is before


def test_a_sample_tells_more_than_the_short_history():
    past = Past()
    past.take_samples(scenes.samples(1))
    (found,) = past.seconds
    assert isinstance(found, Point)
    assert (found.running, found.requests, found.tokens_per_step, found.ttft) == (3.0, 0.5, 3.0, 0.375)


def test_a_launch_is_marked_where_it_follows_on_another():
    past = Past()
    past.take_samples(scenes.samples(9, NOW - 20, launch="first"))
    assert past.marks == ()  # it may have begun long before
    past.take_samples(scenes.samples(9, launch="second"))
    assert past.marks == (Mark(NOW - 8, "dflash2"),)
    past.launched("second", "dflash2", NOW - 15)
    assert len(past.marks) == 1


def test_a_launch_between_the_minutes_and_the_seconds_is_marked():
    past = Past()
    past.take_samples(scenes.samples(9, launch="second"))
    past.take_minutes(scenes.samples(9, NOW - 120, step=60, launch="first"))
    assert past.marks == (Mark(NOW - 8, "dflash2"),)


def test_after_the_clock_was_set_nothing_is_known():
    past = Past()
    past.take_samples(scenes.samples(9))
    past.forget()
    assert (past.seconds, past.minutes, past.marks, past.newest) == ((), (), (), None)


def test_a_prefill_that_was_seen_live_is_not_told_again_when_it_is_counted():
    ledger = Ledger()
    shown = [ledger.prefill(0.0, live, 1.0) for live in (1000.0, 1000.0, 1000.0)]
    shown += [ledger.prefill(3500.0, None, 1.0), ledger.prefill(0.0, None, 1.0), ledger.prefill(200.0, None, 1.0)]
    assert shown == [1000.0, 1000.0, 1000.0, 500.0, 0.0, 200.0]


def test_a_prefill_that_was_given_up_takes_nothing_from_the_next_one():
    ledger = Ledger()
    assert ledger.prefill(0.0, 1000.0, 1.0) == 1000.0
    assert ledger.prefill(0.0, None, 1.0) == 0.0
    assert ledger.prefill(800.0, None, 1.0) == 800.0


def test_what_is_unknown_of_a_prefill_stays_unknown():
    assert Ledger().prefill(None, None, 1.0) is None


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 9)), min_size=1, max_size=9), st.integers(0, 500))
def test_over_a_prefill_what_is_plotted_adds_up_to_the_count(live: list[tuple[int, int]], more: int):
    """However fast it seemed while it went on, as long as that was not more than there was."""
    ledger = Ledger()
    total = sum(rate * seconds for rate, seconds in live) + more
    plotted = sum((ledger.prefill(0.0, float(rate), float(s)) or 0.0) * s for rate, s in live)
    plotted += ledger.prefill(float(total), None, 1.0) or 0.0
    assert plotted == pytest.approx(total)


def test_the_first_seconds_are_enough_for_five_minutes_on_the_widest_terminal():
    assert FIRST_SECONDS >= 300 + 290
    assert NO_GAP < 3
