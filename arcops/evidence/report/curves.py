"""Curves over concurrency and depth, and the values of conditions side by side: each value is a dot."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from arcops import words
from arcops.core.evidence.figures import RequestFigures, StageFigures, of_requests
from arcops.evidence.report import scales, table
from arcops.evidence.report.drawing import Fill, Stroke
from arcops.evidence.report.picture import Axes, Curve, Key, Picture, Point, Say, picture
from arcops.evidence.report.subject import MeasuredStage, Subject

OfStage = Callable[[StageFigures], float | None]
OfRequest = Callable[[RequestFigures], float | None]


def over_concurrency(subjects: Sequence[Subject]) -> tuple[Picture, ...]:
    """Of ladders: for each rung the values of its passes."""
    rungs = [one.stage.concurrency for subject in subjects for one in subject.stages]
    if not rungs:
        return ()
    x = scales.doublings(rungs)

    def drawn(title: str, value: OfStage, say: Say) -> Picture | None:
        return picture(Axes(title, "users at once", x, say), tuple(_by_rung(subjects, value)))

    found = (
        drawn("Decode of all users together while all decode, tok/s", lambda one: one.steady, table.rate),
        drawn("Throughput of all users, prefill included, tok/s", lambda one: one.throughput, table.rate),
        drawn("Decode per user (median), tok/s", lambda one: one.decode.median if one.decode else None, table.rate),
        drawn("TTFT p50, seconds", lambda one: one.ttft.p50 if one.ttft else None, table.seconds),
        drawn("TTFT p99, seconds", lambda one: one.ttft.p99 if one.ttft else None, table.seconds),
        drawn("Chunk gap p99, seconds", lambda one: one.chunk_gaps.p99 if one.chunk_gaps else None, table.seconds),
        drawn("Energy per output token, joules", lambda one: one.energy_per_token, table.rate),
    )
    return tuple(one for one in found if one is not None)


def over_depth(subjects: Sequence[Subject]) -> tuple[Picture, ...]:
    """Of the context benchmark: each request's value at its depth, and the ceiling of decoding where it is known."""
    depths = [one.stage.depth for subject in subjects for one in subject.stages if one.stage.depth is not None]
    if not depths:
        return ()
    x = scales.depths(depths)

    def drawn(title: str, value: OfRequest, say: Say, extra: Iterable[Curve] = ()) -> Picture | None:
        return picture(Axes(title, "tokens in the prompt", x, say), (*_by_depth(subjects, value), *extra))

    found = (
        drawn("Decode, tok/s", lambda one: one.decode, table.rate, _ceilings(subjects, min(depths), max(depths))),
        drawn("Prefill, tok/s", lambda one: one.prefill, table.rate),
        drawn("TTFT, seconds", lambda one: one.ttft, table.seconds),
    )
    return tuple(one for one in found if one is not None)


def over_conditions(subjects: Sequence[Subject]) -> tuple[Picture, ...]:
    """Of the long prompt: its stages side by side."""
    names = tuple(dict.fromkeys(words.clean(one.stage.name) for subject in subjects for one in subject.stages))
    places = {name: float(at) for at, name in enumerate(names)}

    def drawn(title: str, value: OfRequest, say: Say) -> Picture | None:
        axes = Axes(title, "stage", scales.categories(names), say, joined=False)
        curves = (
            Curve(
                Key(subject.number, subject.label),
                tuple(
                    Point(
                        places[words.clean(one.stage.name)] + _beside(number, len(subjects)),
                        words.clean(one.stage.name),
                        _values(one, value),
                    )
                    for one in subject.stages
                ),
            )
            for number, subject in enumerate(subjects)
        )
        return picture(axes, tuple(curves))

    found = (
        drawn("Decode, tok/s", lambda one: one.decode, table.rate),
        drawn("Prefill, tok/s", lambda one: one.prefill, table.rate),
        drawn("TTFT, seconds", lambda one: one.ttft, table.seconds),
    )
    return tuple(one for one in found if one is not None)


