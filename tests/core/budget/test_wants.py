"""A command line is read for what memory depends on, and every word of it is somebody else's."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.model import ShapeError
from arcops.core.budget.wants import UTILISATION, Drafting, Wants, wants_of

START = ("vllm", "serve", "/models/a")


def drafting(**table: object) -> Drafting:
    found = wants_of([*START, "--speculative-config", json.dumps(table)]).drafting
    assert found is not None
    return found


def test_nothing_that_is_set_is_vllms_own_default() -> None:
    assert wants_of(START) == Wants(model="/models/a")
    assert Wants(model="").utilisation == UTILISATION


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (["--max-model-len", "4096"], "context", 4096),
        (["--max-model-len=4096"], "context", 4096),
        (["--max_model_len", "4096"], "context", 4096),
        (["--max-model-len", "1", "--max-model-len", "4096"], "context", 4096),
        (["--max-num-seqs", "3"], "sequences", 3),
        (["--max-num-batched-tokens", "8192"], "batched", 8192),
        (["--block-size", "64"], "block", 64),
        (["--kv-cache-memory-bytes", "6979321856"], "pool", 6_979_321_856),
        (["--gpu-memory-utilization", "0.5"], "utilisation", 0.5),
        (["--dtype", "float16"], "dtype", "float16"),
        (["--kv-cache-dtype", "fp8"], "cache_dtype", "fp8"),
        (["--mamba-cache-dtype", "float16"], "state_dtype", "float16"),
        (["--mamba-ssm-cache-dtype", "float16"], "ssm_dtype", "float16"),
        (["--mamba-cache-mode", "all"], "mode", "all"),
        (["--enable-prefix-caching"], "prefix_caching", True),
        (["--no-enable-prefix-caching"], "prefix_caching", False),
        (["--async-scheduling"], "asynchronous", True),
        (["--no-async-scheduling"], "asynchronous", False),
        (["-tp", "2"], "ranks", 2),
        (["--tensor-parallel-size", "2"], "ranks", 2),
        (["--language-model-only"], "text_only", True),
        (["--enforce-eager"], "eager", True),
    ],
)
def test_each_flag_is_found(flags: list[str], field: str, value: object) -> None:
    assert getattr(wants_of([*START, *flags, "--seed", "1"]), field) == value


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-model-len", "32k"], "--max-model-len '32k'"),
        (["--max-model-len"], "--max-model-len ''"),
        (["--max-model-len", "-1"], "whole number"),
        (["--block-size", "9" * 400], "--block-size"),
        (["--gpu-memory-utilization", "nan"], "share"),
        (["--gpu-memory-utilization", "0"], "share"),
        (["--gpu-memory-utilization", "1.1"], "share"),
        (["--gpu-memory-utilization", "much"], "'much'"),
        (["--speculative-config", "{"], "no JSON"),
        (["--speculative-config", "[" * 100_000], "no JSON"),
        (["--speculative-config", "[]"], "no table"),
        (["--speculative-config"], "no JSON"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_its_flag(flags: list[str], said: str) -> None:
    with pytest.raises(ShapeError) as caught:
        wants_of([*START, *flags])
    assert said in caught.value.words
    assert len(caught.value.words) < 200


def test_how_it_speculates_is_read_from_its_table() -> None:
    table = {"method": "dflash", "model": "/models/b", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}
    found = drafting(**table, draft_tensor_parallel_size=1, synthetic_acceptance_length=2.5)
    assert found == Drafting("dflash", 3, "/models/b", "fp8", 1, 2.5)
    assert drafting() == Drafting("draft_model", 1, None, None, None, None)


@pytest.mark.parametrize("value", [True, "3", 0, -1, 10**30, 1.5, None, [], math.inf])
def test_a_number_of_drafted_tokens_that_is_none_is_one(value: object) -> None:
    assert drafting(num_speculative_tokens=value).tokens == 1


@pytest.mark.parametrize("value", [True, "2", 0, 0.5, -3, 10**400, math.inf, math.nan, None, {}])
def test_an_accepted_length_that_is_none_is_unknown(value: object) -> None:
    assert drafting(synthetic_acceptance_length=value).accepted is None


flags = st.sampled_from(
    [
        *("--max-model-len", "--max-num-seqs", "--block-size", "--kv-cache-memory-bytes", "--gpu-memory-utilization"),
        *("-tp", "-sc", "--speculative-config", "--kv-cache-dtype", "--mamba-cache-mode", "--no-enable-prefix-caching"),
        *("--max-model-len=", "--block-size=64", "--", "-", "=", "--="),
    ]
)
words = flags | st.text(max_size=12) | st.integers().map(str) | st.floats().map(str)
tables = st.dictionaries(
    st.sampled_from(["method", "num_speculative_tokens", "model", "draft_tensor_parallel_size", "kv_cache_dtype"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
).map(json.dumps)


@given(st.lists(words | tables, max_size=12))
def test_any_command_line_gives_wants_or_an_error_in_words(argv: list[str]) -> None:
    with suppress(ShapeError):
        found = wants_of(argv)
        assert 0 < found.utilisation <= 1
        assert found.ranks >= 1
        assert found.context is None or found.context >= 0
        assert found.drafting is None or found.drafting.tokens >= 1
