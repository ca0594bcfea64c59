"""How well does it serve? Answers are judged here, and what is wrong with a backend that goes on serving.

A backend that answers nonsense (one token over and over, with HTTP 200) has to go. One that answers in earnest, only
not what was expected, or whose draft is never accepted, is told of and left alone: a restart would not make it better.
"""

from dataclasses import dataclass, replace

from arcops.core.launch import Checks
from arcops.core.metrics import Sample
from arcops.core.world import Answer, AnswerState, Remark, World

PLAIN_PROMPT = "1 2 3 4"
"""What is asked where no answer is known."""
LONG_ANSWER = 16
"""Tokens that are asked for where the answer is judged and no length is given."""
DEGENERATE_RUN = 8
"""One token so many times in a row, and nothing else, is no language. (`"!" * n` is what broken logits come out as.)"""
JUDGED_TOKENS = 500.0
"""Drafted tokens over which acceptance is judged: at 500 a true 10 % is seen between 6 and 14 % (three sigma)."""
_SHOWN = 60
"""Characters of an expected or given answer that are repeated."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a probe asks, greedily."""

    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Said:
    """What came: the text, the ids of its tokens (empty where the server gives none), and how many were counted."""

    text: str
    tokens: tuple[int, ...]
    counted: int


def question_of(checks: Checks) -> Question:
    """One token is the least that can be asked for, and enough to tell a hang."""
    if checks.known_answer is not None:
        return Question(checks.known_answer.prompt, checks.known_answer.max_tokens)
    return Question(PLAIN_PROMPT, LONG_ANSWER if checks.degenerate else 1)


def judge(checks: Checks, said: Said) -> tuple[AnswerState, str]:
    """RIGHT, OTHER, DEGENERATE or WRONG, and why in words.

    Whoever gave the known answer is right, whatever comes behind it: a base model goes on, in line ends for one.
    """
    if said.counted < 1:
        return AnswerState.WRONG, "an answer without a token"
    known = checks.known_answer
    if known is not None:
        right = said.text.strip() == known.expected.strip() if known.exactly else known.expected in said.text
        if right:
            return AnswerState.RIGHT, "the known answer came"
    if known is None and not checks.degenerate:
        return AnswerState.RIGHT, "one token was asked for, and came"
    if _degenerate(said):
        return AnswerState.DEGENERATE, f"one token over and over: {_shown(said.text)}"
    if known is None:
        return AnswerState.RIGHT, f"{said.counted} tokens came, and not one alone over and over"
    verb = "expected" if known.exactly else "expected in it"
    return AnswerState.OTHER, f"{verb} {_shown(known.expected)}, got {_shown(said.text)}"


def _degenerate(said: Said) -> bool:
    """One token and nothing else; the first may differ, since the prefill made it.

    Where the server gives no ids the characters of the text stand for them, which finds an endless "!" as well.
    """
    units = said.tokens or tuple(map(ord, said.text.strip()))
    return len(units) > DEGENERATE_RUN and len(set(units[1:])) == 1


def _shown(text: str) -> str:
    """A piece of an answer for one line: quoted, and not too long."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


@dataclass(frozen=True, slots=True)
class Quality:
    """What is known of how well one launch serves. Counters are vLLM's own, which begin at 0 with the launch."""

    answer: str = ""
    """What was wrong with the last answer, in words; empty when it was right."""
    corrupted: float = 0.0
    """Requests whose logits held NaN."""
    gaugeless: bool = False
    """vLLM tells of its requests, and not how full the KV cache is: nothing moves during a long prefill."""
    drafted_before: float | None = None
    """Where the stretch began over which acceptance is being counted; None before the first sample."""
    accepted_before: float = 0.0
    acceptance: float | None = None
    """0..1, over the last complete stretch; None before there was one."""
    judged: float = 0.0
    """Drafted tokens of that stretch."""


def answered(quality: Quality, answer: Answer) -> Quality:
    """Take in an answer: a right one clears the doubt, and one that never came says nothing."""
    match answer.state:
        case AnswerState.RIGHT:
            return replace(quality, answer="")
        case AnswerState.OTHER:
            return replace(quality, answer=f"the known answer is wrong: {answer.detail}")
        case AnswerState.REFUSED:
            return replace(quality, answer=f"the probe is refused, so that a hang would not be seen: {answer.detail}")
        case _:
            return quality


def scraped(quality: Quality, sample: Sample) -> Quality:
    """Take in a scrape of the same launch."""
    quality = replace(
        quality,
        corrupted=max(quality.corrupted, sample.corrupted_requests or 0.0),
        gaugeless=sample.running is not None and sample.kv_usage is None,
    )
    drafted, accepted = sample.draft_tokens, sample.accepted_tokens
    if drafted is None or accepted is None:
        return quality
    begun = quality.drafted_before
    if begun is None or drafted < begun or accepted < quality.accepted_before:
        return replace(quality, drafted_before=drafted, accepted_before=accepted)
    if drafted - begun < JUDGED_TOKENS:
        return quality
    share = min(1.0, (accepted - quality.accepted_before) / (drafted - begun))
    return replace(quality, drafted_before=drafted, accepted_before=accepted, acceptance=share, judged=drafted - begun)


def remarks(quality: Quality, checks: Checks) -> tuple[Remark, ...]:
    """What is wrong with it, each in a sentence."""
    found: list[Remark] = []
    if quality.answer:
        found.append(Remark("answer", f"serving, but {quality.answer}"))
    if quality.corrupted > 0:
        found.append(
            Remark(
                "corrupted", f"serving, but {quality.corrupted:,.0f} requests of this launch had NaN in their logits"
            )
        )
    if quality.gaugeless:
        found.append(
            Remark(
                "gauge",
                "serving, but vLLM does not say how full the KV cache is, so that a prefill longer than "
                "limits.stall_after and limits.probe together passes for a hang",
            )
        )
    floor = checks.acceptance_floor
    if floor is not None and quality.acceptance is not None and quality.acceptance < floor:
        over = f"acceptance {quality.acceptance:.2f} over {quality.judged:,.0f} drafted tokens, floor {floor:.2f}"
        found.append(Remark("acceptance", f"serving, but not speculating ({over})"))
    return tuple(found)


def changes(before: World | None, now: World) -> tuple[str, ...]:
    """What has become wrong between two looks, or right again, each in a sentence. Figures that move are no change.

    What went away with its launch did not become right.
    """
    earlier = {} if before is None or not _same_launch(before, now) else {one.kind: one for one in before.remarks}
    later = {one.kind: one for one in now.remarks}
    fresh = [one.words for kind, one in later.items() if kind not in earlier]
    return (*fresh, *(f"no longer: {one.words}" for kind, one in earlier.items() if kind not in later))


def _same_launch(before: World, now: World) -> bool:
    old, new = before.backend, now.backend
    return old is not None and new is not None and old.launch_id == new.launch_id
