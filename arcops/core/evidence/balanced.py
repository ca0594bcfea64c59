"""One figure for a suite: classes of content that count alike, and fresh servers that do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from arcops.core.evidence.figures import of_requests
from arcops.core.evidence.run import Run, Stage
from arcops.core.evidence.statistics import Spread, median, spread


@dataclass(frozen=True, slots=True)
class Balanced:
    """A rate over classes of content that count alike, however many requests each has."""

    center: float | None
    """The median over the classes of each class's own median, so that neither a straggler nor one odd class moves it.
    None where a class has no value: without it nothing is balanced."""
    classes: Mapping[str, Spread | None]
    """Of each class, over its requests."""


def balanced_decode(stage: Stage, kinds: Mapping[str, str]) -> Balanced:
    """Of one server: the decode of its complete requests. `kinds` gives the class of each item (`kinds_of`)."""
    found: dict[str, list[float | None]] = {}
    for request, figures in zip(stage.requests, of_requests(stage), strict=True):
        kind = kinds.get(request.item, "")
        found.setdefault(kind, []).append(figures.decode if figures.complete else None)
    classes = {kind: spread(values) for kind, values in sorted(found.items())}
    middles = [one.median for one in classes.values() if one is not None]
    return Balanced(median(middles) if len(middles) == len(classes) else None, classes)


def center(stages: Iterable[Stage], kinds: Mapping[str, str]) -> Spread | None:
    """Over fresh servers: the median of their balanced decodes, which of two is halfway between; the least and the most
    are those of single servers."""
    return spread(balanced_decode(stage, kinds).center for stage in stages)


def kinds_of(run: Run) -> Mapping[str, str]:
    """The class of each item of the workload."""
    return {item.name: item.kind for item in run.workload.items}
