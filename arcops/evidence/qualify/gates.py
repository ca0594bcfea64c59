"""From what was seen to verdicts. Pure: the same facts give the same gates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from arcops.bench.chat import ChatAnswer
from arcops.bench.stream import printable
from arcops.core.evidence.identity import Divergence, StageIdentity
from arcops.core.evidence.judge import Judgement, Question
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.run import Counters, Request
from arcops.core.evidence.setting import Setting
from arcops.core.evidence.soak import Soak
from arcops.core.evidence.soaked import asked as soak_asked
from arcops.core.evidence.soaked import gates as soak_gates
from arcops.core.launch import Checks
from arcops.core.quality import DEGENERATE_RUN, Said
from arcops.core.quality import judge as judge_answer
from arcops.core.world import AnswerState
from arcops.evidence.qualify.seen import Course, LongSeen, ToolSeen
from arcops.evidence.qualify.seen import Question as Asked

_MIB: Final = 1 << 20
_MOST_SHOWN: Final = 8
_TRENDS: Final = frozenset({"ttft", "inter-token", "memory"})
"""Gates of a soak that need more time than a short one has: what they cannot tell is said, and decides nothing."""
_DISTURBANCES: Final = (Question.UNDISTURBED, Question.SAME_SERVER, Question.CANARIES)
_COUNTED: Final[Mapping[str, Callable[[Counters], float | None]]] = {
    "prompt tokens": lambda one: one.prompt_tokens,
    "output tokens": lambda one: one.generation_tokens,
    "prefix queries": lambda one: one.prefix_queries,
    "preemptions": lambda one: one.preemptions,
    "corrupted requests": lambda one: one.corrupted,
}
"""What only ever grows, as long as it is the same server."""


def chat(asked: Asked, answer: ChatAnswer) -> Gate:
    """The known answer came."""
    if answer.problem:
        return Gate("chat", Verdict.FAILED, f"no answer: {printable(answer.problem)}", seconds=answer.seconds)
    said = answer.content.strip()
    right = _without_stop(said) == _without_stop(asked.expect) if asked.exactly else asked.expect.strip() in said
    if right:
        words = f"{_quoted(asked.prompt)} was answered {_quoted(said)}"
        return Gate("chat", Verdict.PASSED, words, seconds=answer.seconds)
    verb = "is wanted" if asked.exactly else "is wanted in the answer"
    evidence = (f"asked: {printable(asked.prompt)}", f"answered: {printable(answer.content) or 'nothing'}")
    if answer.reasoning:
        evidence = (*evidence, f"reasoning: {printable(answer.reasoning)}")
    return Gate("chat", Verdict.FAILED, f"{_quoted(asked.expect)} {verb}, and {_quoted(said)} came", evidence)


def tools(seen: Sequence[ToolSeen] | None, *, named: bool) -> Gate:
    """Each case was called for as its schema says, streamed and whole."""
    if seen is None:
        words = "not asked, and not missed: the profile makes no tool calls (qualification.tools: false)"
        return Gate("tools", Verdict.SKIPPED, words)
    if not seen:
        return Gate("tools", Verdict.UNKNOWN, "no case was asked")
    wrong = [one for one in seen if one.streamed or one.whole or one.apart]
    how = ", functions named in the request, since it has no parser of tool calls" if named else ""
    words = f"{len(seen) - len(wrong)} of {len(seen)} cases right, streamed and whole{how}"
    evidence = tuple(
        f"{one.case}, {which}: {what}"
        for one in wrong
        for which, what in (("streamed", one.streamed), ("whole", one.whole), ("both", one.apart))
        if what
    )
    return Gate("tools", Verdict.FAILED if wrong else Verdict.PASSED, words, evidence[: 2 * _MOST_SHOWN])


def long_request(seen: LongSeen) -> Gate:
    """A long prompt was answered in full, and not with one token over and over."""
    name, request = "long-request", seen.request
    if request is None:
        return Gate(name, Verdict.UNKNOWN, f"{seen.tokens:,} tokens could not be asked: {printable(seen.problem)}")
    if request.problem or request.ended is None:
        words = f"{seen.tokens:,} tokens were not answered: {printable(request.problem) or 'the answer never ended'}"
        return Gate(name, Verdict.FAILED, words)
    verdict, words = _in_full(seen, request)
    if verdict is Verdict.FAILED:
        return Gate(name, verdict, words, seconds=request.ended)
    count = seen.output
    state, why = judge_answer(Checks(degenerate=True), Said(seen.text, seen.ids, count))
    if state is not AnswerState.RIGHT:
        evidence = (f"answered: {printable(seen.text) or 'nothing'}",)
        return Gate(name, Verdict.FAILED, f"{seen.tokens:,} tokens: {printable(why)}", evidence, request.ended)
    if verdict is Verdict.UNKNOWN:
        return Gate(name, verdict, words, seconds=request.ended)
    first = "" if request.ttft is None else f", the first after {request.ttft:.1f} s"
    words = f"{seen.tokens:,} tokens were answered with {count:,} in {request.ended:.1f} s{first}"
    return Gate(name, Verdict.PASSED, words, seconds=request.ended)


def _in_full(seen: LongSeen, request: Request) -> tuple[Verdict, str]:
    """Was all of it read, and all that was asked for given? By the server's own count, and by the ids that came."""
    if request.finish == "abort":
        return Verdict.FAILED, f"the answer to {seen.tokens:,} tokens was broken off by the server"
    if request.prompt_tokens is not None and request.prompt_tokens != seen.tokens:
        return Verdict.FAILED, f"{seen.tokens:,} tokens were sent, and the server counts {request.prompt_tokens:,}"
    short = f"{seen.tokens:,} tokens: {seen.output:,} were asked for in answer, and"
    if request.output_tokens is not None and request.output_tokens != seen.output:
        return Verdict.FAILED, f"{short} the server counts {request.output_tokens:,}"
    if seen.ids and len(seen.ids) != seen.output:
        return Verdict.FAILED, f"{short} {len(seen.ids):,} came"
    if request.finish != "length":
        return Verdict.FAILED, f"{short} it ended before them, for {printable(request.finish or 'no reason')}"
    if request.prompt_tokens is None or request.output_tokens is None:
        return Verdict.UNKNOWN, f"{seen.tokens:,} tokens: the server does not count what it read and gave (usage)"
    if seen.output <= DEGENERATE_RUN:
        words = f"{seen.tokens:,} tokens leave room for {seen.output:,}: too few to tell an answer from one token over"
        return Verdict.UNKNOWN, f"{words} and over"
    return Verdict.PASSED, ""


