"""A record in words: what was measured and where, its figures as a table, what it is worth."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from arcops import words
from arcops.cli.output import Style, paint
from arcops.cli.tables import Column, table
from arcops.core.evidence.balanced import balanced_decode, center, kinds_of
from arcops.core.evidence.figures import Percentiles, StageFigures, of_stage
from arcops.core.evidence.identity import ITSELF
from arcops.core.evidence.judge import Judgement, Question, judge, spoils_stage
from arcops.core.evidence.measured import Measured
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.evidence.run import Run, Stage
from arcops.core.evidence.rungs import Passed, Rung, Standing, rungs_of
from arcops.core.evidence.setting import CeilingAt, Setting
from arcops.core.evidence.soak import Soak
from arcops.core.evidence.soaked import asked, gates
from arcops.core.evidence.statistics import Spread
from arcops.evidence.shelf import Stored

UNKNOWN: Final = "unknown"
_LABEL: Final = 13
_TOLD: Final = 2
"""Stages of which a bad answer is told in full; of the others their names (`--json` has all)."""
_VERDICTS: Final = {
    Verdict.PASSED: ("yes", Style.GREEN),
    Verdict.FAILED: ("NO", Style.RED),
    Verdict.UNKNOWN: ("unknown", Style.YELLOW),
    Verdict.SKIPPED: ("skipped", Style.DIM),
}
_STANDINGS: Final = {
    Standing.QUALIFIED: Style.GREEN,
    Standing.EXACT: Style.GREEN,
    Standing.NOT_EXACT: Style.RED,
    Standing.UNKNOWN: Style.YELLOW,
}


def lines_of(stored: Stored, width: int, followed: tuple[Verdict, str]) -> list[str]:
    """The whole record in lines of about `width` columns; `followed` is what `evidence.oracle` says of its identity."""
    record = stored.record
    lines = list(heading(stored, width))
    if record.run is not None and record.setting is not None:
        judgements = judge(record)
        rungs = rungs_of([record])
        lines += ["", *figures(record, record.run, record.setting, judgements, rungs, width)]
        lines += ["", *verdicts(judgements, width)]
        lines += ["", *_identity(stored, rungs, followed, width)]
    if record.soak is not None:
        lines += ["", *_soak(record.soak, record.setting, width)]
    if record.qualification is not None:
        lines += ["", *_qualification(record.qualification, width)]
    return lines


def when(at: float) -> str:
    """Seconds since the epoch in local time: `2026-11-30 10:48`."""
    return f"{datetime.fromtimestamp(at, UTC).astimezone():%Y-%m-%d %H:%M}"


def short(digest: str | None) -> str:
    """What of a digest a person compares and types."""
    return UNKNOWN if digest is None else digest.removeprefix("sha256:")[:12]


def heading(stored: Stored, width: int) -> Iterator[str]:
    """What it is a record of."""
    record = stored.record
    took = words.duration(record.ended - record.began)
    yield paint(f"{record.kind} of {when(record.began)}, {took}", Style.BOLD)
    rows = [("record", f"{stored.digest} in {stored.path}"), ("arcops", record.arcops)]
    if record.setting is not None:
        rows += _setting(record.setting)
    rows.append(("command", " ".join(record.command)))
    if record.note:
        rows.append(("note", record.note))
    if record.run is not None:
        rows += _client(record.run)
    if record.environment is not None:
        rows.append(("environment", f"recorded here: {record.environment.interpreter}; `arcops env show` tells it"))
    yield from _labelled(rows, width)


def _setting(setting: Setting) -> list[tuple[str, str]]:
    server, launched = setting.server, setting.configuration
    facts = [
        f"vLLM {server.version or UNKNOWN} at {server.url}",
        f"{server.model or UNKNOWN} from {server.model_root or UNKNOWN}",
        f"context {words.count(server.max_model_len)}",
        f"{words.count(launched.max_num_seqs)} requests at once",
    ]
    how = f"{launched.source}{f', profile {launched.profile}' if launched.profile else ''}"
    argv = " ".join(launched.argv) if launched.argv else "how it was launched is not known"
    cards = ", ".join(f"{one.name} ({one.driver})" for one in setting.cards) or "none that was read"
    return [
        ("server", ", ".join(facts)),
        ("launched", f"{how}: {argv}"),
        ("cards", cards),
        ("environment", launched.environment_digest or "not recorded"),
    ]


def _client(run: Run) -> list[tuple[str, str]]:
    """What measuring cost the program that measured: worst over the stages."""
    loads = [stage.client for stage in run.stages]
    if not loads:
        return []
    busiest = max((one.cpu_seconds / one.seconds for one in loads if one.seconds > 0), default=None)
    lag, worst = max(one.lag_p99 for one in loads), max(one.lag_worst for one in loads)
    said = f"its loop was late by {words.latency(lag)} at p99, by {words.latency(worst)} at worst"
    return [("client", f"{words.percent(busiest)} of a core at most; {said}")]


def figures(
    record: Measured, run: Run, setting: Setting, judgements: Sequence[Judgement], rungs: Sequence[Rung], width: int
) -> Iterator[str]:
    """A row for each measured stage of each pass; for the suite, the centre of its servers below."""
    passes = {(one.stage.name, one.stage.pass_number): one for rung in rungs for one in rung.passes}
    stages = [stage for stage in run.stages if stage.pass_number > 0]
    found = [of_stage(stage, setting.samples) for stage in stages]
    told = [passes[stage.name, stage.pass_number] for stage in stages]
    if not stages:
        yield "nothing was measured"
        return
    yield from table(tuple(_columns(stages, found, told, setting.ceilings)), width)
    if any(spoils_stage(judgements, stage) for stage in stages):
        yield "* not to be counted: see below"
    if record.kind == "suite":
        yield from _suite(run, stages)


def _columns(
    stages: Sequence[Stage], found: Sequence[StageFigures], told: Sequence[Passed], ceilings: Sequence[CeilingAt]
) -> Iterator[Column]:
    several = any(stage.concurrency > 1 for stage in stages)
    names = [f"{one.stage.name}{'*' if one.spoiled else ''}" for one in told]
    yield Column("stage", names, left=True)
    yield Column("pass", [f"{stage.pass_number}{_warmth(stage)}" for stage in stages], left=True)
    if several:
        yield Column("together", [_rate(one.steady) for one in found])
    yield Column("decode", [_middle(one.decode) for one in found])
    yield Column("least-most", [_range(one.decode) for one in found], need=4)
    if not several and ceilings:
        yield Column("ceiling", [_ceiling(stage, one, ceilings) for stage, one in zip(stages, found, strict=True)])
    if not several:
        yield Column("prefill", [_middle(one.prefill) for one in found])
    yield Column("throughput", [_rate(one.throughput) for one in found], need=6)
    yield Column("TTFT", [_p50(one.ttft) for one in found])
    yield Column("TTFT p99", [_p99(one.ttft) for one in found], need=7)
    yield Column("gap p50", [_p50(one.chunk_gaps) for one in found], need=5)
    yield Column("gap p99", [_p99(one.chunk_gaps) for one in found], need=3)
    yield Column("a step", [_known(one.tokens_per_step) for one in found], need=8)
    yield Column("accepted", [words.percent(one.acceptance) for one in found], need=9)
    if several:
        yield Column("waiting", [_known(one.most_waiting) for one in found], need=2)
        yield Column("preempted", [_known(one.preemptions) for one in found], need=10)
    yield Column("memory", [_memory(one.peak_memory) for one in found], need=11)
    yield Column("power", [_watts(one.power) for one in found], need=12)
    yield Column("output", [words.count(one.output_tokens) for one in found], need=13 if several else 1)
    yield Column("identity", [one.share for one in told])


def _ceiling(stage: Stage, found: StageFigures, ceilings: Sequence[CeilingAt]) -> str:
    """What the cards could do at this depth, and the share of it that the median request reached: `300 (62 %)`."""
    at = next((one for one in ceilings if one.depth == stage.depth), None)
    if at is None:
        return UNKNOWN
    most = at.plain if at.speculative is None else at.speculative
    share = f" ({found.decode.median / most:.0%})".replace("%", " %") if found.decode is not None else ""
    return f"{_rate(most)}{share}"


def _suite(run: Run, stages: Sequence[Stage]) -> Iterator[str]:
    kinds = kinds_of(run)
    middle = center(stages, kinds)
    each = " / ".join(_rate(balanced_decode(stage, kinds).center) for stage in stages)
    yield f"class-balanced median, centre of {len(stages)} servers: {_middle(middle)} tok/s ({each})"


def verdicts(judgements: Sequence[Judgement], width: int) -> Iterator[str]:
    """What the record is worth: what is as it should be in a line for each question, all else one by one."""
    yield paint("is it worth anything?", Style.BOLD)
    order = {question: number for number, question in enumerate(Question)}
    ordered = sorted(judgements, key=lambda one: (order[one.question], one.verdict is Verdict.PASSED))
    for question, group in groupby(ordered, key=lambda one: one.question):
        every = list(group)
        good = [one for one in every if one.verdict is Verdict.PASSED]
        for verdict in (Verdict.FAILED, Verdict.UNKNOWN):
            bad = [one for one in every if one.verdict is verdict]
            for one in bad[:_TOLD]:
                yield from _verdict(question, verdict, f"{_place(one)}{one.words}", width)
            if len(bad) > _TOLD:
                yield from _verdict(question, verdict, f"likewise {_others(bad[_TOLD:])}", width)
        if len(good) == 1:
            yield from _verdict(question, Verdict.PASSED, f"{_place(good[0])}{good[0].words}", width)
        elif good:
            whole = "in all stages" if len(good) == len(every) else f"in the other {len(good)} stages"
            yield from _verdict(question, Verdict.PASSED, whole, width)


def _verdict(question: Question, verdict: Verdict, text: str, width: int) -> Iterator[str]:
    word, style = _VERDICTS[verdict]
    start = f"  {question.value:<14} "
    lines = words.folded(words.clean(text), max(20, width - len(start) - 9))
    for number, line in enumerate(lines or [""]):
        yield f"{start}{paint(f'{word:<8}', style)} {line}" if number == 0 else f"{'':<{len(start) + 9}}{line}"


def _others(bad: Sequence[Judgement]) -> str:
    """Their stages; how many, where they are about no stage."""
    stages = [f"{one.stage} of pass {one.pass_number}" for one in bad if one.stage is not None]
    return ", ".join(stages) or f"{len(bad)} more"


def _place(one: Judgement) -> str:
    return "" if one.stage is None else f"{one.stage}, pass {one.pass_number}: "


def _identity(stored: Stored, rungs: Sequence[Rung], followed: tuple[Verdict, str], width: int) -> Iterator[str]:
    found = stored.record.identity
    if found is None:
        yield paint("identity: not compared with any oracle", Style.BOLD)
        return
    if found.not_compared:
        yield from words.folded(f"identity: not compared: {words.clean(found.not_compared)}", width, indent="  ")
        return
    oracle = "its own sequential pass" if found.oracle == ITSELF else f"the oracle {short(found.oracle)}"
    yield paint(f"identity with {oracle}", Style.BOLD)
    verdict, said = followed
    if found.oracle != ITSELF:
        for line in words.folded(f"  {words.clean(said)}", width, indent="  "):
            yield paint(line, _VERDICTS[verdict][1])
    yield from standings(rungs, width)


def standings(rungs: Iterable[Rung], width: int) -> Iterator[str]:
    """What each rung's identity comes to, and why."""
    found = list(rungs)
    longest = max((len(rung.name) for rung in found), default=0)
    for rung in found:
        head = f"  {rung.name:<{longest}}  "
        said = f"{rung.standing.value} ({words.clean(rung.words)})"
        lines = words.folded(said, max(20, width - len(head)))
        for number, line in enumerate(lines):
            yield (head if number == 0 else " " * len(head)) + paint(line, _STANDINGS[rung.standing])


