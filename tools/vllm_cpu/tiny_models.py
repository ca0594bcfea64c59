"""Tiny models with random weights that real vLLM serves without a network: `tiny_models.py FOLDER`.

    dense         Qwen3, attention only
    hybrid        Qwen3.5, text only: three gated-delta-net layers, one of full attention, and an MTP head
    draft         a second, noisier Qwen3 for the method draft_model
    dflash        a DFlash draft for hybrid
    dflash_dense  a DFlash draft for dense

The embedding and the output matrix are laid out so that the likeliest next token is a fixed permutation of the last one
which walks through a short English text. So the output is readable, endless (no end token unless sampled) and the same
on every run at temperature 0, and a draft that shares them is accepted at a rate between 0 and 1, set by its noise.

Runs in the runtime's own Python: torch, safetensors and tokenizers are all it needs. Same versions, same bytes.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SEED = 7
VOCABULARY = 512
HIDDEN = 128
INTERMEDIATE = 256
HEADS, KV_HEADS, HEAD_SIZE = 4, 2, 64
CONTEXT = 32768
"""Longest sequence in tokens."""
PEAK = 30.0
"""Logit of the likeliest token: how sure the model is."""
SPREAD = 0.08
"""Standard deviation of the weights that only stir the hidden state."""

ENDOFTEXT, TURN, END_OF_TURN, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"
SPECIAL = (ENDOFTEXT, TURN, END_OF_TURN, "<think>", "</think>", "<tool_call>", "</tool_call>", MASK)
TEXT = """The daemon holds the card and starts one server, then it waits until the weights are loaded.
A request joins the queue, its prompt is read in chunks, and the first token comes out of the prefill.
After that each step of the decode gives one more token, or several when a draft has been accepted.
What the draft proposed and the target would not have said is thrown away, so nothing of the answer changes.
Blocks of the cache are handed out and taken back; when none are left the youngest sequence must wait.
if step > limit:
    return stop(reason)
Quick numbers on the screen: seven requests, nine blocks, twelve tokens a second, no errors for an hour.
"""
CHAT_TEMPLATE = (
    "{%- if tools %}<|im_start|>system\n# Tools\n{%- for tool in tools %}\n{{ tool | tojson }}{%- endfor %}<|im_end|>\n"
    "{%- endif %}{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{%- elif message.content %}"
    "{%- for part in message.content %}{{ part.text }}{%- endfor %}{%- endif %}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{%- endif %}{%- endif %}"
)


@dataclass(slots=True)
class Weights:
    """Named tensors, drawn from a seeded generator and stored as bfloat16."""

    seed: int
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    generator: torch.Generator = field(default_factory=torch.Generator)

    def __post_init__(self) -> None:
        self.generator.manual_seed(self.seed)

    def random(self, *shape: int, std: float) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator) * std

    def put(self, name: str, tensor: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
        self.tensors[name] = tensor.to(dtype).contiguous()

    def linear(self, name: str, out: int, into: int, std: float) -> None:
        self.put(f"{name}.weight", self.random(out, into, std=std))

    def constant(self, name: str, size: int, value: float) -> None:
        self.put(name, torch.full((size,), value))


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False, initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the text gives {tokenizer.get_vocab_size()} tokens, {VOCABULARY} are needed")
    return tokenizer


def successors(tokenizer: Tokenizer) -> list[int]:
    """For each token the one that follows it: a walk through the text in a circle, into which all others lead."""
    walk = list(dict.fromkeys(tokenizer.encode(TEXT).ids))
    following = dict(zip(walk, walk[1:] + walk[:1], strict=True))
    others = [token for token in range(VOCABULARY) if token not in following]
    for index, token in enumerate(others):
        following[token] = walk[index * 7 % len(walk)]
    return [following[token] for token in range(VOCABULARY)]


def shared_matrices(tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding (rows of unit variance), and an output matrix whose largest logit is the successor's.

    The row of the mask token is zero: the DFlash drafts rely on it.
    """
    generator = torch.Generator().manual_seed(SEED * 1000 + 1)
    embedding = torch.randn(VOCABULARY, HIDDEN, generator=generator)
    embedding = embedding / embedding.pow(2).mean(-1, keepdim=True).sqrt()
    embedding[tokenizer.token_to_id(MASK)] = 0.0
    output = torch.zeros(VOCABULARY, HIDDEN)
    for token, successor in enumerate(successors(tokenizer)):
        output[successor] += embedding[token]
    output = output / (output.norm(dim=-1, keepdim=True) + 1e-6) * (PEAK / HIDDEN**0.5)
    return embedding, output


