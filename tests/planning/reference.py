"""The reference deployment's checkpoints, as headers: the shapes of a 35B mixture in INT4 and its draft, no data.

Which modules are packed is not on record; here it is every linear layer but the head, the router and the delta nets, as
llm-compressor's recipes for models of this family leave them, in groups of 128 with scales in BF16. Files are sparse.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

MODELS = Path(__file__).parents[1] / "data" / "models"
WIDTHS: Mapping[str, int] = {"BF16": 2, "I32": 4, "I64": 8, "F32": 4}
GROUP = 128

Entry = tuple[str, str, tuple[int, ...]]


def packed(name: str, out: int, into: int) -> Iterator[Entry]:
    """A linear layer of four bits a weight."""
    yield f"{name}.weight_packed", "I32", (out, into // 8)
    yield f"{name}.weight_scale", "BF16", (out, into // GROUP)
    yield f"{name}.weight_shape", "I64", (2,)


def plain(name: str, *shape: int) -> Iterator[Entry]:
    yield f"{name}.weight", "BF16", shape


def target(config: Mapping[str, int]) -> Iterator[Entry]:
    hidden, vocabulary, width = config["hidden_size"], config["vocab_size"], config["moe_intermediate_size"]
    yield from plain("model.embed_tokens", vocabulary, hidden)
    yield from plain("lm_head", vocabulary, hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        full = (number + 1) % config["full_attention_interval"] == 0
        yield from attention(f"{layer}.self_attn", config) if full else delta(f"{layer}.linear_attn", config)
        yield from plain(f"{layer}.mlp.gate", config["num_experts"], hidden)
        for expert in range(config["num_experts"]):
            yield from mlp(f"{layer}.mlp.experts.{expert}", hidden, width)
        yield from mlp(f"{layer}.mlp.shared_expert", hidden, config["shared_expert_intermediate_size"])
        yield from plain(f"{layer}.input_layernorm", hidden)
        yield from plain(f"{layer}.post_attention_layernorm", hidden)
    # The head for multi-token prediction and the eyes are in the files, and left out by the launch.
    yield from plain("mtp.fc", hidden, 2 * hidden)
    yield from plain("model.visual.merger", hidden, 4608)


def attention(name: str, config: Mapping[str, int]) -> Iterator[Entry]:
    hidden, heads = config["hidden_size"], config["head_dim"]
    # The output gate doubles the queries' projection.
    yield from packed(f"{name}.q_proj", 2 * config["num_attention_heads"] * heads, hidden)
    yield from packed(f"{name}.k_proj", config["num_key_value_heads"] * heads, hidden)
    yield from packed(f"{name}.v_proj", config["num_key_value_heads"] * heads, hidden)
    yield from packed(f"{name}.o_proj", hidden, config["num_attention_heads"] * heads)


def delta(name: str, config: Mapping[str, int]) -> Iterator[Entry]:
    hidden = config["hidden_size"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    yield from plain(f"{name}.in_proj_qkv", 2 * keys + values, hidden)
    yield from plain(f"{name}.in_proj_z", values, hidden)
    yield from plain(f"{name}.in_proj_a", config["linear_num_value_heads"], hidden)
    yield from plain(f"{name}.in_proj_b", config["linear_num_value_heads"], hidden)
    yield from plain(f"{name}.conv1d", 2 * keys + values, 1, config["linear_conv_kernel_dim"])
    yield from plain(f"{name}.out_proj", hidden, values)


def mlp(name: str, hidden: int, width: int) -> Iterator[Entry]:
    yield from packed(f"{name}.gate_proj", width, hidden)
    yield from packed(f"{name}.up_proj", width, hidden)
    yield from packed(f"{name}.down_proj", hidden, width)


def draft(config: Mapping[str, int], target_layers: int) -> Iterator[Entry]:
    """It takes the target's embedding and head, and has neither in its file."""
    hidden, heads = config["hidden_size"], config["head_dim"]
    yield from plain("fc", hidden, target_layers * hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"layers.{number}"
        yield from plain(f"{layer}.self_attn.q_proj", config["num_attention_heads"] * heads, hidden)
        yield from plain(f"{layer}.self_attn.k_proj", config["num_key_value_heads"] * heads, hidden)
        yield from plain(f"{layer}.self_attn.v_proj", config["num_key_value_heads"] * heads, hidden)
        yield from plain(f"{layer}.self_attn.o_proj", hidden, config["num_attention_heads"] * heads)
        yield from plain(f"{layer}.mlp.gate_proj", config["intermediate_size"], hidden)
        yield from plain(f"{layer}.mlp.up_proj", config["intermediate_size"], hidden)
        yield from plain(f"{layer}.mlp.down_proj", hidden, config["intermediate_size"])
        yield from plain(f"{layer}.input_layernorm", hidden)


def write(folder: Path, config: Mapping[str, object], entries: Iterator[Entry]) -> Path:
    """A checkpoint of one file, whose data are a hole."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    header: dict[str, object] = {}
    end = 0
    for name, dtype, shape in entries:
        size = WIDTHS[dtype]
        for one in shape:
            size *= one
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return folder


def checkpoints(root: Path) -> tuple[Path, Path]:
    """Target and draft."""
    shape = json.loads((MODELS / "qwen3.6-35b-a3b_text" / "config.json").read_text())
    small = json.loads((MODELS / "qwen3.6-35b-a3b-dflash" / "config.json").read_text())
    layers = len(small["dflash_config"]["target_layer_ids"])
    return (
        write(root / "target", {**shape, "dtype": "bfloat16"}, target(shape)),
        write(root / "draft", small, draft(small, layers)),
    )
