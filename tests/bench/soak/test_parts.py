"""What is kept of a soak, what its clients ask, and what they call wrong."""

import tracemalloc
from dataclasses import replace

import msgspec
import pytest

from arcops.bench.chat import ChatAnswer, ToolCall
from arcops.bench.soak.fold import KEPT, KINDS_OF_PROBLEMS, Done, Fold
from arcops.bench.soak.talk import wrong
from arcops.bench.soak.work import MIX, Script, Task, mix_of
from arcops.bench.tools import CASES
from arcops.core.errors import ArcopsError

FITS = '{"city": "東京", "days": 5, "unit": "celsius"}'
ANSWER = ChatAnswer("hello", "", (), "stop", 5, 3, (1, 2, 3), 1.0, first=0.1, last=0.2, chunks=3)


def fill(fold: Fold, count: int, seconds: float) -> None:
    for number in range(count):
        problem = f"problem {number}: with details" if number % 10 == 0 else ""
        fold.take(Done("short", number % 4, number / count * seconds, 1.0, 0.01 + number % 97 / 100, 0.01, problem))


def test_what_is_kept_of_a_day_is_no_more_than_of_an_hour() -> None:
    """Six hundred thousand requests, where kept one by one, would take hundreds of megabytes."""
    fold = Fold(86_400.0)
    fill(fold, 5_000, 86_400.0)
    size = len(msgspec.json.encode(fold.spans()))
    tracemalloc.start()
    try:
        fill(fold, 25_000, 86_400.0)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 300_000
    assert len(msgspec.json.encode(fold.spans())) < 2 * size
    assert fold.asked == 30_000
    assert fold.failed == sum(fold.problems().values()) == 3_000
    assert len(fold.problems()) <= KINDS_OF_PROBLEMS + 1
    assert len(fold.troubles()) == len(fold.slowest()) == KEPT


def test_the_slowest_are_kept_and_the_first_that_went_wrong() -> None:
    fold = Fold(100.0)
    fill(fold, 2000, 100.0)
    assert {round(one.seconds, 2) for one in fold.slowest()} <= {0.97, 0.96, 0.95}
    assert fold.troubles()[0].problem == "problem 0: with details"


def test_the_same_seed_asks_the_same_and_clients_differ() -> None:
    def asked(seed: int, client: int) -> list[object]:
        script = Script(seed, client, mix_of(MIX), 8192)
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
    ("call", "words"),
    [
        (FITS, ""),
        (FITS.replace("celsius", "kelvin"), "the arguments do not fit the schema at"),
        (FITS[:-8], "the arguments are no JSON"),
        (None, "no function was called"),
    ],
)
def test_a_tool_call_is_judged_as_the_gate_judges_it(call: str | None, words: str) -> None:
    calls = () if call is None else (ToolCall("get_weather", call),)
    task = Task("tools", CASES[0].messages, 100, 0.0, case=CASES[0])
    found = wrong(task, replace(ANSWER, content="", tool_calls=calls, finish="tool_calls"))
    assert found.startswith(words)
    assert bool(found) == bool(words)


def test_an_answer_has_to_be_complete_and_to_have_a_word_unless_its_client_left() -> None:
    task = Task("short", (), 100, 0.0)
    assert wrong(task, ANSWER) == ""
    assert wrong(task, replace(ANSWER, problem="the answer ended without a reason"))
    assert wrong(task, replace(ANSWER, chunks=0, content=""))
    assert wrong(task, replace(ANSWER, chunks=0, content="", left=True)) == ""
