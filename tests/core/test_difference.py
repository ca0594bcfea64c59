"""What differs between two launches: by flag and by variable, whatever their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.difference import Change, hidden_in_both, of_arguments, of_variables
from arcops.core.launch import HIDDEN

VLLM = ("/opt/vllm/bin/vllm", "serve", "/models/qwen")


def test_the_same_command_line_has_no_difference_whatever_the_order_of_its_flags():
    one = (*VLLM, "--port", "8000", "--max-model-len", "262144")
    other = (*VLLM, "--max-model-len", "262144", "--port", "8000")
    assert of_arguments(one, other) == ()


def test_a_flag_is_paired_by_its_name_not_by_its_place():
    one = (*VLLM, "--port", "8000", "--max-model-len", "262144")
    other = (*VLLM, "--max-model-len", "8064", "--dtype", "float16", "--port", "8000")
    assert of_arguments(one, other) == (
        Change("--max-model-len", "262144", "8064"),
        Change("--dtype", None, "float16"),
    )


def test_what_only_the_old_one_has_comes_last_and_becomes_nothing():
    one = (*VLLM, "--quantization", "inc", "--port", "8000")
    other = (*VLLM, "--port", "8001")
    assert of_arguments(one, other) == (Change("--port", "8000", "8001"), Change("--quantization", "inc", None))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("--port", "8000"), ("--port=8000",)),
        (("--max_model_len", "1"), ("--max-model-len", "1")),
        (("--enforce-eager",), ("--enforce-eager",)),
    ],
)
def test_two_spellings_of_the_same_are_the_same(one: tuple[str, ...], other: tuple[str, ...]):
    assert of_arguments((*VLLM, *one), (*VLLM, *other)) == ()


def test_a_switch_goes_from_on_to_off():
    changes = of_arguments((*VLLM, "--enable-prefix-caching"), (*VLLM, "--no-enable-prefix-caching"))
    assert changes == (Change("--enable-prefix-caching", "on", "off"),)


def test_a_negative_number_is_a_value_and_no_flag():
    assert of_arguments((*VLLM, "--seed", "-1"), (*VLLM, "--seed", "-2")) == (Change("--seed", "-1", "-2"),)


def test_the_values_of_a_repeated_flag_count_together():
    changes = of_arguments((*VLLM, "--lora", "a=1"), (*VLLM, "--lora", "a=1", "--lora", "b=2"))
    assert changes == (Change("--lora", "a=1", "a=1 b=2"),)


def test_program_and_model_have_names_of_their_own():
    changes = of_arguments(VLLM, ("/other/vllm", "serve", "/models/llama"))
    assert changes == (
        Change("program", "/opt/vllm/bin/vllm", "/other/vllm"),
        Change("model", "/models/qwen", "/models/llama"),
    )


def test_json_is_compared_by_its_keys():
    one = (*VLLM, "--speculative-config", '{"method":"dflash","num_speculative_tokens":3,"a":{"b":[1]}}')
    other = (*VLLM, "--speculative-config", '{"num_speculative_tokens":5,"method":"dflash","a":{"b":[1,2]}}')
    assert of_arguments(one, other) == (
        Change("--speculative-config.a.b", "[1]", "[1,2]"),
        Change("--speculative-config.num_speculative_tokens", "3", "5"),
    )


def test_json_that_comes_or_goes_whole_is_one_change():
    draft = '{"method":"mtp"}'
    assert of_arguments((*VLLM, "--speculative-config", draft), VLLM) == (Change("--speculative-config", draft, None),)


@pytest.mark.parametrize("broken", ["{", "{]", '{"a":', "[1]"])
def test_what_is_no_json_object_is_compared_as_text(broken: str):
    assert of_arguments((*VLLM, "--x", broken), (*VLLM, "--x", "{}")) == (Change("--x", broken, "{}"),)


def test_variables_that_come_go_and_change():
    changes = of_variables({"A": "1", "B": "2", "C": "3"}, {"B": "4", "C": "3", "D": "5"})
    assert changes == (Change("A", "1", None), Change("B", "2", "4"), Change("D", None, "5"))


def test_hidden_values_are_named_since_nobody_can_compare_them():
    one, other = {"HF_TOKEN": HIDDEN, "X": "1"}, {"HF_TOKEN": HIDDEN, "X": "1", "MY_KEY": HIDDEN}
    assert of_variables(one, other) == (Change("MY_KEY", None, HIDDEN),)
    assert hidden_in_both(one, other) == ("HF_TOKEN",)


WORDS = st.lists(st.sampled_from(["--a", "--no-a", "--b=1", "-c", "x", "-1", "{}", '{"k":1}', "--", "-", "="]))


@given(WORDS)
def test_no_command_line_differs_from_itself(words: list[str]):
    assert of_arguments(words, words) == ()


@given(WORDS, WORDS)
def test_the_way_back_has_the_same_changes_turned_round(one: list[str], other: list[str]):
    there = {(change.name, change.was, change.becomes) for change in of_arguments(one, other)}
    back = {(change.name, change.becomes, change.was) for change in of_arguments(other, one)}
    assert there == back
