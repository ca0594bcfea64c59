"""What was measured, as tables: stages, identity, canaries, what measuring cost, and every request."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from arcops import words
from arcops.core.evidence.balanced import center, kinds_of
from arcops.core.evidence.figures import RequestFigures, of_requests
from arcops.core.evidence.run import Canary, Request, Run
from arcops.core.evidence.soaked import median_of
from arcops.core.evidence.statistics import ratio, spread
from arcops.evidence.report import table
from arcops.evidence.report.picture import STANDINGS
from arcops.evidence.report.subject import MeasuredStage, Subject, short
from arcops.evidence.report.table import Cell, Table, Tone
from arcops.evidence.report.verdicts import tone_of_standing

_NOT_ASKED: Final = Cell("–", Tone.DIM, number=False)
"""What has no meaning here, which is not the same as unknown."""


def speed(subject: Subject) -> Table | None:
    """A row for each stage of each pass: what a user saw of it."""
    if not subject.stages:
        return None
    several = any(one.stage.concurrency > 1 for one in subject.stages)
    heads = (
        ("stage", "pass", "cache", "users", "requests", "standing"),
        ("all together, tok/s",) if several else (),
        ("throughput, tok/s", "per user, tok/s", "prefill, tok/s", "TTFT p50", "TTFT p90", "TTFT p99"),
        ("gap p50", "gap p90", "gap p99", "per token p50"),
    )
    rows = [(*_named(one), _standing(one), *_timed(one, several=several)) for one in subject.stages]
    return table.table("Stages", tuple(chain.from_iterable(heads)), rows)


def served(subject: Subject) -> Table | None:
    """A row for each stage of each pass: what the server and the cards did meanwhile."""
    if not subject.stages:
        return None
    head = (
        "stage", "pass", "wall", "output tokens", "tokens per step", "accepted", "prefix hits", "most running",
        "most waiting", "KV cache", "preemptions", "power, W", "J per token", "peak memory",
    )  # fmt: skip
    rows = [
        (
            table.text(one.stage.name),
            table.count(one.stage.pass_number),
            table.seconds(one.figures.wall),
            table.count(one.figures.output_tokens),
            table.rate(one.figures.tokens_per_step),
            table.share(one.figures.acceptance),
            table.share(one.figures.hit_rate),
            table.count(one.figures.most_running),
            table.count(one.figures.most_waiting),
            table.share(one.figures.most_kv_usage),
            table.count(one.figures.preemptions),
            table.rate(one.figures.power),
            table.rate(one.figures.energy_per_token),
            table.memory(one.figures.peak_memory),
        )
        for one in subject.stages
    ]
    return table.table("Server and cards", head, rows)


def suite(subject: Subject) -> Table | None:
    """The one figure of a suite; None for any other benchmark."""
    run = subject.record.run
    if run is None or subject.record.kind != "suite":
        return None
    counted = [one for one in subject.stages if not one.spoiled]
    found = center([one.stage for one in counted], kinds_of(run))
    row = (table.rates(found), table.count(len(counted)), table.count(len(subject.stages) - len(counted)))
    head = ("center over fresh servers, tok/s", "servers", "servers spoiled")
    return table.table("Class-balanced decode", head, (row,))


def ceiling(subject: Subject) -> Table | None:
    """The measured decode beside the most that the cards could do; None where that is not known."""
    setting = subject.record.setting
    if setting is None or not setting.ceilings:
        return None
    rows: list[Sequence[Cell | str]] = []
    for one in setting.ceilings:
        here = [
            figures.decode
            for stage in subject.stages
            if stage.stage.depth == one.depth and stage.stage.concurrency == 1 and not stage.spoiled
            for figures in of_requests(stage.stage)
            if figures.complete
        ]
        middle = spread(here)
        bound = one.plain if one.speculative is None else one.speculative
        rows.append(
            (
                table.count(one.depth),
                table.rate(one.plain),
                table.rate(one.speculative),
                table.rates(middle),
                table.share(ratio(None if middle is None else middle.median, bound)),
            )
        )
    head = (
        "tokens in the cache",
        "ceiling, tok/s",
        "ceiling with speculation, tok/s",
        "measured, tok/s",
        "of the ceiling",
    )
    return table.table("Decode of one sequence beside its ceiling", head, rows)


def soak(subject: Subject) -> Table | None:
    """What each kind of client did; None for any other record."""
    given = subject.record.soak
    if given is None:
        return None
    rows: list[Sequence[Cell | str]] = []
    for kind in dict.fromkeys(span.kind for span in given.spans):
        spans = [span for span in given.spans if span.kind == kind]
        failed = sum(span.failed for span in spans)
        rows.append(
            (
                kind,
                table.count(sum(span.asked for span in spans)),
                Cell(f"{failed:,}", Tone.BAD if failed else Tone.PLAIN),
                table.seconds(median_of(one for span in spans for one in span.ttft)),
                table.seconds(median_of(one for span in spans for one in span.between)),
            )
        )
    head = ("kind", "asked", "failed", "TTFT p50", "inter-token p50")
    lasted = words.duration(given.lasted)
    return table.table(f"{given.clients:,} mixed clients for {lasted}", head, rows)


def troubles(subject: Subject) -> Table | None:
    """What went wrong in a soak; None where nothing did."""
    given = subject.record.soak
    if given is None or not given.troubles:
        return None
    rows = [
        (table.seconds(one.at), table.count(one.client), one.kind, table.seconds(one.seconds), one.problem)
        for one in given.troubles
    ]
    return table.table("Troubles", ("at", "client", "kind", "after", "what"), rows)


def rungs(subject: Subject) -> Table | None:
    """Identity of each rung; None for a record without a run."""
    if not subject.rungs:
        return None
    rows = [
        (
            rung.name,
            ", ".join(one.share for one in rung.passes),
            table.text(rung.standing.value, tone_of_standing(rung.standing)),
            rung.words,
        )
        for rung in subject.rungs
    ]
    return table.table(
        "Identity: answers that are the oracle's, token by token", ("rung", "exact", "standing", "why"), rows
    )


def divergences(subject: Subject) -> Table | None:
    """Where answers leave the oracle's; None where none does."""
    identity = subject.record.identity
    if identity is None or not any(stage.divergences for stage in identity.stages):
        return None
    rows = [
        (
            stage.stage,
            table.count(stage.pass_number),
            one.item,
            table.count(one.position),
            table.text("the end" if one.oracle_token is None else one.oracle_token),
            table.text("the end" if one.token is None else one.token),
            Cell("unknown", Tone.DIM)
            if one.margin is None or one.margin.nats is None
            else Cell(f"{one.margin.nats:.4f}"),
            "" if one.margin is None else one.margin.unknown,
        )
        for stage in identity.stages
        for one in stage.divergences
    ]
    head = ("stage", "pass", "item", "token", "oracle's", "here", "margin, nats", "")
    return table.table("Divergences", head, rows)


