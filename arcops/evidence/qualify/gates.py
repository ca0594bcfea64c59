"""From what was seen to verdicts. Pure: the same facts give the same gates."""

from collections.abc import Iterable, Sequence
from typing import Final

from arcops.bench.chat import ChatAnswer
from arcops.bench.stream import printable
from arcops.core.evidence.identity import Divergence, StageIdentity
from arcops.core.evidence.judge import Judgement, Question
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.run import Counters
from arcops.core.evidence.setting import Setting
from arcops.core.evidence.soak import Soak
from arcops.core.evidence.soaked import asked as soak_asked
from arcops.core.evidence.soaked import gates as soak_gates
from arcops.core.launch import Checks
from arcops.core.quality import Said
from arcops.core.quality import judge as judge_answer
from arcops.core.world import AnswerState
from arcops.evidence.qualify.seen import LongSeen, ToolSeen
from arcops.evidence.qualify.seen import Question as Asked

_MIB: Final = 1 << 20
_MOST_SHOWN: Final = 8
_TRENDS: Final = frozenset({"ttft", "inter-token", "memory"})
"""Gates of a soak that need more time than a short one has: what they cannot tell is said, and decides nothing."""
_DISTURBANCES: Final = (Question.UNDISTURBED, Question.SAME_SERVER, Question.CANARIES)


def chat(asked: Asked, answer: ChatAnswer) -> Gate:
    """The known answer came."""
    if answer.problem:
        return Gate("chat", Verdict.FAILED, f"no answer: {printable(answer.problem)}", seconds=answer.seconds)
    said = answer.content.strip()
    right = _without_stop(said) == _without_stop(asked.expect) if asked.exactly else asked.expect in said
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
        return Gate("tools", Verdict.SKIPPED, "the profile says that it makes no calls (qualification.tools)")
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
    if request.finish == "abort":
        return Gate(name, Verdict.FAILED, f"the answer to {seen.tokens:,} tokens was broken off by the server")
    if request.prompt_tokens is not None and request.prompt_tokens != seen.tokens:
        words = f"{seen.tokens:,} tokens were sent, and the server counts {request.prompt_tokens:,}"
        return Gate(name, Verdict.FAILED, words, seconds=request.ended)
    count = request.output_tokens if request.output_tokens is not None else len(seen.ids)
    state, why = judge_answer(Checks(degenerate=True), Said(seen.text, seen.ids, count))
    if state is not AnswerState.RIGHT:
        evidence = (f"answered: {printable(seen.text) or 'nothing'}",)
        return Gate(name, Verdict.FAILED, f"{seen.tokens:,} tokens: {printable(why)}", evidence, request.ended)
    first = "" if request.ttft is None else f", the first after {request.ttft:.1f} s"
    words = f"{seen.tokens:,} tokens were answered with {count:,} in {request.ended:.1f} s{first}"
    return Gate(name, Verdict.PASSED, words, seconds=request.ended)


def identity(stage: StageIdentity | None, failed: int, *, nothing: str = "", accepted: str = "") -> Gate:
    """The ids of the suite's answers are those of the last qualified record.

    `nothing` says why there is nothing to compare with, `failed` counts questions that were not answered in full.
    """
    if failed:
        return Gate("identity", Verdict.FAILED, f"{failed} of the suite's questions were not answered in full")
    if nothing or stage is None:
        return Gate("identity", Verdict.SKIPPED, nothing or "there is nothing to compare with")
    words = f"{stage.exact}/{stage.asked} answers are those of the last qualified record"
    places = tuple(map(_place, stage.divergences))
    if stage.divergences and not accepted:
        return Gate("identity", Verdict.FAILED, words, places)
    if stage.unknown or not stage.asked:
        return Gate("identity", Verdict.UNKNOWN, f"{words}; {stage.unknown} cannot be compared", places)
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


def undisturbed(judgements: Iterable[Judgement], first: Counters, last: Counters) -> Gate:
    """No reset, the same server all the time, and the same canaries."""
    found = [one for one in judgements if one.question in _DISTURBANCES]
    verdicts = [one.verdict for one in found]
    told = [f"{one.question.value}: {printable(one.words)}" for one in found if one.verdict is not Verdict.PASSED]
    if first.server_started is None or last.server_started is None:
        verdicts.append(Verdict.UNKNOWN)
        told.append("the server does not say, at the beginning and at the end, when it was started")
    elif first.server_started != last.server_started:
        verdicts.append(Verdict.FAILED)
        told.append("the server at the end is not the one that was asked first: it was restarted")
    missing = set(_DISTURBANCES) - {one.question for one in found}
    if missing:
        verdicts.append(Verdict.UNKNOWN)
        told += sorted(f"{question.value}: nobody looked" for question in missing)
    words = "no reset, one server from the first question to the last, and the canaries answer as before"
    verdict = _worst(verdicts)
    return Gate("undisturbed", verdict, words if verdict is Verdict.PASSED else told[0], tuple(told[1:_MOST_SHOWN]))


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
