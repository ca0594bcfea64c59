"""Answers, and what is wrong with a backend that goes on serving."""

from dataclasses import replace

import pytest

from arcops.core.launch import Checks, KnownAnswer
from arcops.core.metrics import Sample
from arcops.core.quality import (
    JUDGED_TOKENS,
    LONG_ANSWER,
    PLAIN_PROMPT,
    Quality,
    Question,
    Said,
    answered,
    changes,
    judge,
    question_of,
    remarks,
    scraped,
)
from arcops.core.world import Answer, AnswerState, Remark, World
from tests.core.supervised import serving

EXACT = Checks(known_answer=KnownAnswer("1, 2,", "3, 4", exactly=True, max_tokens=4))
SOMEWHERE = Checks(known_answer=KnownAnswer("The capital of France is", "Paris", exactly=False))
JUDGED = Checks(degenerate=True)


def said(text: str, *tokens: int) -> Said:
    return Said(text, tokens, len(tokens) or 16)


# -- questions --------------------------------------------------------------------------------------------------------
def test_one_token_is_asked_for_unless_the_answer_is_judged() -> None:
    assert question_of(Checks()) == Question(PLAIN_PROMPT, 1)
    assert question_of(JUDGED) == Question(PLAIN_PROMPT, LONG_ANSWER)
    assert question_of(EXACT) == Question("1, 2,", 4)


# -- answers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("checks", "answer", "fate"),
    [
        (Checks(), Said("!", (0,), 1), AnswerState.RIGHT),
        (Checks(), said("!!!!!!!!!!!!!!!!", *[0] * 16), AnswerState.RIGHT),
        (Checks(), Said("", (), 0), AnswerState.WRONG),
        (EXACT, Said("", (), 0), AnswerState.WRONG),
        (EXACT, said(" 3, 4\n", 7, 8, 9, 10), AnswerState.RIGHT),
        (EXACT, said("3, 4, 5", 7, 8, 9, 10), AnswerState.OTHER),
        (EXACT, said("!!!!", 0, 0, 0, 0), AnswerState.OTHER),
        (SOMEWHERE, said(" Paris, of course", 1, 2, 3), AnswerState.RIGHT),
        (SOMEWHERE, said(" Paris\n\n\n\n\n\n\n\n\n\n", 1, *[2] * 10), AnswerState.RIGHT),
        (SOMEWHERE, said(" Lyon, I think", 1, 2, 3, 4), AnswerState.OTHER),
        (SOMEWHERE, said("!!!!!!!!!!!!!!!!", *[0] * 16), AnswerState.DEGENERATE),
        (SOMEWHERE, said("The!!!!!!!!!!!!!!!", 5, *[0] * 15), AnswerState.DEGENERATE),
        (SOMEWHERE, said("I do not know.!!!!!!!!", 1, 2, 3, 4, 5, *[0] * 8), AnswerState.OTHER),
        (SOMEWHERE, said("!!!!!!!!!!!!!!!!"), AnswerState.DEGENERATE),
        (JUDGED, said("!!!!!!!!!!!!!!!!", *[0] * 16), AnswerState.DEGENERATE),
        (JUDGED, said("a b a b a b a b a b", *[1, 2] * 5), AnswerState.RIGHT),
        (JUDGED, said("no", *[3] * 8), AnswerState.RIGHT),
    ],
    ids=[
        "one token is not judged", "nor several that nobody wanted", "no token", "no token of a known answer",
        "exactly right, white space aside", "right, and more", "too short for degenerate", "right somewhere",
        "right, and a base model goes on", "coherent and wrong", "endless !", "endless ! after the first token",
        "words, then one token", "endless ! from a server that gives no ids", "endless !, no answer known",
        "two tokens in turn", "seven repetitions are too few",
    ],
)  # fmt: skip
def test_answers_are_judged(checks: Checks, answer: Said, fate: AnswerState) -> None:
    assert judge(checks, answer)[0] is fate


def test_what_was_expected_and_what_came_is_said_shortened() -> None:
    assert judge(EXACT, said("five", 1))[1] == "expected '3, 4', got 'five'"
    words = judge(SOMEWHERE, said("x" * 5000, 1, 2))[1]
    assert words.startswith("expected in it 'Paris', got 'xxx")
    assert len(words) < 120


