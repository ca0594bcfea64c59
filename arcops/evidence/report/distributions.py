"""How TTFT and chunk gaps are distributed: the share of them that took no longer, a curve for each condition."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from arcops import words
from arcops.core.evidence.figures import RequestFigures, of_requests
from arcops.core.evidence.statistics import percentile
from arcops.evidence.report import scales, table
from arcops.evidence.report.drawing import COLOURS, Plot, Series, Stroke
from arcops.evidence.report.picture import Key, Picture
from arcops.evidence.report.scales import Scale
from arcops.evidence.report.subject import Subject

_MOST_STEPS: Final = 160
"""Of a curve; of more values every so many are drawn, the least and the most always."""
_SHARES: Final = Scale(0.0, 1.0, tuple((at / 4, f"{at * 25} %") for at in range(5)))

Samples = Mapping[str, Sequence[float]]
"""Condition -> its values, in seconds."""


def distributions(subject: Subject) -> tuple[Picture, ...]:
    """Of one record: its unspoiled stages, of all passes of a condition together."""
    found = (
        _picture("TTFT", "TTFT, share of requests", _ttfts(subject)),
        _picture("chunk gaps", "Chunk gaps, share of gaps", _gaps(subject)),
    )
    return tuple(one for one in found if one is not None)


def steps(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The empirical distribution function as corners of its steps: (seconds, share), through real values alone."""
    ordered = sorted(values)
    count = len(ordered)
    drawn = min(count, _MOST_STEPS)
    ranks = sorted({round(at * (count - 1) / max(1, drawn - 1)) for at in range(drawn)})
    corners: list[tuple[float, float]] = []
    before = 0.0
    for rank in ranks:
        share = (rank + 1) / count
        corners += [(ordered[rank], before), (ordered[rank], share)]
        before = share
    return tuple(corners)


def _picture(what: str, title: str, samples: Samples) -> Picture | None:
    known = {name: values for name, values in samples.items() if values}
    if not known:
        return None
    x = scales.decades([value for values in known.values() for value in (min(values), max(values))])
    series: list[Series] = []
    legend: list[Key] = []
    for colour, (name, values) in enumerate(known.items()):
        curve = tuple((max(x.low, scales.at_decade(seconds)), share) for seconds, share in steps(values))
        series.append(Series(colour, (), ((Stroke.SOLID, curve),)))
        legend.append(Key(colour, name))
    description = f"The share of {what} that were no longer than a time, on a logarithmic axis."
    plot = Plot(title, description, "no longer than", x, _SHARES, tuple(series))
    rows = [
        (
            table.text(name),
            table.count(len(values)),
            *(table.seconds(percentile(values, at)) for at in (0, 50, 90, 99, 100)),
        )
        for name, values in known.items()
    ]
    head = ("of", "values", "least", "p50", "p90", "p99", "most")
    return Picture(plot, tuple(legend), table.table(title, head, rows))


def _ttfts(subject: Subject) -> Samples:
    return _collect(subject, lambda one: () if one.ttft is None else (one.ttft,))


def _gaps(subject: Subject) -> Samples:
    return _collect(subject, lambda one: one.chunk_gaps)


def _collect(subject: Subject, of: Callable[[RequestFigures], Sequence[float]]) -> Samples:
    found: dict[str, list[float]] = {}
    for one in subject.stages:
        if one.spoiled:
            continue
        warm = {None: "", True: ", warm", False: ", cold"}[one.stage.warm]
        values = found.setdefault(f"{words.clean(one.stage.name)}{warm}", [])
        for figures in of_requests(one.stage):
            if figures.complete:
                values.extend(of(figures))
    return _few(found)


def _few(found: dict[str, list[float]]) -> Samples:
    """Of more conditions than there are colours the warm ones, if there are any: they came last."""
    if len(found) <= COLOURS:
        return found
    warm = {name: values for name, values in found.items() if name.endswith(", warm")}
    return warm or found
