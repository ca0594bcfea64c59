"""A plot of curves with what belongs beside it: its legend, and its values as a table. Nothing is interpolated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from arcops.core.evidence.statistics import median, spread
from arcops.evidence.report import scales, table
from arcops.evidence.report.drawing import Dot, Fill, Plot, Series, Stroke
from arcops.evidence.report.table import Cell, Table, Tone

Say = Callable[[float | None], Cell]


@dataclass(frozen=True, slots=True)
class Key:
    """One line of a legend."""

    colour: int
    words: str
    stroke: Stroke = Stroke.SOLID


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot with what belongs beside it."""

    plot: Plot
    legend: tuple[Key, ...]
    rows: Table
    fills: frozenset[Fill] = frozenset()
    """Which kinds of dots are in it, for the legend."""


@dataclass(frozen=True, slots=True)
class Point:
    """The values of one condition."""

    at: float
    """On the x axis, in its own coordinates."""
    name: str
    values: tuple[tuple[float | None, Fill], ...]

    @property
    def counted(self) -> list[float]:
        """Those that are known and not spoiled."""
        return [value for value, fill in self.values if value is not None and fill is not Fill.SPOILED]

    @property
    def fill(self) -> Fill:
        """The worst of those that count."""
        found = {fill for value, fill in self.values if value is not None and fill is not Fill.SPOILED}
        return next((fill for fill in (Fill.HOLLOW, Fill.HALF) if fill in found), Fill.FULL)


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one record under one temperature of its cache."""

    key: Key
    points: tuple[Point, ...]
    bound: tuple[tuple[float, float], ...] = ()
    """A ceiling's line; a curve that has one has no points."""


@dataclass(frozen=True, slots=True)
class Axes:
    """What a picture says beside its values."""

    title: str
    x_title: str
    x: scales.Scale
    say: Say
    joined: bool = True
    """A line joins the medians; else each has a stroke of its own."""


STANDINGS: Final[Mapping[Fill, str]] = {
    Fill.FULL: "identity-qualified",
    Fill.HALF: "exact, awaits a second run",
    Fill.HOLLOW: "measured, not qualified",
    Fill.SPOILED: "spoiled: in no median",
}


def picture(axes: Axes, curves: Sequence[Curve]) -> Picture | None:
    """None where there is nothing to draw: a figure that no record knows."""
    shown = [
        one for one in curves if one.bound or any(value is not None for at in one.points for value, _ in at.values)
    ]
    heights = [value for one in shown for at in one.points for value, _ in at.values if value is not None]
    if not heights:
        return None
    heights += [height for one in shown for _, height in one.bound]
    fills = frozenset(fill for one in shown for at in one.points for value, fill in at.values if value is not None)
    description = f"{axes.title}, over {axes.x_title}. The table beside it has the same values."
    plot = Plot(
        axes.title,
        description,
        axes.x_title,
        axes.x,
        scales.from_zero(heights),
        tuple(_series(axes, one) for one in shown),
    )
    return Picture(plot, tuple(one.key for one in shown), _rows(axes, shown), fills)


def _series(axes: Axes, curve: Curve) -> Series:
    if curve.bound:
        return Series(curve.key.colour, (), ((Stroke.BOUND, _across(axes, curve.bound)),))
    dots = tuple(
        Dot(at.at, value, f"{curve.key.words}, {at.name}: {axes.say(value).text} ({STANDINGS[fill]})", fill)
        for at in curve.points
        for value, fill in at.values
        if value is not None
    )
    middles = [(at.at, middle, at.fill) for at in curve.points if (middle := median(at.counted)) is not None]
    if axes.joined:
        lines = tuple(
            (Stroke.DASHED if Fill.HOLLOW in (was, becomes) else Stroke.SOLID, ((x, y), (later, higher)))
            for (x, y, was), (later, higher, becomes) in pairwise(middles)
        )
    else:
        lines = tuple((Stroke.SOLID, ((x - 0.1, y), (x + 0.1, y))) for x, y, _ in middles)
    return Series(curve.key.colour, dots, lines)


def _across(axes: Axes, bound: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """One that is known at a single place is drawn level."""
    height = bound[0][1]
    return tuple(bound) if len(bound) > 1 else ((axes.x.low, height), (axes.x.high, height))


def _rows(axes: Axes, curves: Sequence[Curve]) -> Table:
    rows: list[Sequence[Cell | str]] = []
    for curve in curves:
        for at in curve.points:
            found = spread(at.counted)
            told = (
                [table.count(None)] * 3
                if found is None
                else [axes.say(one) for one in (found.median, found.least, found.most)]
            )
            fills = dict.fromkeys(fill for _, fill in at.values)
            said = "; ".join(STANDINGS[fill] for fill in fills)
            tone = Tone.BAD if Fill.SPOILED in fills else Tone.WARN if Fill.HOLLOW in fills else Tone.PLAIN
            rows.append(
                (curve.key.words, table.text(at.name), *told, table.count(len(at.counted)), table.text(said, tone))
            )
        rows.extend(
            (curve.key.words, f"{depth:,.0f}", axes.say(height), "", "", "", "reckoned, not measured")
            for depth, height in curve.bound
        )
    return table.table(axes.title, ("of", axes.x_title, "median", "least", "most", "values", "standing"), rows)