def canaries(subject: Subject) -> Table | None:
    """What was asked before and after; None where nothing was."""
    run = subject.record.run
    asked = (*(() if run is None else run.canaries), *_soak_canaries(subject))
    if not asked:
        return None
    rows = [(one.when, one.question, *_answer(one)) for one in asked]
    return table.table("Canaries", ("when", "question", "answer", "digest"), rows)


def client(subject: Subject) -> Table | None:
    """What measuring cost, and how late the client may have looked."""
    if not subject.stages:
        return None
    rows = [
        (
            table.text(one.stage.name),
            table.count(one.stage.pass_number),
            table.count(one.stage.concurrency),
            table.share(ratio(one.stage.client.cpu_seconds, one.stage.client.seconds)),
            table.seconds(one.stage.client.lag_p50),
            table.seconds(one.stage.client.lag_p99),
            table.seconds(one.stage.client.lag_worst),
            table.count(one.stage.watched.looks),
        )
        for one in subject.stages
    ]
    head = ("stage", "pass", "users", "of a core", "lag p50", "lag p99", "worst lag", "looks at the server")
    return table.table("The client's own cost", head, rows)


def requests(run: Run) -> Table:
    """Every one of them, those that are not measured, too."""
    head = (
        "stage", "pass", "user", "item", "sent", "TTFT", "decode, tok/s", "end to end", "chunks", "prompt", "cached",
        "output", "finish", "answer", "problem",
    )  # fmt: skip
    rows = [
        (table.text(stage.name), table.count(stage.pass_number), *_request(request, figures))
        for stage in run.stages
        for request, figures in zip(stage.requests, of_requests(stage), strict=True)
    ]
    return table.table("Requests", head, rows)


def _named(one: MeasuredStage) -> tuple[Cell, ...]:
    stage, figures = one.stage, one.figures
    warmth = {None: _NOT_ASKED, True: table.text("warm"), False: table.text("cold")}[stage.warm]
    failed = Cell(f"{figures.requests:,}, {figures.failed:,} failed", Tone.BAD) if figures.failed else None
    asked = failed or table.count(figures.requests)
    return table.text(stage.name), table.count(stage.pass_number), warmth, table.count(stage.concurrency), asked


def _timed(one: MeasuredStage, *, several: bool) -> tuple[Cell, ...]:
    figures = one.figures
    per_token = None if figures.time_per_token is None else figures.time_per_token.p50
    return (
        *((table.rate(figures.steady),) if several else ()),
        table.rate(figures.throughput),
        table.rates(figures.decode),
        table.rates(figures.prefill) if one.stage.concurrency == 1 else _NOT_ASKED,
        *table.middle_and_tail(figures.ttft),
        *table.middle_and_tail(figures.chunk_gaps),
        table.seconds(per_token),
    )


def _standing(one: MeasuredStage) -> Cell:
    if one.spoiled:
        return table.text(f"spoiled: {one.spoiled}", Tone.BAD)
    if one.standing is None:
        return table.text(STANDINGS[one.fill], Tone.DIM)
    return table.text(one.standing.value, tone_of_standing(one.standing))


def _soak_canaries(subject: Subject) -> tuple[Canary, ...]:
    return () if subject.record.soak is None else subject.record.soak.canaries


def _answer(one: Canary) -> tuple[Cell, Cell]:
    if one.answer is None:
        return table.text(words.unknown(one.problem), Tone.WARN), table.text("")
    return table.text(one.text.replace("\n", "⏎")), table.text(short(one.answer))


def _request(request: Request, figures: RequestFigures) -> tuple[Cell, ...]:
    bad = Tone.PLAIN if figures.complete else Tone.BAD
    return (
        table.count(request.user),
        table.text(request.item),
        table.seconds(request.sent),
        table.seconds(figures.ttft),
        table.rate(figures.decode),
        table.seconds(figures.end_to_end),
        table.count(len(request.arrivals)),
        table.count(request.prompt_tokens),
        table.count(request.cached_tokens),
        table.count(request.output_tokens),
        table.text(request.finish or "none", bad),
        table.text("none" if request.answer is None else short(request.answer)),
        table.text(request.problem, bad),
    )
