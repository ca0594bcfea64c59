"""Plots and their axes, as golden lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.tui import plot
from arcops.tui.ink import Ink, Lines


def text(lines: Lines) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


def test_a_plot_has_gaps_marks_for_zero_and_eighths():
    assert plot.plot([None, 0.0, 0.01, 25.0, 50.0, 75.0, 100.0], 100.0, 2) == (
        "     ▄█",
        " ▁▂▄███",
    )


def test_what_waits_stands_on_what_runs():
    running, waiting = [None, 0.0, 2.0, 2.0, 4.0, 3.0], [None, 0.0, 0.0, 2.0, 0.0, 0.1]
    assert ["".join(row) for row in plot.stacked(running, waiting, 4.0, 4)] == [
        "   ▒█▒",
        "   ▒██",
        "  ████",
        " ▁████",
    ]


def test_the_axes_carry_unit_and_age():
    values = [float(n) for n in range(40)]
    axis = plot.time_axis(40, 1)
    assert text(plot.framed(plot.plot(values, 40.0, 5), "40", "20", "tok/s", axis, ())) == [
        "     40 ┤                                 ▁▂▃▄▅▆▇",
        "  tok/s │                         ▁▂▃▄▅▆▇████████",
        "     20 ┤                 ▁▂▃▄▅▆▇████████████████",
        "        │         ▁▂▃▄▅▆▇████████████████████████",
        "      0 ┤▁▂▂▃▄▅▆▇████████████████████████████████",
        "        └─────────┴30 s ago──────┴15 s────────now",
    ]


@pytest.mark.parametrize(
    ("columns", "seconds", "marks", "shown"),
    [
        (69, 1, (), "────────┴60 s ago──────┴45 s──────────┴30 s──────────┴15 s────────now"),
        (46, 7, (), "───────────┴4 min ago───────┴2 min─────────now"),
        (69, 60, (), "────────┴60 min ago────┴45 min────────┴30 min────────┴15 min──────now"),
        (40, 1, (12,), "────────────▲───────────┴15 s────────now"),
        (40, 1, (0, 39, 99), "▲────────┴30 s ago──────┴15 s───────now▲"),
        (40, 1, (37,), "─────────┴30 s ago──────┴15 s─────now▲──"),
        (40, 1, (35, 38), "─────────┴30 s ago──────┴15 s───now▲──▲─"),
        (3, 1, (), "now"),
        (2, 1, (), "──"),
    ],
)
def test_the_time_axis(columns: int, seconds: int, marks: tuple[int, ...], shown: str):
    assert plot.time_axis(columns, seconds, marks) == shown


@given(st.integers(1, 300), st.integers(1, 20).map(lambda n: n * 60) | st.integers(1, 20))
def test_the_time_axis_is_as_wide_as_the_plot(columns: int, seconds: int):
    axis = plot.time_axis(columns, seconds)
    assert len(axis) == columns
    assert columns < 3 or axis.endswith("now")


def test_where_another_launch_began_a_line_goes_up_through_what_is_empty():
    rows = plot.plot([4.0, 0.0, 2.0], 4.0, 2)
    lines = text(plot.framed(rows, "4", "2", "req", plot.time_axis(3, 1), (1, 2)))
    assert [line[plot.SCALE :] for line in lines[:2]] == ["█┊┊", "█▁█"]


def test_the_second_series_has_an_ink_of_its_own():
    rows = plot.stacked([1.0, 1.0], [0.0, 1.0], 2.0, 2)
    upper = plot.framed(rows, "2", "1", "req", plot.time_axis(2, 1), ())[0]
    assert upper[1:] == ((" ", Ink.BAR), ("▒", Ink.WARN))


@pytest.mark.parametrize(("peak", "top"), [(0, 1), (3, 3), (7, 8), (9.5, 10), (11, 12), (2394, 2500), (0.41, 0.5)])
def test_the_value_axis_ends_at_a_round_number(peak: float, top: float):
    assert plot.round_top(peak) == pytest.approx(top)


@given(st.floats(1e-6, 1e12))
def test_the_value_axis_holds_the_peak_and_not_much_more(peak: float):
    assert peak * 0.998 <= plot.round_top(peak) <= peak * 2.01


@given(st.floats(1, 1e6), st.integers(1, 300))
def test_the_columns_cover_the_window(window: float, columns: int):
    seconds = plot.seconds_per_column(window, columns)
    assert seconds * columns >= window
    assert seconds < 20 or seconds % 60 == 0


@given(st.floats(-1, 2), st.integers(0, 60))
def test_a_bar_has_its_width(share: float, width: int):
    filled, empty = plot.bar(share, width)
    assert len(filled) + len(empty) == width