def attention(weights: Weights, prefix: str, *, noise: float, neutral: float, gated: bool = False) -> None:
    """An attention block. `neutral` is what a norm's weight is without effect: 1, or 0 where the model adds 1."""
    name = f"{prefix}self_attn."
    weights.linear(f"{name}q_proj", HEADS * HEAD_SIZE * (2 if gated else 1), HIDDEN, SPREAD)
    weights.linear(f"{name}k_proj", KV_HEADS * HEAD_SIZE, HIDDEN, SPREAD)
    weights.linear(f"{name}v_proj", KV_HEADS * HEAD_SIZE, HIDDEN, SPREAD)
    weights.linear(f"{name}o_proj", HIDDEN, HEADS * HEAD_SIZE, noise)
    weights.constant(f"{name}q_norm.weight", HEAD_SIZE, neutral)
    weights.constant(f"{name}k_norm.weight", HEAD_SIZE, neutral)


def mlp(weights: Weights, prefix: str, *, noise: float, neutral: float) -> None:
    """A feed-forward block and the two norms of its layer."""
    weights.linear(f"{prefix}mlp.gate_proj", INTERMEDIATE, HIDDEN, SPREAD)
    weights.linear(f"{prefix}mlp.up_proj", INTERMEDIATE, HIDDEN, SPREAD)
    weights.linear(f"{prefix}mlp.down_proj", HIDDEN, INTERMEDIATE, noise)
    weights.constant(f"{prefix}input_layernorm.weight", HIDDEN, neutral)
    weights.constant(f"{prefix}post_attention_layernorm.weight", HIDDEN, neutral)


def common_config(tokenizer: Tokenizer) -> dict[str, object]:
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "eos_token_id": tokenizer.token_to_id(END_OF_TURN),
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": CONTEXT,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "pad_token_id": tokenizer.token_to_id(ENDOFTEXT),
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def qwen3_config(tokenizer: Tokenizer, architecture: str, layers: int, rope_theta: float) -> dict[str, object]:
    return common_config(tokenizer) | {
        "architectures": [architecture],
        "max_window_layers": layers,
        "model_type": "qwen3",
        "num_hidden_layers": layers,
        "rope_scaling": None,
        "rope_theta": rope_theta,
        "sliding_window": None,
        "use_sliding_window": False,
    }