def over_classes(subject: Subject) -> tuple[Picture, ...]:
    """Of the suite: the decode of each class of content, a colour for each fresh server."""
    run = subject.record.run
    if run is None:
        return ()
    kinds = {item.name: words.clean(item.kind) for item in run.workload.items}
    names = tuple(sorted(set(kinds.values())))
    curves = tuple(
        Curve(
            Key(number, words.clean(one.stage.name)),
            tuple(
                Point(at + _beside(number, len(subject.stages)), name, _values(one, _decode, kinds, name))
                for at, name in enumerate(names)
            ),
        )
        for number, one in enumerate(subject.stages)
    )
    axes = Axes("Decode by class of content, tok/s", "class", scales.categories(names), table.rate, joined=False)
    found = picture(axes, curves)
    return () if found is None else (found,)


def _by_rung(subjects: Sequence[Subject], value: OfStage) -> Iterable[Curve]:
    for colour, (subject, warm, stages) in enumerate(_by_warmth(subjects)):
        rungs: dict[int, list[MeasuredStage]] = {}
        for one in stages:
            rungs.setdefault(one.stage.concurrency, []).append(one)
        points = tuple(
            Point(scales.at_doubling(users), f"{users:,}", tuple((value(one.figures), one.fill) for one in passes))
            for users, passes in sorted(rungs.items())
        )
        yield Curve(Key(colour, _called(subject, warm)), points)


def _by_depth(subjects: Sequence[Subject], value: OfRequest) -> Iterable[Curve]:
    for colour, (subject, warm, stages) in enumerate(_by_warmth(subjects)):
        depths: dict[int, list[tuple[float | None, Fill]]] = {}
        for one in stages:
            if one.stage.depth is not None:
                depths.setdefault(one.stage.depth, []).extend(_values(one, value))
        points = tuple(
            Point(scales.bounded(depth), f"{depth:,}", tuple(values)) for depth, values in sorted(depths.items())
        )
        yield Curve(Key(colour, _called(subject, warm)), points)


def _by_warmth(
    subjects: Sequence[Subject],
) -> Iterable[tuple[Subject, bool | None, list[MeasuredStage]]]:
    """Cold and warm are curves of their own."""
    for subject in subjects:
        for warm in dict.fromkeys(one.stage.warm for one in subject.stages):
            yield subject, warm, [one for one in subject.stages if one.stage.warm is warm]


def _ceilings(subjects: Sequence[Subject], low: float, high: float) -> Iterable[Curve]:
    """In the colours of the subjects' first curves; several with the same ceiling have one line."""
    seen: set[tuple[tuple[float, float], ...]] = set()
    colours = {subject.number: colour for colour, (subject, _, _) in reversed([*enumerate(_by_warmth(subjects))])}
    for subject in subjects:
        setting = subject.record.setting
        given = () if setting is None else setting.ceilings
        plain = tuple((float(one.depth), one.plain) for one in given if low <= one.depth <= high)
        drafted = tuple(
            (float(one.depth), one.speculative)
            for one in given
            if one.speculative is not None and low <= one.depth <= high
        )
        for bound, named in ((plain, "ceiling without speculation"), (drafted, "ceiling with speculation")):
            if bound and bound not in seen:
                seen.add(bound)
                key = Key(colours[subject.number], f"{subject.label}, {named}", Stroke.BOUND)
                yield Curve(key, (), bound)


def _values(
    one: MeasuredStage, value: OfRequest, kinds: Mapping[str, str] | None = None, kind: str = ""
) -> tuple[tuple[float | None, Fill], ...]:
    """Of the complete requests, or of those of one class."""
    return tuple(
        (value(figures), one.fill)
        for request, figures in zip(one.stage.requests, of_requests(one.stage), strict=True)
        if figures.complete and (kinds is None or kinds.get(request.item) == kind)
    )


def _beside(number: int, of: int) -> float:
    """So that several values of one category do not cover each other."""
    return (number - (of - 1) / 2) * min(0.25, 0.7 / of)


def _decode(one: RequestFigures) -> float | None:
    return one.decode


def _called(subject: Subject, warm: bool | None) -> str:
    return subject.label if warm is None else f"{subject.label}, {'warm' if warm else 'cold'}"
