"""Runs side by side: in what they differ, their figures with ratios, and which rungs two runs qualify."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops import words
from arcops.cli.bench_json import plain, rungs
from arcops.cli.bench_words import UNKNOWN, short, standings, when
from arcops.cli.output import Style, paint
from arcops.cli.tables import Column, table
from arcops.core.evidence.balanced import balanced_decode, kinds_of
from arcops.core.evidence.comparable import Difference, Part, Weight, comparable, differences
from arcops.core.evidence.figures import of_requests, of_stage
from arcops.core.evidence.judge import judge, spoiled, spoils_stage
from arcops.core.evidence.run import Run, Stage
from arcops.core.evidence.rungs import Rung, rungs_of
from arcops.core.evidence.statistics import Spread, spread
from arcops.evidence.record import Record
from arcops.evidence.shelf import Stored
from arcops.evidence.whole import with_environment

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Values = tuple[float | None, ...]
Key = tuple[str, bool | None, bool]
"""A condition: the stage's name, whether warm, and whether its answers were not exact, which is never averaged in."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a condition over a run's passes."""

    title: str
    unit: str
    """`tok/s`, or `s` for what is told as a latency."""
    of: Callable[[Stage, Run], Values]
    """What a pass gives to the spread of its condition: one value, or one of each request where they are sequential."""


def _together(stage: Stage, _: Run) -> Values:
    return (of_stage(stage).steady,)


def _per_user(stage: Stage, _: Run) -> Values:
    found = of_stage(stage).decode
    return (None if found is None else found.median,)


def _decode(stage: Stage, _: Run) -> Values:
    return tuple(one.decode for one in of_requests(stage) if one.complete)


def _prefill(stage: Stage, _: Run) -> Values:
    return tuple(one.prefill for one in of_requests(stage) if one.complete)


def _ttft(stage: Stage, _: Run) -> Values:
    found = of_stage(stage).ttft
    return (None if found is None else found.p50,)


def _balanced(stage: Stage, run: Run) -> Values:
    return (balanced_decode(stage, kinds_of(run)).center,)


_DECODE: Final = Figure("decode", "tok/s", _decode)
_TTFT: Final = Figure("TTFT", "s", _ttft)
FIGURES: Final = {
    "ladder": (Figure("decode together", "tok/s", _together), Figure("decode per user", "tok/s", _per_user), _TTFT),
    "suite": (Figure("class-balanced decode", "tok/s", _balanced),),
    "context": (_DECODE, _TTFT),
    "long-prompt": (_DECODE, Figure("prefill", "tok/s", _prefill), _TTFT),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs or more, each against the first."""

    stored: tuple[Stored, ...]
    found: tuple[tuple[Difference, ...], ...]
    """Between the first and each of the others."""
    groups: tuple[tuple[str, tuple[Rung, ...]], ...]
    """The runs of one configuration by their letters, and what the two-run rule says of their rungs."""

    @classmethod
    def of(cls, stored: Sequence[Stored], environments: Path) -> "Comparison":
        """`environments` is the folder in which those of launches are kept: by them two digests are told apart."""
        records = [with_environment(one.record, environments) for one in stored]
        found = tuple(differences(records[0], other) for other in records[1:])
        return cls(tuple(stored), found, tuple(_groups(records)))

    @property
    def comparable(self) -> bool:
        return all(comparable(one) for one in self.found)

    def why_not(self) -> Iterator[str]:
        """What stands between the runs and a comparison, a line each."""
        for letter, found in zip(_LETTERS[1:], self.found, strict=False):
            parts = {one.part for one in found if one.weight is not Weight.UNPROVEN}
            if parts == {Part.SPECULATION}:
                yield f"A and {letter} differ in speculation alone"
            for one in found:
                yield f"A and {letter}: {one.weight.value}: {words.clean(one.words)}"

    def as_json(self) -> dict[str, object]:
        return {
            "comparable": self.comparable,
            "records": [{"path": str(one.path), "digest": one.digest} for one in self.stored],
            "differences": [[plain(one) for one in found] for found in self.found],
            "figures": [_figure_as_json(figure, self.stored) for figure in _figures_of(self.stored)],
            "identity": [{"runs": letters, "rungs": rungs(found)} for letters, found in self.groups],
        }


def lines_of(found: Comparison, width: int) -> list[str]:
    """All of it in lines of about `width` columns."""
    lines = [*_runs(found), ""]
    if not found.comparable:
        lines.append(paint("not comparable:", Style.RED))
    elif any(found.found):
        lines.append(paint("comparable as far as is known:", Style.YELLOW))
    else:
        lines.append(paint("comparable: nothing that counts differs", Style.GREEN))
    for line in found.why_not():
        lines += words.folded(f"  {line}", width, indent="    ")
    for figure in _figures_of(found.stored):
        lines += ["", *_table(figure, found.stored, width)]
    for letters, rungs_there in found.groups:
        which = " and ".join(letters)
        lines += ["", paint(f"identity of {which}, by the two-run rule", Style.BOLD), *standings(rungs_there, width)]
    return lines


