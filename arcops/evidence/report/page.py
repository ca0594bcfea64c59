"""From records to one file: nothing in it is fetched, run, or believed to be markup."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from arcops import __version__, words
from arcops.core.errors import ArcopsError, ExitCode
from arcops.evidence.report import about, curves, results, timeline, verdicts
from arcops.evidence.report.distributions import distributions
from arcops.evidence.report.drawing import svg
from arcops.evidence.report.picture import STANDINGS, Key, Picture
from arcops.evidence.report.subject import Comparison, Subject, comparisons, subjects
from arcops.evidence.report.table import Table, table, text
from arcops.evidence.report.verdicts import Line
from arcops.evidence.shelf import Stored

MOST_RECORDS: Final = 12
"""Of one report: with more, no legend can be read."""

Name = Callable[[], str]
"""A new name for a picture, unlike any other in the page."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture as the page has it."""

    title: str
    svg: Markup
    legend: tuple[Key, ...]
    dots: tuple[tuple[str, str], ...]
    """What the kinds of its dots mean: class and words."""
    rows: Table


@dataclass(frozen=True, slots=True)
class Section:
    """All of one record."""

    name: str
    label: str
    kind: str
    note: str
    lines: tuple[Line, ...]
    head: tuple[about.Fact, ...]
    server: tuple[about.Fact, ...]
    launch: str
    variables: str
    tables: tuple[Table, ...]
    """Figures and identity: always shown."""
    pictures: tuple[Drawn, ...]
    spread: tuple[Drawn, ...]
    """Distributions."""
    watched: tuple[Drawn, ...]
    """The cards over time."""
    setting: tuple[Table, ...]
    environment: tuple[Table, ...]
    unread: tuple[str, ...]
    folded: tuple[Table, ...]
    """Long tables, closed until somebody opens them."""
    verification: tuple[about.Fact, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Records of one kind in the same plots."""

    title: str
    pictures: tuple[Drawn, ...]


def html(records: Sequence[Stored], environments: Path) -> str:
    """The report; `environments` is the folder in which those of launches are kept.

    Raises ArcopsError for no record at all, too many to tell apart, or impossible figures.
    """
    try:
        return _html(records, environments)
    except OverflowError as error:
        raise ArcopsError("a record has figures that nothing can have: they are larger than any float") from error


def _html(records: Sequence[Stored], environments: Path) -> str:
    found = subjects(records, environments)
    if not found:
        raise ArcopsError("there is no record to report on", exit_code=ExitCode.USAGE)
    if len(found) > MOST_RECORDS:
        raise ArcopsError(
            f"{len(found)} records are too many for one report: {MOST_RECORDS} at most",
            hint="compare fewer of them at once",
            exit_code=ExitCode.USAGE,
        )
    beside = comparisons(found)
    numbers = count(1)

    def name() -> str:
        return f"p{next(numbers)}"

    together = _together(found, beside, name)
    overlaid = {subject.number for one in beside if one.comparable for subject in (one.first, one.other)}
    sections = [_section(subject, name, alone=subject.number not in overlaid) for subject in found]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=_title(found),
            arcops=__version__,
            sections=sections,
            compared=verdicts.of_comparisons(beside),
            differences=_differences(beside),
            together=together,
        )
    )


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("arcops.evidence.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _title(found: Sequence[Subject]) -> str:
    kinds = " and ".join(dict.fromkeys(words.clean(one.record.kind) for one in found))
    return f"{kinds}: {', '.join(one.label for one in found)}"


def _together(found: Sequence[Subject], beside: Sequence[Comparison], name: Name) -> tuple[Together, ...]:
    """For each kind the records that compare with the first one of it, and that one."""
    groups: dict[int, list[Subject]] = {}
    for one in beside:
        if one.comparable:
            groups.setdefault(one.first.number, [one.first]).append(one.other)
    return tuple(
        Together(words.clean(group[0].record.kind), tuple(_drawn(one, name) for one in _curves(group)))
        for group in groups.values()
    )


def _curves(group: Sequence[Subject]) -> tuple[Picture, ...]:
    match group[0].record.kind:
        case "ladder":
            return curves.over_concurrency(group)
        case "context":
            return curves.over_depth(group)
        case "long-prompt":
            return curves.over_conditions(group)
        case "suite":
            return tuple(picture for subject in group for picture in curves.over_classes(subject))
        case _:
            return ()


def _section(subject: Subject, name: Name, *, alone: bool) -> Section:
    record = subject.record
    setting, run = record.setting, record.run
    shown = (
        verdicts.gates(subject),
        results.soak(subject),
        results.troubles(subject),
        results.suite(subject),
        results.speed(subject),
        results.ceiling(subject),
        results.rungs(subject),
        results.divergences(subject),
        results.canaries(subject),
    )
    around = () if setting is None else (about.befallen(setting), about.cards(setting), about.cache(setting))
    folded = (results.served(subject), results.client(subject), verdicts.judged(subject), _requests(subject))
    return Section(
        name=subject.name,
        label=subject.label,
        kind=words.clean(record.kind),
        note=words.clean(record.note),
        lines=verdicts.of_subject(subject),
        head=about.head(subject),
        server=() if setting is None else about.server(setting),
        launch="" if setting is None else about.launch(setting),
        variables="" if setting is None else about.variables(setting),
        tables=_there(shown),
        pictures=tuple(_drawn(one, name) for one in _curves([subject])) if alone and run is not None else (),
        spread=tuple(_drawn(one, name) for one in distributions(subject)),
        watched=tuple(_drawn(one, name) for one in timeline.timeline(subject)),
        setting=_there(around),
        environment=() if record.environment is None else about.environment(record.environment),
        unread=() if record.environment is None else about.unread(record.environment),
        folded=_there(folded),
        verification=about.verification(subject),
    )


def _requests(subject: Subject) -> Table | None:
    return None if subject.record.run is None else results.requests(subject.record.run)


def _there(tables: Sequence[Table | None]) -> tuple[Table, ...]:
    return tuple(one for one in tables if one is not None)


def _drawn(picture: Picture, name: Name) -> Drawn:
    dots = tuple((fill.value, STANDINGS[fill]) for fill in STANDINGS if fill in picture.fills)
    return Drawn(picture.plot.title, svg(picture.plot, name()), picture.legend, dots, picture.rows)


def _differences(beside: Sequence[Comparison]) -> Table | None:
    rows = [
        (f"{one.first.label} and {one.other.label}", each.part.value, text(each.weight.value), each.words)
        for one in beside
        for each in one.found
    ]
    return table("In what they differ", ("records", "part", "weight", "what"), rows) if rows else None