def identity(
    stage: StageIdentity | None, failed: int, *, nothing: str = "", otherwise: int = 0, accepted: str = ""
) -> Gate:
    """The ids of the suite's answers are those of the last qualified record.

    `nothing` says why there is nothing to compare with, `failed` counts questions that were not answered in full, and
    `otherwise` those that were asked otherwise then: of them the stage has no answer to compare with, by right.
    """
    if failed:
        return Gate("identity", Verdict.FAILED, f"{failed} of the suite's questions were not answered in full")
    if nothing or stage is None:
        return Gate("identity", Verdict.SKIPPED, nothing or "there is nothing to compare with")
    asked, unknown = stage.asked - otherwise, stage.unknown - otherwise
    if otherwise and not asked:
        words = f"not compared: the last qualified record was asked none of these {otherwise} questions"
        return Gate("identity", Verdict.SKIPPED, words)
    words = f"{stage.exact}/{asked} answers are those of the last qualified record"
    if otherwise:
        words += f"; {otherwise} not compared, since they were asked otherwise then"
    places = tuple(map(_place, stage.divergences))
    if stage.divergences and not accepted:
        return Gate("identity", Verdict.FAILED, words, places)
    if unknown or not asked:
        return Gate("identity", Verdict.UNKNOWN, f"{words}; {unknown} cannot be compared", places)
    if stage.divergences:
        return Gate("identity", Verdict.PASSED, f"{words}; accepted, because: {printable(accepted)}", places)
    return Gate("identity", Verdict.PASSED, words)


def image(answer: ChatAnswer | None) -> Gate:
    """A picture was answered with something."""
    if answer is None:
        return Gate("image", Verdict.SKIPPED, "no picture was given")
    if answer.problem:
        return Gate("image", Verdict.FAILED, f"no answer: {printable(answer.problem)}", seconds=answer.seconds)
    if not answer.content.strip():
        return Gate("image", Verdict.FAILED, "the answer is empty", seconds=answer.seconds)
    return Gate("image", Verdict.PASSED, f"answered {_quoted(answer.content.strip())}", seconds=answer.seconds)


def soak(seen: Soak | None, setting: Setting) -> Gate:
    """Nothing went wrong in it."""
    if seen is None:
        return Gate("soak", Verdict.SKIPPED, "it was not asked for (--soak)")
    found = [one for one in soak_gates(seen, setting) if one.name != "undisturbed"]
    evidence = tuple(f"{one.name}: {one.detail}" for one in found if one.verdict is not Verdict.PASSED)
    words = f"{soak_asked(seen):,} requests of {seen.clients} clients in {seen.lasted:,.0f} s"
    if any(one.verdict is Verdict.FAILED for one in found):
        bad = ", ".join(one.name for one in found if one.verdict is Verdict.FAILED)
        return Gate("soak", Verdict.FAILED, f"{words}: {bad}", evidence)
    open_ones = [one.name for one in found if one.verdict is Verdict.UNKNOWN]
    if any(name not in _TRENDS for name in open_ones):
        return Gate("soak", Verdict.UNKNOWN, f"{words}; not known: {', '.join(open_ones)}", evidence)
    short = f"; too short to tell a trend of {', '.join(open_ones)}" if open_ones else ""
    return Gate("soak", Verdict.PASSED, f"{words}, and nothing went wrong{short}")


