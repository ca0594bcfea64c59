"""The cards while a run went on: memory, power, temperature, clock; with its stages behind, and what befell it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from arcops import words
from arcops.core.evidence.figures import span
from arcops.core.evidence.setting import CardSample, Setting
from arcops.core.evidence.statistics import spread
from arcops.evidence.report import scales, table
from arcops.evidence.report.drawing import Band, Mark, Plot, Series, Stroke
from arcops.evidence.report.picture import Key, Picture
from arcops.evidence.report.subject import Subject

_MOST_LOOKS: Final = 400
"""Of a line; of more looks the least and the most of each stretch are drawn."""
_GIB: Final = 1024**3

Reading = Callable[[CardSample], float | None]


def timeline(subject: Subject) -> tuple[Picture, ...]:
    """Nothing where no card was sampled."""
    run, setting = subject.record.run, subject.record.setting
    if run is None or setting is None or not setting.samples:
        return ()
    bands = tuple(
        Band(*time, words.clean(f"{stage.name}, pass {stage.pass_number}"))
        for stage in run.stages
        if (time := span(stage)) is not None
    )
    found = (
        _picture(
            setting, bands, "Memory held, GiB", lambda one: None if one.memory_used is None else one.memory_used / _GIB
        ),
        _picture(setting, bands, "Power, W", lambda one: one.power),
        _picture(setting, bands, "Temperature, °C", lambda one: one.temperature),
        _picture(setting, bands, "Clock, MHz", lambda one: one.clock),
    )
    return tuple(one for one in found if one is not None)


def _picture(setting: Setting, bands: tuple[Band, ...], title: str, reading: Reading) -> Picture | None:
    known = [value for one in setting.samples if (value := reading(one)) is not None]
    if not known:
        return None
    ends = [at for band in bands for at in (band.began, band.ended)]
    times = [*(one.at for one in setting.samples), *ends, *(one.at for one in setting.befallen)]
    x = scales.between(min(0.0, *times), max(times))
    marks = tuple(Mark(one.at, words.clean(f"{one.kind}: {one.text}"), one.spoils) for one in setting.befallen)
    series: list[Series] = []
    legend: list[Key] = []
    rows: list[tuple[table.Cell, ...]] = []
    for colour, address in enumerate(dict.fromkeys(one.address for one in setting.samples)):
        of_card = [one for one in setting.samples if one.address == address]
        lines = tuple((Stroke.SOLID, _thin(line)) for line in _unbroken(of_card, reading) if len(line) > 1)
        name = words.clean(address)
        series.append(Series(colour, (), lines))
        legend.append(Key(colour, name))
        found = spread(reading(one) for one in of_card)
        told = (None,) * 3 if found is None else (found.least, found.median, found.most)
        rows.append(
            (table.text(name), *(table.rate(one) for one in told), table.count(0 if found is None else found.count))
        )
    description = f"{title}, over the seconds of the run. Shaded are its stages; upright lines are what befell it."
    plot = Plot(
        title, description, "seconds since the run began", x, scales.from_zero(known), tuple(series), bands, marks
    )
    return Picture(plot, tuple(legend), table.table(title, ("card", "least", "median", "most", "looks"), rows))


def _unbroken(samples: Sequence[CardSample], reading: Reading) -> Iterator[tuple[tuple[float, float], ...]]:
    """Where a card could not be read, its line has a gap."""
    line: list[tuple[float, float]] = []
    for one in sorted(samples, key=lambda one: one.at):
        value = reading(one)
        if value is not None:
            line.append((one.at, value))
        elif line:
            yield tuple(line)
            line = []
    if line:
        yield tuple(line)


def _thin(line: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """With the least and the most of each of so many stretches, in the order in which they came."""
    if len(line) <= _MOST_LOOKS:
        return line
    size = -(-len(line) * 2 // _MOST_LOOKS)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(line), size):
        piece = line[start : start + size]
        ends = {min(piece, key=lambda one: one[1]), max(piece, key=lambda one: one[1])}
        kept.extend(sorted(ends))
    return tuple(kept)
