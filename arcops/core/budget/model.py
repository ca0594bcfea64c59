"""A model's shape, from its config.json: how many layers of which kind, how wide, for how long a context.

Source: the configurations that transformers writes, as vLLM 0.29 reads them. A file of a checkpoint is somebody else's
text: every number is checked, and what this arithmetic does not know is refused by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from arcops.core.budget.layers import Attention, DeltaNet, Layer, Part

DTYPE_BYTES: Final[Mapping[str, int]] = {"float32": 4, "bfloat16": 2, "float16": 2, "half": 2, "float": 4}
"""Bytes of an element, by the names that vLLM takes for a model or a cache."""
_FP8: Final = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_LARGEST: Final = 1 << 24
"""No number of layers, heads or dimensions is larger; a context may be."""
_MOST_LAYERS: Final = 4096
_LONGEST: Final = 1 << 32
_LATENT: Final = "kv_lora_rank"


class ShapeError(ValueError):
    """What is wrong with a configuration, or beyond this arithmetic: `words` in one sentence, for a person."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """All gated delta nets of a model, before it is spread over ranks."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    dtype: str | None
    """Of the state, as the model wants it; None where it says nothing."""


@dataclass(frozen=True, slots=True)
class Model:
    """One checkpoint's shape."""

    architecture: str
    dtype: str
    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_dim: int
    kinds: tuple[str, ...]
    """One for each layer: `full`, `window`, `delta`."""
    window: int | None
    """Tokens, of the layers that have one."""
    delta: DeltaShape | None
    mtp_layers: int
    """Extra layers that predict several tokens; loaded only when they speculate."""
    context: int | None
    """The longest that it was made for, in tokens."""
    intermediate: int
    """Width of a dense layer's middle; 0 where it says none."""
    expert_width: int
    """The same of one expert."""
    experts: int
    """Of a layer; 0 for a dense model."""
    experts_used: int
    """Of these for each token."""
    tied: bool
    """The output matrix is the embedding."""

    @property
    def hybrid(self) -> bool:
        return "delta" in self.kinds