def memory(setting: Setting, cards: Sequence[str] | None, headroom: int) -> Gate:
    """Each card has room left at its fullest. `cards`: PCI addresses; empty on the CPU, None where nobody knows."""
    name = "memory"
    if cards is None:
        return Gate(name, Verdict.UNKNOWN, "on which cards the server runs is not known")
    if not cards:
        return Gate(name, Verdict.SKIPPED, "it runs on the CPU, and no card has to have room")
    totals = {one.address: one.memory_total for one in setting.cards}
    told: list[str] = []
    verdicts: list[Verdict] = []
    for address in cards:
        used = [one.memory_used for one in setting.samples if one.address == address and one.memory_used is not None]
        total = totals.get(address)
        if not used or total is None:
            told.append(f"card {address} could not be read")
            verdicts.append(Verdict.UNKNOWN)
            continue
        left = total - max(used)
        told.append(f"card {address} had {_mib(left)} of {_mib(total)} left at its fullest, {_mib(headroom)} wanted")
        verdicts.append(Verdict.PASSED if left >= headroom else Verdict.FAILED)
    evidence = (setting.unwatched,) if Verdict.UNKNOWN in verdicts and setting.unwatched else ()
    return Gate(name, _worst(verdicts), "; ".join(told), evidence)


def undisturbed(judgements: Iterable[Judgement], counted: Sequence[Counters], course: Course | None = None) -> Gate:
    """No reset, the same server by the same order all the time, nothing corrupted, and the same canaries.

    `counted`: the server's counters from before the first question to after the last. `course`: None where the server
    is not the daemon's.
    """
    found = [one for one in judgements if one.question in _DISTURBANCES]
    seen = [(one.verdict, f"{one.question.value}: {printable(one.words)}") for one in found]
    missing = set(_DISTURBANCES) - {one.question for one in found}
    seen += [
        (Verdict.UNKNOWN, f"{question.value}: nobody looked") for question in sorted(missing, key=lambda one: one.value)
    ]
    seen += _restarts(counted)
    seen += [] if course is None else _orders(course)
    verdict = _worst([one for one, _ in seen])
    if verdict is Verdict.PASSED:
        words = "no reset, one server from the first question to the last, and the canaries answer as before"
        return Gate("undisturbed", verdict, words)
    # What it was not passed for comes first.
    told = [words for one, words in seen if one is verdict]
    told += [words for one, words in seen if one not in (verdict, Verdict.PASSED)]
    return Gate("undisturbed", verdict, told[0], tuple(told[1:_MOST_SHOWN]))


def _restarts(counted: Sequence[Counters]) -> Iterator[tuple[Verdict, str]]:
    """By what the server itself counts and says."""
    starts = [one.server_started for one in counted]
    known = {one for one in starts if one is not None}
    if len(known) > 1:
        yield Verdict.FAILED, "the server at the end is not the one that was asked first: it was restarted"
    if not starts or starts[0] is None or starts[-1] is None:
        yield Verdict.UNKNOWN, "the server does not say, at the beginning and at the end, when it was started"
    for name, value in _COUNTED.items():
        values = [found for one in counted if (found := value(one)) is not None]
        if any(later < earlier for earlier, later in pairwise(values)):
            yield Verdict.FAILED, f"the server's counter of {name} fell: it was restarted"
    corrupted = [one.corrupted for one in counted if one.corrupted is not None]
    if corrupted and corrupted[-1] > corrupted[0]:
        count = corrupted[-1] - corrupted[0]
        yield Verdict.FAILED, f"the server counts {count:,.0f} corrupted requests: their logits held NaN"


def _orders(course: Course) -> Iterator[tuple[Verdict, str]]:
    """By what the daemon says that it runs."""
    begun, ended = course.begun, course.ended
    if begun is None or ended is None:
        when = "end" if ended is None else "beginning"
        yield Verdict.UNKNOWN, f"the daemon did not say at the {when} what runs"
        return
    if begun.order_id != ended.order_id:
        yield Verdict.FAILED, f"another order came in between (order {ended.order_id}, after order {begun.order_id})"
    if begun.launch_id != ended.launch_id:
        runs = "nothing runs" if ended.launch_id is None else f"launch {printable(ended.launch_id)} runs"
        yield Verdict.FAILED, f"at the end {runs}, and launch {printable(begun.launch_id or 'unknown')} was asked first"


def _without_stop(text: str) -> str:
    return text.strip().removesuffix(".")


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    for one in (Verdict.FAILED, Verdict.UNKNOWN):
        if one in verdicts:
            return one
    return Verdict.PASSED if verdicts else Verdict.UNKNOWN


def _place(one: Divergence) -> str:
    margin = one.margin
    if margin is None:
        near = ""
    elif margin.nats is None:
        near = f", margin unknown{f' ({printable(margin.unknown)})' if margin.unknown else ''}"
    else:
        near = f", margin {margin.nats:+.3f} nats"
    return f"{one.item} at token {one.position}: {_token(one.oracle_token)} before, {_token(one.token)} now{near}"


def _token(token: int | None) -> str:
    return "the end" if token is None else str(token)


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB"


def _quoted(text: str) -> str:
    short = text if len(text) <= 120 else f"{text[:119]}…"
    return f"“{printable(short)}”"
