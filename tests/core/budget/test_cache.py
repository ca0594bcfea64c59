"""The cache's arithmetic against what real vLLM reported, and against itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.cache import Settings, Shape, StateMode, shape_of
from arcops.core.budget.layers import Attention, DeltaNet, Layer, Part
from arcops.core.budget.model import layers_of, mtp_layers_of
from tests.core.budget.checkpoints import model
from tools.plan_truth.__main__ import planned

REPORTED = Path(__file__).parents[2] / "data" / "kv-cache" / "vllm-0.29-cpu.jsonl"
"""Written by `python -m tools.plan_truth --out`, which starts real vLLM for each line."""


class Case(TypedDict):
    argv: list[str]
    reported: int | None


CASES: list[Case] = [json.loads(line) for line in REPORTED.read_text().splitlines()]
FOLDERS = {
    f"MODELS/{name}": str(REPORTED.parents[1] / "models" / f"tiny-{name}")
    for name in ("dense", "hybrid", "dflash", "dflash_dense", "draft")
}
GIB = 1 << 30


def cache(layers: list[Layer], **settings: object) -> Shape:
    found = shape_of(layers, Settings(**{"context": 2048, "block": 128, "kernel_block": 32, **settings}))  # pyright: ignore[reportArgumentType] - settings by name
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES, ids=[" ".join(case["argv"][2:]) for case in CASES])
def test_the_plan_counts_the_tokens_that_real_vllm_reported(case: Case) -> None:
    assert planned(case["argv"], FOLDERS) == case["reported"]


def test_there_are_enough_cases_and_each_was_counted() -> None:
    assert len(CASES) >= 30
    assert all(case["reported"] for case in CASES)
    assert len({tuple(case["argv"]) for case in CASES}) == len(CASES)


def test_a_published_start_is_reproduced_by_the_usable_blocks() -> None:
    """Qwen3.5-27B's shape with FP8 KV, FP32 states, MTP 4, 100,000 tokens of context and a pool of 4,617,089,843 bytes.

    That log is of a later vLLM, which does not count the null block; 0.29 does, and would say 103,947.
    """
    shape = model("qwen3.5-27b_text_partial")
    layers = [*layers_of(shape, cache_dtype="fp8"), *mtp_layers_of(shape, cache_dtype="fp8")]
    found = cache(layers, context=100_000, block=64, kernel_block=64, speculative=4)
    assert found.usable_tokens(4_617_089_843) == 102_631
    assert found.reported_tokens(4_617_089_843) == 103_947


def test_the_reference_deployment_fits_its_pool_of_six_and_a_half_gib() -> None:
    target, draft = model("qwen3.6-35b-a3b_text"), model("qwen3.6-35b-a3b-dflash")
    layers = [
        *layers_of(target, state_dtype="float16", ssm_dtype="float16"),
        *layers_of(draft, cache_dtype="fp8", part=Part.DRAFT),
    ]
    found = cache(
        layers, context=262_144, block=64, kernel_block=64, speculative=3, mode=StateMode.ALIGN, in_flight=16_384
    )
    assert 5 * GIB < found.pool_for() < 6.5 * GIB


def test_a_state_in_single_precision_wants_larger_blocks_than_one_in_half() -> None:
    target = model("qwen3.6-35b-a3b_text")
    single = cache(list(layers_of(target)), context=262_144, block=64, kernel_block=64)
    half = cache(
        list(layers_of(target, state_dtype="float16", ssm_dtype="float16")), context=262_144, block=64, kernel_block=64
    )
    assert single.block > half.block
    assert single.pool_for() > half.pool_for()


def test_a_model_that_keeps_nothing_has_no_cache() -> None:
    assert shape_of([], Settings(context=1, block=16)) is None


def test_layers_that_look_back_over_one_window_are_one_group() -> None:
    window = Attention(2, 64, 2, window=256)
    found = cache([window, window], in_flight=512)
    assert [group.what for group in found.groups] == ["window of 256"]
    # 255 + 512 tokens in blocks of 128, and one that the window begins in.
    assert found.groups[0].blocks == 7


def test_windows_beside_full_attention_take_blocks_of_their_own() -> None:
    full, window = Attention(2, 64, 2), Attention(2, 64, 2, window=256)
    found = cache([full, window, window, window], in_flight=512)
    assert sorted(group.what for group in found.groups) == ["full attention", *["window of 256"] * 3]


def test_states_for_every_block_are_as_many_as_blocks() -> None:
    attention, net = Attention(2, 64, 2), DeltaNet(2, 4, 128, 128, 4, 2, 4)
    found = cache([net, attention], mode=StateMode.ALL, context=8192)
    states = next(group for group in found.groups if group.what == "delta net")
    assert states.blocks == -(-8192 // found.block)
    assert found.block % 2048 == 0


def test_a_page_that_does_not_divide_the_largest_is_padded() -> None:
    net, odd = DeltaNet(2, 4, 128, 128, 4, 2, 4), Attention(3, 80, 2, part=Part.DRAFT)
    found = cache([net, Attention(2, 64, 2), odd])
    assert len({group.size for group in found.groups}) == 1
    assert any(group.padded for group in found.groups)


attention = st.builds(
    Attention,
    kv_heads=st.integers(1, 16),
    head_dim=st.sampled_from([64, 128, 256]),
    value_bytes=st.sampled_from([1, 2]),
    window=st.none() | st.integers(64, 8192),
    part=st.sampled_from(Part),
)
nets = st.builds(
    DeltaNet,
    key_heads=st.integers(1, 16),
    value_heads=st.integers(1, 32),
    key_dim=st.sampled_from([64, 128]),
    value_dim=st.sampled_from([64, 128]),
    kernel=st.just(4),
    conv_bytes=st.just(2),
    state_bytes=st.sampled_from([2, 4]),
)
models = st.lists(attention | nets, min_size=1, max_size=12)
settings = st.builds(
    Settings,
    context=st.integers(1, 300_000),
    block=st.sampled_from([16, 64, 128]),
    mode=st.sampled_from(StateMode),
    speculative=st.integers(0, 8),
    in_flight=st.integers(1, 16_384),
)


@given(models, settings, st.integers(0, 1 << 36))
def test_of_any_layers_the_smallest_pool_holds_one_request_and_a_byte_less_does_not(
    layers: list[Layer], chosen: Settings, pool: int
) -> None:
    found = shape_of(layers, chosen)
    assert found is not None
    smallest = found.pool_for()
    assert found.requests_in(smallest) >= 1
    assert found.requests_in(smallest - 1) < 1
    assert 0 <= found.usable_tokens(pool) <= found.reported_tokens(pool)
    assert sum(group.layers for group in found.groups) == len(layers)
    assert max(group.size for group in found.groups) == found.block_bytes


@given(models, settings)
def test_a_longer_context_never_needs_a_smaller_pool(layers: list[Layer], chosen: Settings) -> None:
    shorter, longer = shape_of(layers, chosen), shape_of(layers, replace(chosen, context=chosen.context * 2))
    assert shorter is not None
    assert longer is not None
    assert longer.pool_for() >= shorter.pool_for()
