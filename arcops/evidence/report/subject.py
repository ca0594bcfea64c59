"""A record as a report sees it: with its judgement, its rungs and its figures, each worked out once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops import words
from arcops.core.evidence.comparable import Difference, but_for_speculation, comparable, differences
from arcops.core.evidence.figures import StageFigures, measured, of_stage
from arcops.core.evidence.judge import Judgement, judge, spoils_stage
from arcops.core.evidence.run import Stage
from arcops.core.evidence.rungs import Rung, Standing, rungs_of
from arcops.evidence.record import Record
from arcops.evidence.report.drawing import Fill
from arcops.evidence.shelf import Stored
from arcops.evidence.whole import with_environment

_SUITE: Final = "suite"
_SHORT: Final = 12
"""Digits of a digest that tell records apart."""


@dataclass(frozen=True, slots=True)
class MeasuredStage:
    """A stage that counts, or would if nothing had spoiled it."""

    stage: Stage
    figures: StageFigures
    fill: Fill
    """How its values are drawn."""
    standing: Standing | None
    """None where there are no rungs."""
    spoiled: str
    """Why it may not be counted; empty where it may."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the records of a report."""

    number: int
    """From 0."""
    label: str
    """Short, and unlike that of any other in the report."""
    stored: Stored
    whole: Record
    """With the environment that it was measured in, even where that is kept elsewhere: it is compared by it."""
    judgements: tuple[Judgement, ...]
    rungs: tuple[Rung, ...]
    stages: tuple[MeasuredStage, ...]

    @property
    def record(self) -> Record:
        return self.stored.record

    @property
    def name(self) -> str:
        """Of its parts in the page."""
        return f"r{self.number}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two records of a report, the first and another, of one kind."""

    first: Subject
    other: Subject
    found: tuple[Difference, ...]

    @property
    def comparable(self) -> bool:
        """Nothing but speculation, perhaps, stands between them."""
        return comparable(but_for_speculation(self.found))

    @property
    def alike(self) -> bool:
        """Nor does speculation."""
        return comparable(self.found)


def subjects(records: Sequence[Stored], environments: Path) -> tuple[Subject, ...]:
    """In the order in which they were named; the same record twice is one.

    `environments` is the folder in which those of launches are kept: by them two digests are told apart.
    """
    once = tuple({stored.digest: stored for stored in records}.values())
    wholes = tuple(with_environment(one.record, environments) for one in once)
    return tuple(_subject(number, stored, wholes) for number, stored in enumerate(once))


def comparisons(found: Sequence[Subject]) -> tuple[Comparison, ...]:
    """Every other record with a run beside the first one of its kind."""
    made: list[Comparison] = []
    first: dict[str, Subject] = {}
    for subject in found:
        if subject.record.run is None:
            continue
        before = first.setdefault(subject.record.kind, subject)
        if before is not subject:
            made.append(Comparison(before, subject, differences(before.whole, subject.whole)))
    return tuple(made)


def short(digest: str) -> str:
    """As many of its digits as tell it from others."""
    return digest.removeprefix("sha256:")[:_SHORT]


def _subject(number: int, stored: Stored, wholes: Sequence[Record]) -> Subject:
    record, whole = stored.record, wholes[number]
    judgements = judge(record)
    alike = [one for one in wholes if one is not whole and one.kind == record.kind]
    rungs = rungs_of([whole, *alike]) if record.run is not None else ()
    label = _label(number, stored, len(wholes))
    return Subject(number, label, stored, whole, judgements, rungs, _stages(record, judgements, rungs))


def _label(number: int, stored: Stored, of: int) -> str:
    setting = stored.record.setting
    named = None if setting is None else setting.configuration.profile or setting.server.model
    name = words.clean(named or stored.record.kind)
    return name if of == 1 else f"{_letter(number)}: {name}"


def _letter(number: int) -> str:
    """A, B, …, Z, A2, B2, …"""
    turn, place = divmod(number, 26)
    return f"{chr(ord('A') + place)}{turn + 1 if turn else ''}"


def _stages(record: Record, judgements: Sequence[Judgement], rungs: Sequence[Rung]) -> tuple[MeasuredStage, ...]:
    if record.run is None:
        return ()
    samples = () if record.setting is None else record.setting.samples
    standings: Mapping[str, Standing] = {rung.name: rung.standing for rung in rungs}
    found: list[MeasuredStage] = []
    for stage in measured(record.run):
        standing = standings.get(_SUITE if record.kind == _SUITE else stage.name)
        spoiled = spoils_stage(judgements, stage)
        fill = Fill.SPOILED if spoiled else _fill(standing)
        found.append(MeasuredStage(stage, of_stage(stage, samples), fill, standing, spoiled))
    return tuple(found)


def _fill(standing: Standing | None) -> Fill:
    match standing:
        case Standing.QUALIFIED:
            return Fill.FULL
        case Standing.EXACT:
            return Fill.HALF
        case Standing.NOT_EXACT | Standing.UNKNOWN | None:
            return Fill.HOLLOW