def write(folder: Path, config: dict[str, object], weights: Weights, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT,
        "eos_token": END_OF_TURN,
        "pad_token": ENDOFTEXT,
        "additional_special_tokens": [TURN, END_OF_TURN],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    # A temperature, but no top_k and no top_p: requests that do not set them then do not need them expanded over the
    # draft tokens, which the CPU build gets wrong without its patch.
    generation = {
        "do_sample": True,
        "eos_token_id": tokenizer.token_to_id(END_OF_TURN),
        "pad_token_id": tokenizer.token_to_id(ENDOFTEXT),
        "temperature": 0.7,
    }
    for name, content in (
        ("config.json", config),
        ("tokenizer_config.json", tokenizer_config),
        ("generation_config.json", generation),
    ):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(weights.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    print(f"{folder.name}: {(folder / 'model.safetensors').stat().st_size / 1e6:.2f} MB")


def dense(folder: Path, tokenizer: Tokenizer, *, seed: int, layers: int, noise: float) -> None:
    weights = Weights(seed)
    embedding, output = shared_matrices(tokenizer)
    weights.put("model.embed_tokens.weight", embedding)
    weights.put("lm_head.weight", output)
    weights.constant("model.norm.weight", HIDDEN, 1.0)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        attention(weights, prefix, noise=noise, neutral=1.0)
        mlp(weights, prefix, noise=noise, neutral=1.0)
    write(folder, qwen3_config(tokenizer, "Qwen3ForCausalLM", layers, 1e6), weights, tokenizer)


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Sizes of a gated-delta-net layer: heads and their sizes for keys and values, and the width of the convolution."""

    key_heads: int = 2
    value_heads: int = 4
    key_size: int = 128
    value_size: int = 128
    convolution: int = 4

    @property
    def mixed(self) -> int:
        """Channels of queries, keys and values together."""
        return 2 * self.key_heads * self.key_size + self.values

    @property
    def values(self) -> int:
        return self.value_heads * self.value_size


def linear_attention(weights: Weights, prefix: str, sizes: DeltaNet, *, noise: float) -> None:
    name = f"{prefix}linear_attn."
    weights.linear(f"{name}in_proj_qkv", sizes.mixed, HIDDEN, SPREAD)
    weights.linear(f"{name}in_proj_z", sizes.values, HIDDEN, SPREAD)
    weights.linear(f"{name}in_proj_b", sizes.value_heads, HIDDEN, SPREAD)
    weights.linear(f"{name}in_proj_a", sizes.value_heads, HIDDEN, SPREAD)
    weights.put(f"{name}conv1d.weight", weights.random(sizes.mixed, 1, sizes.convolution, std=0.3))
    weights.constant(f"{name}dt_bias", sizes.value_heads, 1.0)
    decay = torch.log(torch.linspace(1, 8, sizes.value_heads))
    weights.put(f"{name}A_log", decay, torch.float32)  # the checkpoint's type for it: bfloat16 is too coarse
    weights.constant(f"{name}norm.weight", sizes.value_size, 1.0)
    weights.linear(f"{name}out_proj", HIDDEN, sizes.values, noise)


def hybrid(folder: Path, tokenizer: Tokenizer, *, seed: int, noise: float, head_noise: float) -> None:
    sizes = DeltaNet()
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    weights = Weights(seed)
    embedding, output = shared_matrices(tokenizer)
    weights.put("model.embed_tokens.weight", embedding)
    weights.put("lm_head.weight", output)
    weights.constant("model.norm.weight", HIDDEN, 0.0)
    for layer, kind in enumerate(kinds):
        prefix = f"model.layers.{layer}."
        if kind == "full_attention":
            attention(weights, prefix, noise=noise, neutral=0.0, gated=True)
        else:
            linear_attention(weights, prefix, sizes, noise=noise)
        mlp(weights, prefix, noise=noise, neutral=0.0)
    mtp_head(weights, noise=noise, head_noise=head_noise)
    config = common_config(tokenizer) | {
        "architectures": ["Qwen3_5ForCausalLM"],
        "attn_output_gate": True,
        "full_attention_interval": len(kinds),
        "layer_types": kinds,
        "linear_conv_kernel_dim": sizes.convolution,
        "linear_key_head_dim": sizes.key_size,
        "linear_num_key_heads": sizes.key_heads,
        "linear_num_value_heads": sizes.value_heads,
        "linear_value_head_dim": sizes.value_size,
        "mamba_ssm_dtype": "float32",
        "model_type": "qwen3_5_text",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_hidden_layers": len(kinds),
        "partial_rotary_factor": 0.25,
        # Without mrope_section. vLLM 0.29 drops it for a text-only target but keeps it for the MTP draft, which then
        # gets positions of three rows with a plain rotary embedding: the CPU kernel corrupts the heap, the SIGSEGV
        # handler deadlocks, and the crash looks like a hang.
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    }
    write(folder, config, weights, tokenizer)


def mtp_head(weights: Weights, *, noise: float, head_noise: float) -> None:
    """One layer after `fc`, which takes the embedding and the hidden state side by side and keeps mostly the former."""
    keep = torch.cat([torch.eye(HIDDEN), torch.zeros(HIDDEN, HIDDEN)], dim=1)
    weights.put("mtp.fc.weight", keep + weights.random(HIDDEN, 2 * HIDDEN, std=head_noise))
    attention(weights, "mtp.layers.0.", noise=noise, neutral=0.0, gated=True)
    mlp(weights, "mtp.layers.0.", noise=noise, neutral=0.0)
    for norm in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        weights.constant(f"mtp.{norm}.weight", HIDDEN, 0.0)


def dflash(folder: Path, tokenizer: Tokenizer, *, seed: int, target_layers: int, noise: float) -> None:
    """A draft of one layer. The target's features have no effect and the mask's embedding is zero, so each masked
    position sees only the value of the last real token, a noisy copy of its embedding: the first draft position is
    mostly right, the later ones repeat it and are wrong.
    """
    features = [0, target_layers - 2] if target_layers > 2 else [0]
    weights = Weights(seed)
    weights.put("fc.weight", torch.zeros(HIDDEN, HIDDEN * len(features)))
    weights.constant("hidden_norm.weight", HIDDEN, 1.0)
    weights.constant("norm.weight", HIDDEN, 1.0)
    attention(weights, "layers.0.", noise=0.0, neutral=1.0)
    mlp(weights, "layers.0.", noise=0.0, neutral=1.0)
    weights.put("layers.0.self_attn.v_proj.weight", torch.eye(HIDDEN) + weights.random(HIDDEN, HIDDEN, std=noise))
    # Two query heads share each KV head: take the first of either pair, strongly.
    output = torch.zeros(HIDDEN, HEADS * HEAD_SIZE)
    for row in range(HIDDEN):
        head, within = divmod(row, HEAD_SIZE)
        output[row, head * (HEADS // KV_HEADS) * HEAD_SIZE + within] = 50.0
    weights.put("layers.0.self_attn.o_proj.weight", output)
    config = qwen3_config(tokenizer, "DFlashDraftModel", 1, 1e7) | {
        "block_size": 4,
        "dflash_config": {"mask_token_id": tokenizer.token_to_id(MASK), "target_layer_ids": features},
        "layer_types": ["full_attention"],
        "num_target_layers": target_layers,
    }
    write(folder, config, weights, tokenizer)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: tiny_models.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    tokenizer = train_tokenizer()
    base = SEED * 1000
    dense(folder / "dense", tokenizer, seed=base + 11, layers=2, noise=0.05)
    dense(folder / "draft", tokenizer, seed=base + 12, layers=1, noise=0.12)
    hybrid(folder / "hybrid", tokenizer, seed=base + 20, noise=0.03, head_noise=0.05)
    dflash(folder / "dflash", tokenizer, seed=base + 30, target_layers=4, noise=0.06)
    dflash(folder / "dflash_dense", tokenizer, seed=base + 31, target_layers=2, noise=0.06)
    return 0


if __name__ == "__main__":
    sys.exit(main())
