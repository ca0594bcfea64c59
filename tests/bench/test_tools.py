"""A tool call is right or what is wrong with it is said, in one sentence."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.bench.chat import ChatAnswer, ToolCall
from arcops.bench.tools import CASES, MARKUP, agree, judge

WEATHER, ORDER, HOUSE, READINGS, NOTE = CASES
GOOD: Mapping[str, object] = {"city": "東京", "days": 5, "unit": "celsius"}
LINE: Mapping[str, object] = {"article": "bolt", "count": 250, "price": 0.35}
RIGHT: Mapping[str, tuple[str, Mapping[str, object]]] = {
    WEATHER.name: ("get_weather", GOOD),
    ORDER.name: (
        "place_order",
        {"address": {"street": "Königsallee 7", "city": "Düsseldorf"}, "lines": [LINE, LINE], "express": True},
    ),
    HOUSE.name: ("set_heating", {"room": "office", "celsius": 21.5}),
    READINGS.name: ("store_readings", {"sensor": "roof-2", "kind": "temperature", "values": [-12.5, 0, 3.75]}),
    NOTE.name: ("write_note", {"text": 'C:\\tmp\\{x} – "größer" als 3 €', "tags": ["wichtig", "家"], "priority": 2}),
}


def calling(name: str = "get_weather", arguments: object = GOOD, **changes: object) -> ChatAnswer:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    answer = ChatAnswer("", "", (ToolCall(name, text),), "tool_calls", 10, 20, None, 1.0)
    return replace(answer, **changes)  # pyright: ignore[reportArgumentType]  # fields of it, by the tests below


def order(**changes: object) -> ChatAnswer:
    return calling("place_order", {**RIGHT[ORDER.name][1], **changes})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_call_is_right_however_its_json_is_written(case: object) -> None:
    assert case in CASES
    one = next(known for known in CASES if known is case)
    name, arguments = RIGHT[one.name]
    for text in (json.dumps(arguments), json.dumps(arguments, ensure_ascii=False, indent=2)):
        assert judge(one, calling(name, text)) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schemas_refer_to_nothing_and_allow_nothing_else(case: object) -> None:
    one = next(known for known in CASES if known is case)
    text = json.dumps(one.tools)
    assert "$ref" not in text
    assert "$defs" not in text
    for tool in one.tools:
        function = cast("dict[str, dict[str, object]]", tool["function"])
        assert function["parameters"]["additionalProperties"] is False
        assert len(cast("list[str]", function["parameters"]["required"])) >= 2
    assert one.wanted in {cast("dict[str, str]", tool["function"])["name"] for tool in one.tools}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (calling(arguments='{"city": "東京", "days": 5, '), "the arguments are no JSON"),
        (calling(arguments=""), "the arguments are no JSON"),
        (calling(arguments='{"city": "東京", "days": NaN}'), "the arguments are no JSON (NaN is no number)"),
        (calling(arguments='{"days": 5, "days": 5}'), "the arguments are no JSON (a key stands in it twice)"),
        (calling(arguments="[" * 100_000), "the arguments are no JSON"),
        (calling(arguments='{"days": ' + "9" * 5000 + "}"), "the arguments are no JSON"),
        (calling(arguments=json.dumps(GOOD) + json.dumps(GOOD)), "the arguments are no JSON"),
        (calling(arguments="[]"), "the arguments do not fit the schema at the whole"),
        (calling(arguments={**GOOD, "days": "5"}), "the arguments do not fit the schema at days"),
        (calling(arguments={**GOOD, "days": 15}), "the arguments do not fit the schema at days"),
        (calling(arguments={**GOOD, "days": True}), "the arguments do not fit the schema at days"),
        (calling(arguments={**GOOD, "city": "Æ±äº¬"}), "the arguments do not fit the schema at city"),
        (calling(arguments={**GOOD, "wind": 1}), "the arguments do not fit the schema at wind"),
        (calling(arguments={"city": "東京", "unit": "celsius"}), "the arguments do not fit the schema at days"),
        (calling(arguments={**GOOD, "unit": "celsius</parameter>"}), "</parameter> was left in the arguments"),
        (calling("get_wether"), "“get_wether” was called, and not get_weather"),
        (calling("get_weatherget_weather"), "“get_weatherget_weather” was called"),
        (calling(tool_calls=()), "no function was called: the text is empty"),
        (calling(tool_calls=(), content="It is warm.", finish="stop"), "no function was called: It is warm."),
        (
            calling(tool_calls=(), content='<tool_call>\n{"name"', finish="stop"),
            'a call was left in the text (<tool_call): <tool_call> {"name"',
        ),
        (calling(content="</think>"), "</think> was left in the text beside the call"),
        (calling(tool_calls=(ToolCall("get_weather", "{}"),) * 2), "2 functions were called"),
        (calling(finish="stop"), "the answer has a call, and says that it ended for stop, not for tool_calls"),
        (calling(finish="length"), "the answer was cut at its longest: get_weather("),
        (calling(problem="the stream ended"), "the stream ended"),
    ],
)
def test_what_is_wrong_is_said(answer: ChatAnswer, said: str) -> None:
    assert judge(WEATHER, answer).startswith(said)
    assert "\n" not in judge(WEATHER, answer)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (order(address={"street": "a"}), "address.city"),
        (order(address=json.dumps({"street": "a", "city": "b"})), "address"),
        (order(lines=[LINE, {**LINE, "count": 0.5}]), "lines.1.count"),
        (order(lines=[]), "lines"),
        (order(express="true"), "express"),
    ],
)
def test_a_misfit_is_placed_however_deep_it_lies(answer: ChatAnswer, place: str) -> None:
    assert judge(ORDER, answer).startswith(f"the arguments do not fit the schema at {place}: ")


def test_a_function_that_was_not_meant_is_wrong_though_its_arguments_fit() -> None:
    answer = calling("set_light", {"room": "office", "on": True, "brightness": 20})
    assert judge(HOUSE, answer) == "“set_light” was called, and not set_heating"


def test_only_one_that_had_no_choice_may_end_with_stop() -> None:
    assert judge(WEATHER, calling(finish="stop"), named=True) == ""
    assert judge(WEATHER, calling(finish="content_filter"), named=True) != ""


def test_text_beside_a_call_is_allowed() -> None:
    assert judge(WEATHER, calling(content="I look it up: 3 < 4.", reasoning="<tool_call> might do")) == ""


@pytest.mark.parametrize("mark", MARKUP)
def test_no_markup_is_left_in_a_text(mark: str) -> None:
    assert mark in judge(WEATHER, calling(content=f"so: {mark} …"))


def test_answers_agree_whose_arguments_are_written_with_other_spaces() -> None:
    assert agree(calling(arguments=json.dumps(GOOD, indent=1)), calling(content="\n")) == ""


@pytest.mark.parametrize(
    ("streamed", "said"),
    [
        (calling("other"), "the stream calls “other”, the whole answer “get_weather”"),
        (calling(tool_calls=()), "the stream calls nothing, the whole answer “get_weather”"),
        (calling(arguments={**GOOD, "days": 6}), "the arguments differ: streamed get_weather("),
        (calling(arguments="{"), "the arguments differ: streamed get_weather({)"),
        (calling(arguments={**GOOD, "days": 5.0}), "the arguments differ"),
        (calling(arguments=dict(reversed(GOOD.items()))), ""),
        (calling(content="so"), "the texts differ: streamed “so”, whole “”"),
        (calling(finish="stop"), "the stream ended for stop, the whole answer for tool_calls"),
        (calling(problem="it was cut"), "the streamed answer is none: it was cut"),
    ],
)
def test_what_a_stream_says_differently_is_said(streamed: ChatAnswer, said: str) -> None:
    found = agree(streamed, calling())
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (((1, 2), (1, 2)), "; the tokens are the same"),
        (((1, 2, 3), (1, 4, 3)), "; the tokens differ from number 1 on"),
        (((1, 2), (1, 2, 3)), "; the tokens differ from number 2 on"),
        ((None, (1,)), "tool_calls"),
    ],
)
def test_whose_fault_a_difference_is_follows_from_the_tokens(
    ids: tuple[tuple[int, ...] | None, tuple[int, ...]], words: str
) -> None:
    assert agree(calling(finish="stop", ids=ids[0]), calling(ids=ids[1])).endswith(words)


def test_answers_that_were_cut_at_their_longest_are_compared_by_their_tokens() -> None:
    text = calling(tool_calls=(), content='<tool_call>{"na', finish="length", ids=(1, 2))
    assert agree(calling(arguments="{", finish="length", ids=(1, 2)), text) == ""
    assert agree(calling(arguments="{", finish="length", ids=(1, 3)), text).endswith(
        "the tokens differ from number 1 on"
    )
    assert agree(calling(arguments="{", finish="tool_calls", ids=(1, 2)), text) != ""


@given(name=st.text(max_size=20), arguments=st.text(max_size=60), content=st.text(max_size=60))
def test_whatever_a_server_says_has_a_judgement_of_one_printable_line(name: str, arguments: str, content: str) -> None:
    answer = calling(tool_calls=(ToolCall(name, arguments),), content=content)
    said = judge(WEATHER, answer)
    assert said
    assert said.isprintable()
    assert agree(answer, answer) == ""
