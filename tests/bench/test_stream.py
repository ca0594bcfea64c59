"""What is made of a stream's bytes, however they were cut, and of an answer's events, whatever they say."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.bench import stream
from arcops.bench.stream import Answer, BrokenStreamError, Events, error_words, printable
from tests.bench.raw import event_bytes, token, usage


def answered(*events: bytes | Mapping[str, object], most: int = 100) -> Answer:
    answer = Answer(most)
    for at, event in enumerate(events, 1):
        answer.take(float(at), event if isinstance(event, bytes) else json.dumps(event).encode())
    return answer


@given(
    st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_events_are_the_same_wherever_the_bytes_were_cut(payloads: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(event_bytes(one) for one in payloads)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    split, found = Events(), list[bytes]()
    for start, end in pairwise(places):
        found += split.feed(whole[start:end])
    assert found == [one.strip() for one in payloads]


def test_comments_and_other_fields_are_no_events() -> None:
    assert Events().feed(b": ping\n\nevent: x\nid: 7\ndata: 1\r\n\r\ndata:2\n\n") == [b"1", b"2"]


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LINE", 1000)
    split = Events()
    split.feed(b"data: " + b"x" * 900)
    with pytest.raises(BrokenStreamError, match="longer than"):
        split.feed(b"x" * 200)


def test_a_long_line_in_many_pieces_costs_its_length() -> None:
    split = Events()
    for _ in range(20_000):  # As many joins of all that came would be 13 GB.
        split.feed(b"x" * 64)
    assert split.feed(b"\ndata: 1\n") == [b"1"]


def test_an_answer_is_its_ids_with_their_times() -> None:
    answer = answered(token(5, text="a"), token(6, 7, text="b", finish="length"), usage(4, 3, cached=2), b"[DONE]")
    assert (answer.tokens, answer.text, answer.arrivals) == ((5, 6, 7), "ab", [1.0, 2.0])
    assert (answer.chunk_tokens, answer.ended, answer.finish) == ([1, 2], 4.0, "length")
    assert (answer.prompt_tokens, answer.output_tokens, answer.cached_tokens) == (4, 3, 2)
    assert answer.problem() == ""


def test_a_chunk_without_tokens_is_no_arrival() -> None:
    answer = answered(token(5), token(text="", finish="stop"), usage(4, 1), b"[DONE]")
    assert (answer.arrivals, answer.tokens, answer.problem()) == ([1.0], (5,), "")


def test_a_server_without_ids_has_arrivals_and_no_tokens() -> None:
    chunks = (
        {"choices": [{"text": text, "finish_reason": end}]} for text, end in (("a", None), ("b", None), ("", "stop"))
    )
    answer = answered(*chunks, usage(4, 9), b"[DONE]")
    assert (answer.tokens, answer.text, answer.arrivals, answer.output_tokens) == (None, "ab", [1.0, 2.0], 9)
    assert answer.problem() == ""


def test_ids_that_are_given_only_sometimes_are_not_known() -> None:
    answer = answered(token(5), {"choices": [{"text": "b"}]}, token(6, finish="stop"), usage(4, 3), b"[DONE]")
    assert answer.tokens is None


COMPLETE = (token(5), token(6, finish="length"), usage(4, 2), b"[DONE]")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (COMPLETE[:1], "ended before the answer was complete"),
        (COMPLETE[:3], "ended before the answer was complete"),
        ((COMPLETE[0], COMPLETE[2], COMPLETE[3]), "without a reason"),
        ((token(5, finish="abort"), usage(4, 1), b"[DONE]"), "broke the answer off"),
        ((token(5), token(6, finish="length"), usage(4, 3), b"[DONE]"), "counts 3 tokens and sent the ids of 2"),
        ((token(5, finish="length"), usage(4, 2), b"[DONE]"), "counts 2 tokens and sent the ids of 1"),
        ((token(5, finish="length"), usage(4, 1, cached=5), b"[DONE]"), "found 5 tokens of a prompt of 4"),
        ((token(text="", finish="stop"), usage(4, 1), b"[DONE]"), "no token"),
        (
            ({"choices": [{"text": "a", "finish_reason": "length"}]}, usage(4, 101), b"[DONE]"),
            "counts 101 tokens, and 100",
        ),
        ((b"[DONE]",), "without a reason"),
        ((), "ended before"),
    ],
)
def test_what_is_no_complete_answer_says_why(events: Sequence[bytes | Mapping[str, object]], words: str) -> None:
    assert words in answered(*events).problem()


def test_an_answer_that_is_empty_by_right_is_one() -> None:
    assert answered(token(text="", finish="stop"), usage(4, 0), b"[DONE]").problem() == ""


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"choices": [{"token_ids": [-1]}]}', "cannot be read"),
        (b'{"choices": [{"token_ids": [1.5]}]}', "cannot be read"),
        (b'{"choices": 7}', "cannot be read"),
        (b'{"usage": {"prompt_tokens": -3}}', "cannot be read"),
        (b'{"usage": {"completion_tokens": "many"}}', "cannot be read"),
        (b'{"usage": {"prompt_tokens": 1%s}}' % (b"0" * 400), "cannot be read"),
        (b'{"choices": [{"token_ids": [1%s]}]}' % (b"0" * 400), "cannot be read"),
        (b'{"usage": {"prompt_tokens_details": {"cached_tokens": -1}}}', "cannot be read"),
        (b'{"error": {"message": "out of vocabulary", "code": 400}}', "broke off: out of vocabulary"),
        (b'{"error": "no"}', "broke off"),
        (b'{"choices": [{"index": 1, "token_ids": [1]}]}', "more than the one answer"),
        (b'{"choices": [{}, {}]}', "more than the one answer"),
        (json.dumps(token(*range(101))).encode(), "more tokens than the 100"),
    ],
)
def test_an_event_that_cannot_be_ends_the_answer(event: bytes, words: str) -> None:
    with pytest.raises(BrokenStreamError, match=words):
        answered(event)


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)
)
def test_no_event_does_worse_than_break_the_stream(event: bytes) -> None:
    answer = Answer(10)
    with suppress(BrokenStreamError):
        answer.take(1.0, event)
    assert answer.problem().isprintable()


def test_a_servers_words_are_one_short_line_without_controls() -> None:
    assert printable("a\x1b[31m\nb\t c") == "a [31m b c"
    assert len(printable("x" * 10_000)) == 300
    assert error_words(b'{"error": {"message": "no\\nway"}}') == "no way"
    assert error_words(b"<html>\x00</html>") == "<html> </html>"