def _soak(found: Soak, setting: Setting | None, width: int) -> Iterator[str]:
    early = f", ended early after {words.duration(found.lasted)}" if found.interrupted else ""
    head = f"{asked(found):,} requests of {found.clients} clients for {words.duration(found.wanted)}{early}"
    yield paint(head, Style.BOLD)
    yield from _gates(gates(found, setting), width)


def _qualification(found: Qualification, width: int) -> Iterator[str]:
    said = "passed" if found.qualified else "did NOT pass"
    yield paint(
        f"profile {words.clean(found.profile)} {said} in environment {short(found.environment_digest)}", Style.BOLD
    )
    yield from _gates(found.gates, width)


def _gates(found: Iterable[Gate], width: int) -> Iterator[str]:
    for gate in found:
        word, style = _VERDICTS[gate.verdict]
        head = f"  {words.clean(gate.name):<14} "
        lines = words.folded(words.clean(gate.detail), max(20, width - len(head) - 9)) or [""]
        for number, line in enumerate(lines):
            yield f"{head}{paint(f'{word:<8}', style)} {line}" if number == 0 else f"{'':<{len(head) + 9}}{line}"


def _labelled(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    for label, text in rows:
        for number, line in enumerate(words.folded(words.clean(text), max(20, width - _LABEL - 2)) or [""]):
            yield f"  {label if number == 0 else '':<{_LABEL}}{line}".rstrip()


def _warmth(stage: Stage) -> str:
    match stage.warm:
        case True:
            return " warm"
        case False:
            return " cold"
        case None:
            return ""


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else words.number(value)


def _middle(value: Spread | None) -> str:
    return UNKNOWN if value is None else words.number(value.median)


def _range(value: Spread | None) -> str:
    return "-" if value is None or value.count < 2 else f"{words.number(value.least)}-{words.number(value.most)}"


def _p50(value: Percentiles | None) -> str:
    return UNKNOWN if value is None else words.latency(value.p50)


def _p99(value: Percentiles | None) -> str:
    return UNKNOWN if value is None else words.latency(value.p99)


def _known(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def _memory(value: int | None) -> str:
    return UNKNOWN if value is None else words.mebibytes(value)


def _watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f} W"
