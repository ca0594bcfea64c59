"""Can this record be true? What contradicts itself was not written by arcops, whatever its digest says.

Held to it is what arcops itself measured and reckoned. What a server said of itself (its usage, its counters, its
log-probabilities) may be nonsense, and is recorded as it was said: it is judged (`judge`), not refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from arcops.core.evidence.identity import ITSELF, Identity, StageIdentity, by_itself, compare, without_margins
from arcops.core.evidence.measured import Measured
from arcops.core.evidence.run import ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.work import Workload, digest_of_items, digest_of_tokens

_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999, since the epoch."""
_SLACK: Final = 0.001
"""Seconds by which two looks at the same clock may seem to be in the wrong order, after rounding."""
_BENCHES: Final = ("long-prompt", "context", "ladder", "suite")


def impossible(record: Measured) -> str:
    """The first thing that cannot be, in words; empty where nothing speaks against the record."""
    return next(_contradictions(record), "")


def _contradictions(record: Measured) -> Iterator[str]:
    if not 0 <= record.began <= _LATEST:
        yield f"it began {record.began} s after the epoch"
    if record.kind in _BENCHES and record.run is None:
        yield f"a record of a {record.kind} has no run"
    if record.run is None:
        if record.identity is not None:
            yield "there are no answers, and yet an identity"
        return
    if record.kind in _BENCHES and record.run.workload.name != record.kind:
        yield f"a record of a {record.kind} has the workload of a {record.run.workload.name}"
    yield from _of_workload(record.run.workload)
    yield from _of_answers(record.run)
    yield from _of_stages(record.run)
    if record.identity is not None:
        yield from _of_identity(record.identity, record.run)


def _of_workload(workload: Workload) -> Iterator[str]:
    if len({item.name for item in workload.items}) != len(workload.items):
        yield "two items of the workload have the same name"
    if workload.digest != digest_of_items(workload.items):
        yield "the workload's digest is not that of its items"


def _of_answers(run: Run) -> Iterator[str]:
    for said, tokens in run.answers.items():
        if said != digest_of_tokens(tokens):
            yield f"the answer {said} has tokens of another digest"
    for question in run.canaries:
        if question.when not in ("before", "after"):
            yield f"a canary was asked {question.when!r}, neither before nor after"


def _of_stages(run: Run) -> Iterator[str]:
    items = {item.name for item in run.workload.items}
    seen: set[tuple[int, str]] = set()
    for stage in run.stages:
        where = f"stage {stage.name} of pass {stage.pass_number}"
        if (stage.pass_number, stage.name) in seen:
            yield f"{where} is there twice"
        seen.add((stage.pass_number, stage.name))
        for words in _of_stage(stage):
            yield f"{where}: {words}"
        for request in stage.requests:
            for words in _of_request(request, stage, items, run.answers):
                yield f"{where}, request {request.item} of user {request.user}: {words}"


def _of_stage(stage: Stage) -> Iterator[str]:
    if stage.pass_number < 0:
        yield "its pass has a negative number"
    if stage.concurrency < 1:
        yield f"{stage.concurrency} users"
    if stage.depth is not None and stage.depth < 0:
        yield f"a depth of {stage.depth} tokens"
    if not _in_order(stage.before, stage.after):
        yield "its counters were read after it before they were read before it"
    yield from _of_load(stage.client)
    yield from _of_watch(stage.watched)


def _in_order(before: Counters, after: Counters) -> bool:
    return 0 <= before.at <= after.at + _SLACK


def _of_load(load: ClientLoad) -> Iterator[str]:
    if min(load.seconds, load.cpu_seconds, load.lag_p50, load.lag_p99, load.lag_worst) < 0:
        yield "what it cost the client is negative"
    if not load.lag_p50 <= load.lag_p99 <= load.lag_worst:
        yield "the percentiles of the loop's lag are in the wrong order"


def _of_watch(watched: Watched) -> Iterator[str]:
    if watched.looks < 0:
        yield f"the server was looked at {watched.looks} times"


def _of_request(
    request: Request, stage: Stage, items: set[str], answers: Mapping[str, tuple[int, ...]]
) -> Iterator[str]:
    if items and request.item not in items:
        yield "the workload has no such item"
    if not 0 <= request.user < stage.concurrency:
        yield f"there are {stage.concurrency} users"
    if request.sent < 0:
        yield f"sent {request.sent} s after the run began"
    yield from _of_arrivals(request)
    if request.answer is not None and request.answer not in answers:
        yield "its answer is not in the record"


def _of_arrivals(request: Request) -> Iterator[str]:
    if len(request.arrivals) != len(request.chunk_tokens):
        yield f"{len(request.arrivals)} arrivals of {len(request.chunk_tokens)} chunks"
    if any(tokens < 0 for tokens in request.chunk_tokens):
        yield "a chunk of less than no tokens"
    if any(at < 0 for at in request.arrivals):
        yield "tokens came before it was sent"
    if any(later < earlier for earlier, later in zip(request.arrivals, request.arrivals[1:], strict=False)):
        yield "its tokens came in the wrong order of time"
    if request.ended is None:
        if not request.problem:
            yield "it never ended, and yet nothing was wrong"
    elif request.ended < max((0.0, *request.arrivals)) - _SLACK:
        yield "it ended before its last tokens came"


def _of_identity(identity: Identity, run: Run) -> Iterator[str]:
    for stage in identity.stages:
        for words in _of_counts(stage):
            yield f"the identity of stage {stage.stage} of pass {stage.pass_number}: {words}"
    if identity.not_compared:
        if identity.stages:
            yield "it was not compared with an oracle, and yet there is what came of it"
    # Where the record has its own oracle, the identity follows from its answers.
    elif identity.oracle == ITSELF and without_margins(identity.stages) != compare(run, by_itself(run).answers):
        yield "its identity does not follow from its answers"


def _of_counts(stage: StageIdentity) -> Iterator[str]:
    if min(stage.asked, stage.exact, stage.unknown) < 0:
        yield "fewer than none"
    if stage.exact + stage.unknown + len(stage.divergences) != stage.asked:
        told = f"{stage.exact} exact, {stage.unknown} unknown and {len(stage.divergences)} divergent"
        yield f"{told} are not the {stage.asked} that were asked"
    if any(one.position < 0 or one.oracle_token == one.token for one in stage.divergences):
        yield "a divergence that is none"
