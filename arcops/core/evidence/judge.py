"""What a record is worth: each question that decides it, with its answer and the reason in words.

Unknown is an answer of its own, and never a good one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, pairwise
from statistics import median
from typing import Final

from arcops.core.evidence.caching import Caching, cached, cold, wanted
from arcops.core.evidence.measured import Measured
from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.run import Canary, Counters, Run, Stage
from arcops.core.evidence.setting import Setting

MOST_LAG: Final = 0.1
"""How late the client's loop may come (p99), as a share of the stage's median gap between chunks."""
LITTLE_LAG: Final = 0.002
"""Seconds of lag that are never too much: the loop's own timers are a millisecond late (epoll counts in whole ones),
where an arriving chunk wakes it at once."""
STALE_CACHES: Final = "caches"
"""What is said to have befallen a suite one of whose servers had compile caches that were not empty."""
_PREFILLS: Final = "long-prompt"
"""The benchmark that is about prefilling."""
_FRESH: Final = "suite"
"""The benchmark whose every stage has a server of its own."""


class Question(Enum):
    """What is asked of a record."""

    COLD = "cold"
    """Did the server really have nothing of these prompts?"""
    CACHED = "cached"
    """Did it really have all of them that it can?"""
    UNDISTURBED = "undisturbed"
    """Did nothing befall the cards or the server?"""
    SAME_SERVER = "same server"
    """Was it the same process all the time (for the suite: another one each time)?"""
    CANARIES = "canaries"
    """Does it answer after the run as it did before?"""
    ANSWERED = "answered"
    """Has every request a complete answer?"""
    ALONE = "alone"
    """Did nobody else use the server meanwhile?"""
    AT_ONCE = "at once"
    """Did all of the stage's users run at once, and none wait?"""
    NO_PREEMPTION = "no preemption"
    """Did the KV cache hold them all?"""
    LATENCIES = "latencies"
    """Was the client fast enough to time the chunks?"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One question, and what the record says to it."""

    question: Question
    verdict: Verdict
    words: str
    """Why, with the figures."""
    stage: str | None = None
    """None: it is about the whole run."""
    pass_number: int | None = None
    spoils: bool = False
    """What it is about may not be counted: its figures are not those of what was to be measured."""


def judge(record: Measured) -> tuple[Judgement, ...]:
    """All questions about a benchmark's record: those about the run first, then by stage; none for other records."""
    run, setting = record.run, record.setting
    if run is None or setting is None:
        return ()
    of_run = chain(
        (_undisturbed(setting),),
        _same_server(record.kind, run, setting),
        _canaries(run.canaries),
    )
    return (*of_run, *chain.from_iterable(_of_stage(record.kind, stage, setting) for stage in run.stages))