# -- remarks ----------------------------------------------------------------------------------------------------------
def words_of(quality: Quality, checks: Checks = EXACT) -> list[str]:
    return [remark.words for remark in remarks(quality, checks)]


def test_a_wrong_known_answer_is_told_until_a_right_one_comes() -> None:
    wrong = answered(Quality(), Answer("L1", AnswerState.OTHER, "expected '3', got '4'"))
    assert words_of(wrong) == ["serving, but the known answer is wrong: expected '3', got '4'"]
    for nothing in (AnswerState.WAITING, AnswerState.LATE, AnswerState.WRONG, AnswerState.DEGENERATE):
        assert answered(wrong, Answer("L1", nothing)) == wrong
    assert words_of(answered(wrong, Answer("L1", AnswerState.RIGHT))) == []


def test_a_probe_that_is_refused_is_told() -> None:
    refused = answered(Quality(), Answer("L1", AnswerState.REFUSED, "401 from /v1/completions"))
    assert "a hang would not be seen: 401" in words_of(refused)[0]


def test_corrupted_requests_are_told_for_as_long_as_the_launch_lives() -> None:
    quality = scraped(scraped(Quality(), Sample(corrupted_requests=0.0)), Sample(corrupted_requests=3.0))
    for later in (quality, scraped(quality, Sample())):
        assert words_of(later) == ["serving, but 3 requests of this launch had NaN in their logits"]
    assert words_of(scraped(Quality(), Sample())) == []


def test_a_vllm_without_the_gauge_that_tells_a_prefill_from_a_hang_is_told_of() -> None:
    told = words_of(scraped(Quality(), Sample(running=1.0)))
    assert len(told) == 1
    assert "passes for a hang" in told[0]
    assert words_of(scraped(Quality(), Sample(running=1.0, kv_usage=0.0))) == []
    assert words_of(scraped(Quality(), Sample())) == [], "not a number of vLLM's: nothing is known of it"


def drafted(*figures: tuple[float, float]) -> Quality:
    quality = Quality()
    for tokens, accepted in figures:
        quality = scraped(quality, Sample(draft_tokens=tokens, accepted_tokens=accepted))
    return quality


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        (((0, 0), (1234, 12)), "acceptance 0.01 over 1,234 drafted tokens, floor 0.05"),
        (((0, 0), (1234, 800)), ""),
        (((0, 0), (JUDGED_TOKENS - 1, 0)), ""),
        (((100_000, 0),), ""),
        (((9000, 7000), (100, 0), (400, 0)), ""),
        (((0, 0), (600, 0), (700, 90)), "acceptance 0.00 over 600 drafted tokens, floor 0.05"),
        (((0, 0), (600, 0), (1200, 300)), ""),
    ],
    ids=[
        "too low", "good", "too few to tell", "before this supervisor", "counters begin anew",
        "a verdict stays until the next", "and goes with it",
    ],
)  # fmt: skip
def test_acceptance_is_judged_over_some_hundred_drafted_tokens(
    figures: tuple[tuple[float, float], ...], says: str
) -> None:
    told = [f"serving, but not speculating ({says})"] if says else []
    assert words_of(drafted(*figures), Checks(acceptance_floor=0.05)) == told
    assert words_of(drafted(*figures), Checks()) == [], "without a floor there is nothing to fall below"


# -- changes ----------------------------------------------------------------------------------------------------------
def look(*found: Remark) -> World:
    _, supervisor = serving()
    return replace(supervisor.world(), remarks=found)


def test_a_change_is_told_once_and_figures_that_move_are_none() -> None:
    none, low, lower = look(), look(Remark("acceptance", "0.04")), look(Remark("acceptance", "0.03"))
    assert changes(None, low) == ("0.04",)
    assert changes(none, low) == ("0.04",)
    assert changes(low, lower) == ()
    assert changes(lower, none) == ("no longer: 0.03",)


def test_what_goes_with_its_launch_has_not_become_right() -> None:
    low = look(Remark("acceptance", "0.04"))
    assert changes(low, replace(look(), backend=None)) == ()
    assert changes(replace(low, backend=None), low) == ("0.04",)
