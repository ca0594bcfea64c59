"""Bytes of weights, by what the tensors are for."""

from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.weights import Share, Tensor, active, share_of, weights_of

EMBEDDING = Tensor("model.embed_tokens.weight", "BF16", (1000, 64), 128_000)
PROJECTION = Tensor("model.layers.0.self_attn.q_proj.weight_packed", "I32", (64, 8), 2_048)
NORM = Tensor("model.layers.0.input_layernorm.weight", "BF16", (64,), 128)
EXPERT = Tensor("model.layers.0.mlp.experts.7.up_proj.weight_packed", "I32", (64, 8), 2_048)
HEAD = Tensor("mtp.layers.0.self_attn.q_proj.weight", "BF16", (64, 64), 8_192)
EYES = Tensor("model.visual.blocks.0.attn.qkv.weight", "BF16", (64, 64), 8_192)


def test_a_tensor_is_known_by_its_name() -> None:
    shares = [share_of(one.name) for one in (EMBEDDING, PROJECTION, NORM, EXPERT, HEAD, EYES)]
    assert shares == [Share.EMBEDDING, Share.TARGET, Share.TARGET, Share.EXPERTS, Share.MTP, Share.SIGHT]


def test_what_the_launch_leaves_out_is_said_and_not_counted() -> None:
    weights = weights_of([PROJECTION, HEAD, EYES], text_only=True)
    assert weights.total == 2_048
    assert dict(weights.skipped) == {Share.MTP: 8_192, Share.SIGHT: 8_192}


def test_a_head_that_speculates_is_loaded() -> None:
    assert weights_of([PROJECTION, HEAD], mtp=True).total == 2_048 + 8_192


def test_matrices_are_divided_over_the_cards_and_vectors_are_on_each() -> None:
    assert weights_of([PROJECTION, NORM], ranks=2).total == 1_024 + 128


def test_of_the_experts_a_token_reads_those_that_it_uses() -> None:
    weights = weights_of([PROJECTION, *[EXPERT] * 16])
    assert active(weights, experts=16, used=2, tied=False) == 2_048 + 2 * 2_048


def test_an_embedding_is_read_whole_only_where_it_is_the_output_too() -> None:
    weights = weights_of([EMBEDDING, PROJECTION])
    assert active(weights, 0, 0, tied=False) == 2_048
    assert active(weights, 0, 0, tied=True) == 2_048 + 128_000


@given(st.lists(st.sampled_from([EMBEDDING, PROJECTION, NORM, EXPERT, HEAD, EYES])), st.integers(1, 8))
def test_over_any_cards_nothing_is_lost(tensors: list[Tensor], ranks: int) -> None:
    weights = weights_of(tensors, ranks=ranks, mtp=True)
    assert sum(one.size for one in tensors) <= weights.total * ranks
    assert weights.total <= sum(one.size for one in tensors) + len(tensors) * ranks