def spoiled(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Why the run, or some of its stages, may not be counted."""
    return tuple(one for one in judgements if one.spoils)


def spoils_stage(judgements: Iterable[Judgement], stage: Stage) -> str:
    """Why this stage may not be counted, in words; empty where it may. What spoils the run spoils all its stages."""
    here = (stage.name, stage.pass_number)
    found = (one for one in judgements if one.spoils and (one.stage is None or (one.stage, one.pass_number) == here))
    return next((one.words for one in found), "")


def _of_stage(kind: str, stage: Stage, setting: Setting) -> Iterator[Judgement]:
    yield _answered(stage)
    yield _alone(stage)
    if stage.pass_number == 0:
        return
    match wanted(stage):
        case Caching.COLD:
            verdict, words = cold(stage)
            # Where decoding is what is measured it counts all the same: TTFT and prefill alone are not cold.
            spoils = verdict is Verdict.FAILED and kind == _PREFILLS
            yield _told(Question.COLD, stage, verdict, words, spoils=spoils)
        case Caching.CACHED:
            verdict, words = cached(stage, setting.server)
            yield _told(Question.CACHED, stage, verdict, words, spoils=verdict is Verdict.FAILED)
        case None:
            pass
    if stage.concurrency > 1:
        yield _at_once(stage, setting.configuration.max_num_seqs)
    yield _no_preemption(stage)
    yield _latencies(stage)


def _undisturbed(setting: Setting) -> Judgement:
    bad = [one for one in setting.befallen if one.spoils]
    if bad:
        first = bad[0]
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        words = f"{first.kind} at {first.at:.1f} s: {first.text}{more}"
        return Judgement(Question.UNDISTURBED, Verdict.FAILED, words, spoils=True)
    if setting.watched_by == "nobody":
        words = f"nobody watched for resets{f': {setting.unwatched}' if setting.unwatched else ''}"
        return Judgement(Question.UNDISTURBED, Verdict.UNKNOWN, words)
    beside = "".join(f"; {one.kind} at {one.at:.1f} s: {one.text}" for one in setting.befallen[:3])
    return Judgement(Question.UNDISTURBED, Verdict.PASSED, f"no reset was seen by the {setting.watched_by}{beside}")


def _same_server(kind: str, run: Run, setting: Setting) -> Iterator[Judgement]:
    question = Question.SAME_SERVER
    for stage in run.stages:
        restarted = _restarted(stage)
        if restarted:
            yield _told(question, stage, Verdict.FAILED, restarted, spoils=True)
    starts = [stage.before.server_started for stage in run.stages]
    if None in starts or not starts:
        yield Judgement(question, Verdict.UNKNOWN, "the server does not say when it started")
        return
    unseen = next((stage for stage in run.stages if stage.after.server_started is None), None)
    if unseen is not None:
        words = f"after stage {unseen.name} the server did not say when it started"
        yield Judgement(question, Verdict.UNKNOWN, words)
        return
    changes = [later for earlier, later in pairwise(run.stages) if not _same_start(earlier.before, later.before)]
    if kind == _FRESH:
        yield _fresh(run, setting)
    elif changes:
        words = f"the server before stage {changes[0].name} is not the one that was measured first"
        yield Judgement(question, Verdict.FAILED, words, spoils=True)
    else:
        yield Judgement(question, Verdict.PASSED, "one server process from the first stage to the last")


def _fresh(run: Run, setting: Setting) -> Judgement:
    """Each of the suite's servers has to be a new one, with empty compile caches."""
    starts: dict[float | None, str] = {}
    for stage in run.stages:
        other = starts.setdefault(stage.before.server_started, stage.name)
        if other != stage.name:
            words = f"{stage.name} is the very server that {other} was, and not a fresh one"
            return Judgement(Question.SAME_SERVER, Verdict.FAILED, words, spoils=True)
    stale = [one.text for one in setting.befallen if one.kind == STALE_CACHES]
    if stale:
        return Judgement(Question.SAME_SERVER, Verdict.FAILED, "; ".join(stale))
    return Judgement(Question.SAME_SERVER, Verdict.PASSED, f"{len(starts)} servers, each started anew")


def _restarted(stage: Stage) -> str:
    """Why the server after the stage cannot be the one before it; empty where nothing says so."""
    before, after = stage.before, stage.after
    if None not in (before.server_started, after.server_started) and not _same_start(before, after):
        return "the server was restarted while it went on"
    pairs = (
        (before.prompt_tokens, after.prompt_tokens),
        (before.generation_tokens, after.generation_tokens),
        (before.prefix_queries, after.prefix_queries),
    )
    if any(was is not None and becomes is not None and becomes < was for was, becomes in pairs):
        return "the server's counters fell while it went on: it was restarted"
    return ""


def _same_start(before: Counters, after: Counters) -> bool:
    return before.server_started == after.server_started


def _canaries(canaries: tuple[Canary, ...]) -> Iterator[Judgement]:
    question = Question.CANARIES
    if not canaries:
        yield Judgement(question, Verdict.UNKNOWN, "none was asked")
        return
    same = 0
    for name in dict.fromkeys(one.question for one in canaries):
        asked = [one for one in canaries if one.question == name]
        given = {one.answer for one in asked if one.answer is not None}
        silent = [one for one in asked if one.answer is None]
        if len(given) > 1:
            yield Judgement(question, Verdict.FAILED, f"{name!r} is answered differently after the run", spoils=True)
        elif silent and silent[0].when == "after" and given:
            words = f"{name!r} was answered before the run, and not after it: {silent[0].problem}"
            yield Judgement(question, Verdict.FAILED, words, spoils=True)
        elif silent or {one.when for one in asked} != {"before", "after"}:
            yield Judgement(question, Verdict.UNKNOWN, f"{name!r} was not answered both before and after the run")
        else:
            same += 1
    if same:
        yield Judgement(question, Verdict.PASSED, f"{same} answered after the run as before it")


def _answered(stage: Stage) -> Judgement:
    failed = [one for one in stage.requests if one.problem or one.ended is None]
    if not stage.requests:
        return _told(Question.ANSWERED, stage, Verdict.UNKNOWN, "nothing was asked")
    if failed:
        words = f"{len(failed)} of {len(stage.requests)} requests failed, the first: {failed[0].problem}"
        return _told(Question.ANSWERED, stage, Verdict.FAILED, words, spoils=True)
    return _told(Question.ANSWERED, stage, Verdict.PASSED, f"all {len(stage.requests)} requests")


def _alone(stage: Stage) -> Judgement:
    """By what the server counted beside what it told us that it gave us."""
    question = Question.ALONE
    if (stage.watched.most_running or 0) > stage.concurrency:
        words = f"{stage.watched.most_running:,.0f} requests ran where {stage.concurrency} were ours"
        return _told(question, stage, Verdict.FAILED, words, spoils=True)
    counted = _difference(stage.before.generation_tokens, stage.after.generation_tokens)
    given = _sum(one.output_tokens for one in stage.requests)
    if counted is None or given is None or any(one.problem for one in stage.requests):
        return _told(question, stage, Verdict.UNKNOWN, "the server's counters or its usage do not say")
    asked = _sum(one.prompt_tokens for one in stage.requests)
    prefilled = _difference(stage.before.prompt_tokens, stage.after.prompt_tokens)
    foreign = counted - given
    read = None if asked is None or prefilled is None else prefilled - asked
    if foreign > 0 or (read is not None and read > 0):
        words = f"the server counted {foreign:+,.0f} output and {read or 0:+,.0f} prompt tokens beside ours"
        preempted = _difference(stage.before.preemptions, stage.after.preemptions)
        if foreign <= 0 and preempted:  # a prompt that is read again is counted again
            return _told(question, stage, Verdict.UNKNOWN, f"{words}, which its preemptions may explain")
        return _told(question, stage, Verdict.FAILED, f"{words}: somebody else used it", spoils=True)
    if foreign < 0 or (read is not None and read < 0):
        return _told(question, stage, Verdict.UNKNOWN, "the server counted fewer tokens than it says that it gave us")
    return _told(question, stage, Verdict.PASSED, f"the server counted our {counted:,.0f} output tokens and no more")


def _at_once(stage: Stage, most: int | None) -> Judgement:
    users, waited = stage.concurrency, stage.watched.most_waiting
    if most is not None and users > most:
        words = f"queueing: {users} users of a server that runs {most} requests at once"
        return _told(Question.AT_ONCE, stage, Verdict.FAILED, words)
    if waited is None and most is None:
        return _told(Question.AT_ONCE, stage, Verdict.UNKNOWN, "the server's queue was not seen")
    if waited:
        return _told(Question.AT_ONCE, stage, Verdict.FAILED, f"queueing: up to {waited:,.0f} of {users} waited")
    return _told(Question.AT_ONCE, stage, Verdict.PASSED, f"{users} users, and none was seen to wait")


def _no_preemption(stage: Stage) -> Judgement:
    count = _difference(stage.before.preemptions, stage.after.preemptions)
    if count is None or count < 0:
        return _told(Question.NO_PREEMPTION, stage, Verdict.UNKNOWN, "the server does not count its preemptions")
    if count:
        words = f"{count:,.0f} preemptions: the KV cache did not hold all requests"
        return _told(Question.NO_PREEMPTION, stage, Verdict.FAILED, words)
    return _told(Question.NO_PREEMPTION, stage, Verdict.PASSED, "none")


def _latencies(stage: Stage) -> Judgement:
    gaps = [later - earlier for one in stage.requests for earlier, later in pairwise(one.arrivals)]
    if not gaps:
        return _told(Question.LATENCIES, stage, Verdict.UNKNOWN, "no request has two chunks")
    gap, lag = median(gaps), stage.client.lag_p99
    words = f"the client's loop was up to {lag * 1000:.1f} ms late (p99), beside {gap * 1000:.1f} ms between chunks"
    if lag > max(LITTLE_LAG, MOST_LAG * gap):
        return _told(Question.LATENCIES, stage, Verdict.FAILED, f"{words}: its latencies are not to be trusted")
    return _told(Question.LATENCIES, stage, Verdict.PASSED, words)


def _told(question: Question, stage: Stage, verdict: Verdict, words: str, *, spoils: bool = False) -> Judgement:
    return Judgement(question, verdict, words, stage.name, stage.pass_number, spoils)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _sum(values: Iterable[int | None]) -> int | None:
    """None as soon as one is unknown."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None
