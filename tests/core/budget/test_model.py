"""A config.json is somebody else's text: what it says is checked, and what is not known is refused by name."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.layers import Attention, DeltaNet
from arcops.core.budget.model import ShapeError, cache_bytes, layers_of, model_of, mtp_layers_of
from tests.core.budget.checkpoints import MODELS, model

DENSE = json.loads((MODELS / "tiny-dense" / "config.json").read_text())
HYBRID = json.loads((MODELS / "tiny-hybrid" / "config.json").read_text())


def test_the_35b_has_ten_layers_of_attention_among_thirty_delta_nets() -> None:
    shape = model("qwen3.6-35b-a3b_text")
    assert (shape.kinds.count("full"), shape.kinds.count("delta")) == (10, 30)
    assert shape.kinds[3] == "full"
    assert (shape.experts, shape.experts_used, shape.mtp_layers) == (256, 8, 1)


def test_its_draft_has_five_windows_and_one_layer_that_sees_all() -> None:
    shape = model("qwen3.6-35b-a3b-dflash")
    assert shape.kinds == ("window",) * 5 + ("full",)
    assert shape.window == 4096


def test_the_text_of_a_model_that_also_sees_is_found() -> None:
    assert model_of({"architectures": ["Seeing"], "text_config": DENSE}).kinds == ("full", "full")


def test_a_window_that_is_switched_off_is_none() -> None:
    assert "window" not in model_of({**DENSE, "sliding_window": 512, "use_sliding_window": False}).kinds
    assert model_of({**DENSE, "sliding_window": 512, "use_sliding_window": None}).kinds == ("window", "window")


def test_heads_are_spread_over_cards_and_one_is_kept_by_each_where_there_are_fewer() -> None:
    two, four = layers_of(model("tiny-dense"), ranks=2)[0], layers_of(model("tiny-dense"), ranks=4)[0]
    assert isinstance(two, Attention)
    assert isinstance(four, Attention)
    assert (two.kv_heads, four.kv_heads) == (1, 1)


def test_states_are_in_the_precision_that_the_model_wants_unless_another_is_set() -> None:
    own = next(one for one in layers_of(model("tiny-hybrid")) if isinstance(one, DeltaNet))
    half = next(one for one in layers_of(model("tiny-hybrid"), ssm_dtype="float16") if isinstance(one, DeltaNet))
    assert (own.state_bytes, half.state_bytes) == (4, 2)


def test_a_cache_in_eight_bits_takes_a_byte() -> None:
    assert [cache_bytes(name, "bfloat16") for name in ("auto", "fp8", "fp8_e5m2", "float32")] == [2, 1, 1, 4]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"hidden_size": -3}, "hidden_size"),
        ({"hidden_size": "128"}, "hidden_size"),
        ({"head_dim": 1.5}, "head_dim"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention", "perceiver"]}, "perceiver"),
        ({"dtype": "int3"}, "int3"),
        ({"kv_lora_rank": 512}, "latent"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        model_of({**DENSE, **changed})


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(ShapeError, match="3 cards"):
        layers_of(model("tiny-hybrid"), ranks=3)
    with pytest.raises(ShapeError, match="multi-token"):
        mtp_layers_of(model("tiny-dense"))
    with pytest.raises(ShapeError, match="int4"):
        layers_of(model("tiny-dense"), cache_dtype="int4_per_token_head")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted({*DENSE, *HYBRID, "text_config"})), json_values))
def test_any_values_give_a_shape_or_an_error_in_words(changed: dict[str, object]) -> None:
    with suppress(ShapeError):
        shape = model_of({**HYBRID, **changed})
        assert len(layers_of(shape)) == len(shape.kinds)
