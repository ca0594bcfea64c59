"""How near two tokens were, as the server's log-probabilities tell it."""

import json

import pytest

from arcops.bench.margin import margin_of, question_of
from arcops.core.evidence.identity import Margin


def answer(top: object, sampled: str = "token_id:495", logprob: float | None = -0.5) -> bytes:
    logprobs = {"tokens": [sampled], "token_logprobs": [logprob], "top_logprobs": [top], "text_offset": [0]}
    return json.dumps({"choices": [{"index": 0, "text": " a", "logprobs": logprobs}]}).encode()


def test_both_log_probabilities_are_read() -> None:
    assert margin_of(answer({"token_id:495": -0.5, "token_id:7": -1.25}), 7, 495) == Margin(-1.25, -0.5)


def test_the_token_that_was_chosen_counts_where_the_likeliest_are_not_named() -> None:
    margin = margin_of(answer(None), 7, 495)
    assert (margin.oracle, margin.other, margin.nats) == (None, -0.5, None)
    assert "7" in margin.unknown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"logprobs": null}]}',
        b'{"choices": [{"logprobs": {"tokens": [], "token_logprobs": [], "top_logprobs": []}}]}',
        answer({"token_id:7": "low"}),
        answer({"seven": -1.0}, "x"),
        answer(None, logprob=None),
    ],
)
def test_without_them_it_says_why(body: bytes) -> None:
    margin = margin_of(body, 7, 8)
    assert (margin.oracle, margin.other) == (None, None)
    assert margin.unknown


def test_a_number_that_is_none_is_not_a_log_probability() -> None:
    body = answer({"token_id:7": -1.0}).replace(b"-1.0", b"1e999")
    assert margin_of(body, 7, 495).oracle is None


def test_one_greedy_token_is_asked_for() -> None:
    body = question_of("tiny", (1, 2), 7, 8)
    assert (body["max_tokens"], body["temperature"], body["logprob_token_ids"]) == (1, 0.0, [7, 8])