def model_of(config: Mapping[str, object]) -> Model:
    """The shape that a config.json describes. Raises ShapeError."""
    text = _section(config)
    if text.get(_LATENT) is not None:
        raise ShapeError(f"it has multi-head latent attention ({_LATENT}), and the plan cannot count that yet")
    heads = _number(text, "num_attention_heads")
    hidden = _number(text, "hidden_size")
    count = _number(text, "num_hidden_layers", most=_MOST_LAYERS)
    kinds = _kinds(text, count)
    names = config.get("architectures") or text.get("architectures")
    first = cast("Sequence[object]", names)[0] if isinstance(names, list) and names else None
    return Model(
        architecture=first if isinstance(first, str) else str(text.get("model_type", "unknown"))[:64],
        dtype=_dtype(text, config),
        hidden=hidden,
        vocabulary=_number(text, "vocab_size", 0),
        heads=heads,
        kv_heads=_number(text, "num_key_value_heads", heads),
        head_dim=_number(text, "head_dim", max(1, hidden // heads)),
        kinds=kinds,
        window=_number(text, "sliding_window", most=_LONGEST) if "window" in kinds else None,
        delta=_delta(text) if "delta" in kinds else None,
        mtp_layers=_number(text, "mtp_num_hidden_layers", _number(text, "num_nextn_predict_layers", 0), least=0),
        context=_number(text, "max_position_embeddings", 0, most=_LONGEST, least=0) or None,
        intermediate=_number(text, "intermediate_size", 0, least=0),
        expert_width=_number(text, "moe_intermediate_size", 0, least=0),
        experts=_number(text, "num_experts", _number(text, "num_local_experts", 0, least=0), least=0),
        experts_used=_number(text, "num_experts_per_tok", 0, least=0),
        tied=text.get("tie_word_embeddings") is True or config.get("tie_word_embeddings") is True,
    )


def layers_of(
    model: Model,
    ranks: int = 1,
    cache_dtype: str = "auto",
    state_dtype: str = "auto",
    ssm_dtype: str = "auto",
    part: Part = Part.TARGET,
) -> tuple[Layer, ...]:
    """What each layer keeps on one of `ranks` ranks. `auto` is the model's own. Raises ShapeError."""
    kv_heads = max(1, _divided(model.kv_heads, ranks, "KV heads") if model.kv_heads >= ranks else 1)
    value = cache_bytes(cache_dtype, model.dtype)
    full = Attention(kv_heads, model.head_dim, value, None, part)
    window = Attention(kv_heads, model.head_dim, value, model.window, part)
    delta = _delta_layer(model, ranks, state_dtype, ssm_dtype)
    found: list[Layer] = []
    for kind in model.kinds:
        if kind == "delta" and delta is not None:
            found.append(delta)
        else:
            found.append(window if kind == "window" else full)
    return tuple(found)


def mtp_layers_of(model: Model, ranks: int = 1, cache_dtype: str = "auto") -> tuple[Layer, ...]:
    """What the multi-token-prediction layers keep: each is one of full attention, like the target's."""
    if model.mtp_layers == 0:
        raise ShapeError("it has no layers for multi-token prediction (mtp_num_hidden_layers)")
    kv_heads = max(1, model.kv_heads // ranks)
    one = Attention(kv_heads, model.head_dim, cache_bytes(cache_dtype, model.dtype), None, Part.DRAFT)
    return (one,) * model.mtp_layers


def cache_bytes(name: str, own: str) -> int:
    """Bytes of one element of a cache that is `name`, of a model that is `own`. Raises ShapeError."""
    if name in _FP8:
        return 1
    wanted = own if name == "auto" else name
    if wanted not in DTYPE_BYTES:
        raise ShapeError(f"the plan does not know how large a cache of type {wanted[:40]} is")
    return DTYPE_BYTES[wanted]


def _delta_layer(model: Model, ranks: int, state_dtype: str, ssm_dtype: str) -> DeltaNet | None:
    shape = model.delta
    if shape is None:
        return None
    wanted = (shape.dtype or state_dtype) if ssm_dtype == "auto" else ssm_dtype
    return DeltaNet(
        key_heads=_divided(shape.key_heads, ranks, "key heads of the delta nets"),
        value_heads=_divided(shape.value_heads, ranks, "value heads of the delta nets"),
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        kernel=shape.kernel,
        conv_bytes=cache_bytes(state_dtype, model.dtype),
        state_bytes=cache_bytes(wanted, model.dtype),
    )


def _section(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part about text, of a model that also sees or hears."""
    text = config.get("text_config")
    return cast("Mapping[str, object]", text) if isinstance(text, Mapping) else config


def _number(
    text: Mapping[str, object], key: str, default: int | None = None, *, most: int = _LARGEST, least: int = 1
) -> int:
    value = text.get(key)
    if value is None:
        if default is None:
            raise ShapeError(f"it does not say {key}")
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ShapeError(f"its {key} is not a number from {least} to {most:,}")
    return value


def _dtype(text: Mapping[str, object], config: Mapping[str, object]) -> str:
    for one in (text, config):
        for key in ("dtype", "torch_dtype"):
            name = one.get(key)
            if isinstance(name, str):
                name = name.removeprefix("torch.")
                if name not in DTYPE_BYTES:
                    raise ShapeError(f"its {key} is {name[:40]!r}, which is no type of activations that vLLM has")
                return "bfloat16" if name == "float32" else name
    return "bfloat16"


def _kinds(text: Mapping[str, object], count: int) -> tuple[str, ...]:
    """What each layer is, by `layer_types`, by the interval of the full ones, or all alike."""
    names = text.get("layer_types")
    if isinstance(names, list):
        listed = cast("Sequence[object]", names)
        if len(listed) != count:
            raise ShapeError(f"it has {count} layers, and names the kinds of {len(listed)} (layer_types)")
        return tuple(_kind(name) for name in listed)
    if text.get("linear_num_value_heads") is not None:
        every = _number(text, "full_attention_interval", 4)
        return tuple("full" if (number + 1) % every == 0 else "delta" for number in range(count))
    windowed = text.get("sliding_window") is not None and text.get("use_sliding_window") is not False
    return ("window" if windowed else "full",) * count


def _kind(name: object) -> str:
    match name:
        case "full_attention" | "attention":
            return "full"
        case "sliding_attention":
            return "window"
        case "linear_attention":
            return "delta"
        case _:
            raise ShapeError(f"it has a layer of kind {str(name)[:40]!r}, and the plan cannot count that")


def _delta(text: Mapping[str, object]) -> DeltaShape:
    dtype = text.get("mamba_ssm_dtype")
    return DeltaShape(
        key_heads=_number(text, "linear_num_key_heads"),
        value_heads=_number(text, "linear_num_value_heads"),
        key_dim=_number(text, "linear_key_head_dim"),
        value_dim=_number(text, "linear_value_head_dim"),
        kernel=_number(text, "linear_conv_kernel_dim"),
        dtype=dtype if isinstance(dtype, str) else None,
    )


def _divided(count: int, ranks: int, what: str) -> int:
    if count % ranks:
        raise ShapeError(f"its {count} {what} cannot be spread over {ranks} cards")
    return count // ranks
