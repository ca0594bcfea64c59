"""What is kept of a soak, what its clients ask, and what they call wrong."""

import tracemalloc

import msgspec
import pytest

from arcops.bench.soak.fold import KEPT, KINDS_OF_PROBLEMS, Done, Fold
from arcops.bench.soak.talk import wrong, wrong_call
from arcops.bench.soak.work import MIX, Script, mix_of
from arcops.core.errors import ArcopsError

FITS = '{"city": "Rome", "days": 3}'


def fill(fold: Fold, count: int, seconds: float) -> None:
    for number in range(count):
        problem = f"problem {number}: with details" if number % 10 == 0 else ""
        fold.take(Done("short", number % 4, number / count * seconds, 1.0, 0.01 + number % 97 / 100, 0.01, problem))


def test_what_is_kept_of_a_day_is_no_more_than_of_an_hour() -> None:
    """Six hundred thousand requests, where kept one by one, would take hundreds of megabytes."""
    fold = Fold(86_400.0)
    fill(fold, 20_000, 86_400.0)
    size = len(msgspec.json.encode(fold.spans()))
    tracemalloc.start()
    try:
        fill(fold, 100_000, 86_400.0)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 1_000_000
    assert len(msgspec.json.encode(fold.spans())) < 2 * size
    assert fold.asked == 120_000
    assert fold.failed == sum(fold.problems().values()) == 12_000
    assert len(fold.problems()) <= KINDS_OF_PROBLEMS + 1
    assert len(fold.troubles()) == len(fold.slowest()) == KEPT


def test_the_slowest_are_kept_and_the_first_that_went_wrong() -> None:
    fold = Fold(100.0)
    fill(fold, 2000, 100.0)
    assert {round(one.seconds, 2) for one in fold.slowest()} <= {0.97, 0.96, 0.95}
    assert fold.troubles()[0].problem == "problem 0: with details"


def test_the_same_seed_asks_the_same_and_clients_differ() -> None:
    def asked(seed: int, client: int) -> list[object]:
        script = Script(seed, client, mix_of(MIX), "tiny", 8192)
        return [script.next() for _ in range(20)]

    assert asked(1, 0) == asked(1, 0)
    assert asked(1, 0) != asked(1, 1)
    assert asked(1, 0) != asked(2, 0)


@pytest.mark.parametrize(
    "text", ["", "short", "short=x", "short=-1", "other=1", "short=1,short=2", "short=0", "short=9999"]
)
def test_a_mix_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArcopsError):
        mix_of(text)


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("", FITS, ""),
        ("", '{"city": "Rome", "da', "a tool call is no JSON"),
        ("", '{"city": "Rome"}', "a tool call does not fit its schema"),
        ("", '{"city": "Rome", "days": 3, "more": 1}', "a tool call does not fit its schema"),
        ("", '{"city": "Atlantis", "days": 3}', "a tool call does not fit its schema"),
        ("<tool_call>\n{}", "", "a tool call was left in the text"),
        ("I can not", "", "no tool was called"),
        ("", "[" * 100_000, "a tool call does not fit its schema"),
    ],
)
def test_a_tool_call_has_to_parse_and_to_fit(content: str, arguments: str, words: str) -> None:
    assert wrong_call(content, arguments).partition(":")[0] == words


def test_an_answer_has_to_have_an_end_and_a_word() -> None:
    assert wrong("short", "stop", 3, "hello", "") == ""
    assert wrong("short", None, 3, "hello", "")
    assert wrong("short", "abort", 3, "hello", "")
    assert wrong("short", "stop", 0, "", "")