def _groups(records: Sequence[Record]) -> Iterator[tuple[str, tuple[Rung, ...]]]:
    """Each record is with the first one that it compares with; those without any identity are in none."""
    together: list[list[int]] = []
    for number, record in enumerate(records):
        home = next((one for one in together if comparable(differences(records[one[0]], record))), None)
        if home is None:
            together.append([number])
        else:
            home.append(number)
    for numbers in together:
        if any(records[number].identity is not None for number in numbers):
            letters = "".join(_LETTERS[number] for number in numbers)
            yield letters, rungs_of([records[number] for number in numbers])


def _runs(found: Comparison) -> Iterator[str]:
    for letter, one in zip(_LETTERS, found.stored, strict=False):
        record = one.record
        setting = record.setting
        profile = "" if setting is None or setting.configuration.profile is None else setting.configuration.profile
        note = f" ({record.note})" if record.note else ""
        yield words.clean(
            f"{letter}  {short(one.digest)}  {record.kind}  {when(record.began)}  {profile}{note}"
        ).rstrip()
        for reason in spoiled(judge(record)):
            where = "" if reason.stage is None else f"{reason.stage}, pass {reason.pass_number}: "
            yield f"   {paint('not counted:', Style.RED)} {words.clean(f'{where}{reason.words}')}"


def _figures_of(stored: Sequence[Stored]) -> tuple[Figure, ...]:
    return FIGURES.get(stored[0].record.kind, ())


def conditions(record: Record, figure: Figure) -> dict[Key, Spread | None]:
    """A figure of each condition over the passes that count; those that were not exact are a condition of their own."""
    if record.run is None:
        return {}
    judgements = judge(record)
    stages = () if record.identity is None else record.identity.stages
    astray = {(one.stage, one.pass_number) for one in stages if one.divergences}
    found: dict[Key, list[float | None]] = {}
    for stage in record.run.stages:
        if stage.pass_number > 0 and not spoils_stage(judgements, stage):
            name = "all servers" if record.kind == "suite" else stage.name
            key = (name, stage.warm, (stage.name, stage.pass_number) in astray)
            found.setdefault(key, []).extend(figure.of(stage, record.run))
    return {key: spread(values) for key, values in found.items()}


def _table(figure: Figure, stored: Sequence[Stored], width: int) -> list[str]:
    told = [conditions(one.record, figure) for one in stored]
    keys = list(dict.fromkeys(key for one in told for key in one))
    if not keys:
        return [f"{figure.title}: no run has any that counts"]
    columns = [Column(figure.title, [_name(key) for key in keys], left=True)]
    for letter, one in zip(_LETTERS, told, strict=False):
        columns.append(
            Column(
                letter if figure.unit == "s" else f"{letter} {figure.unit}", [_value(one, key, figure) for key in keys]
            )
        )
        if letter != "A":
            ratios = [ratio(told[0].get(key), one.get(key)) for key in keys]
            columns.append(Column(f"{letter}/A", [_ratio_words(ratio) for ratio in ratios]))
            columns.append(Column("from-to", [_ratio_range(ratio) for ratio in ratios], need=1))
    return table(columns, width)


def _name(key: Key) -> str:
    name, warm, astray = key
    warmth = {True: " warm", False: " cold", None: ""}[warm]
    return f"{name}{warmth}{', not exact' if astray else ''}"


def _value(found: dict[Key, Spread | None], key: Key, figure: Figure) -> str:
    if key not in found:
        return "-"
    value = found[key]
    if value is None:
        return UNKNOWN
    return words.latency(value.median) if figure.unit == "s" else words.number(value.median)


def ratio(first: Spread | None, other: Spread | None) -> Spread | None:
    """Of the medians, with the least and the most that the two spreads allow."""
    if first is None or other is None or min(first.least, other.least) <= 0:
        return None
    return Spread(
        other.median / first.median, other.least / first.most, other.most / first.least, min(first.count, other.count)
    )


def _ratio_words(ratio: Spread | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.3f}"


def _ratio_range(ratio: Spread | None) -> str:
    return "-" if ratio is None or ratio.least == ratio.most else f"{ratio.least:.3f}-{ratio.most:.3f}"


def _figure_as_json(figure: Figure, stored: Sequence[Stored]) -> dict[str, object]:
    told = [conditions(one.record, figure) for one in stored]
    keys = list(dict.fromkeys(key for one in told for key in one))
    return {
        "figure": figure.title,
        "unit": figure.unit,
        "conditions": [
            {
                "stage": key[0],
                "warm": key[1],
                "not_exact": key[2],
                "values": [plain(one.get(key)) for one in told],
                "ratios": [plain(ratio(told[0].get(key), one.get(key))) for one in told[1:]],
            }
            for key in keys
        ],
    }
