"""The ceiling of decoding: what must be read, over how fast it can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.bandwidth import bandwidth_of
from arcops.core.budget.ceiling import Reads, cache_read, ceiling_of, experts_read, state_read
from arcops.core.budget.layers import Attention, DeltaNet, Part

FULL, WINDOW = Attention(2, 64, 2), Attention(2, 64, 2, window=256)
DRAFT = Attention(2, 64, 2, part=Part.DRAFT)
NET = DeltaNet(2, 4, 128, 128, 4, 2, 4)


def test_the_b70_reads_608_gigabytes_a_second_and_an_unknown_card_an_unknown_number() -> None:
    assert bandwidth_of(0x8086, 0xE223) == 608e9
    assert bandwidth_of(0x8086, 0xFFFF) is None
    assert bandwidth_of(0x1002, 0xE223) is None


def test_a_token_costs_all_weights_the_cache_so_far_and_the_states() -> None:
    found = ceiling_of(Reads(weights=600, cache=300, state=100), bandwidth=10_000, depth=5)
    assert (found.plain, found.speculative, found.depth) == (10.0, None, 5)


def test_drafts_are_read_in_a_speculative_step_only() -> None:
    found = ceiling_of(Reads(600, 300, 100, drafting=1000), bandwidth=10_000, depth=5, tokens_per_step=3.0)
    assert found.plain == 10.0
    assert found.speculative == pytest.approx(15.0)


def test_a_window_is_read_no_further_than_it_is_wide_and_a_draft_is_counted_by_itself() -> None:
    layers = [FULL, WINDOW, DRAFT, NET]
    assert cache_read(layers, 100) == 2 * 100 * FULL.token_bytes
    assert cache_read(layers, 1000) == (1000 + 256) * FULL.token_bytes
    assert cache_read(layers, 1000, Part.DRAFT) == 1000 * DRAFT.token_bytes
    assert cache_read(layers, 0) == 0


def test_states_are_read_whole_whatever_the_depth() -> None:
    assert state_read([FULL, NET, NET]) == 2 * NET.bytes_of(0)


def test_one_token_wants_its_own_experts_and_many_want_nearly_all() -> None:
    assert experts_read(256, 8, 1) == pytest.approx(8)
    assert experts_read(256, 8, 2) == pytest.approx(15.75)
    assert experts_read(256, 8, 1000) == pytest.approx(256)
    assert experts_read(0, 8, 4) == 0


@given(st.integers(1, 512), st.integers(1, 64), st.integers(1, 32))
def test_more_tokens_never_want_fewer_experts_nor_more_than_there_are(experts: int, used: int, tokens: int) -> None:
    used = min(used, experts)
    now, more = experts_read(experts, used, tokens), experts_read(experts, used, tokens + 1)
    assert used * 0.999 <= now <= more * 1.000001 <= experts * 1.00001


@given(st.integers(0, 300_000), st.integers(0, 300_000))
def test_a_deeper_cache_is_never_read_for_less(one: int, other: int) -> None:
    shallow, deep = sorted((one, other))
    assert cache_read([FULL, WINDOW], shallow) <= cache_read([FULL, WINDOW], deep)
