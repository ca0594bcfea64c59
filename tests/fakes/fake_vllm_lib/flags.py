"""vLLM's command line, as far as the fake needs it: what it knows it checks, what it does not know it lets pass."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, cast

VERSION = "0.29.0"
SERVE_USAGE = "usage: vllm serve [model_tag] [options]"
USAGE = "usage: vllm [-h] [-v]\n            {chat,complete,serve,launch,bench,collect-env,run-batch} ..."
SHORT = {"-sc": "speculative-config", "-tp": "tensor-parallel-size", "-cc": "compilation-config"}
INTEGERS = ("port", "max-num-seqs", "max-num-batched-tokens", "block-size", "shutdown-timeout", "tensor-parallel-size")
JSON_FLAGS = ("speculative-config",)
SWITCHES = frozenset(
    {
        "async-scheduling",
        "disable-fastapi-docs",
        "disable-log-stats",
        "disable-uvicorn-access-log",
        "enable-auto-tool-choice",
        "enable-chunked-prefill",
        "enable-prefix-caching",
        "enable-prompt-tokens-details",
        "enforce-eager",
        "language-model-only",
        "trust-remote-code",
    }
)
METHODS = frozenset(
    {
        "ngram",
        "medusa",
        "mlp_speculator",
        "draft_model",
        "suffix",
        "eagle",
        "eagle3",
        "mtp",
        "qwen3_5_mtp",
        "dflash",
    }
)
SPECULATION_KEYS = frozenset(
    {
        "method",
        "model",
        "num_speculative_tokens",
        "num_speculative_tokens_per_batch_size",
        "kv_cache_dtype",
        "attention_backend",
        "moe_backend",
        "draft_sample_method",
        "rejection_sample_method",
        "draft_tensor_parallel_size",
        "quantization",
        "max_model_len",
        "revision",
        "code_revision",
        "enforce_eager",
        "prompt_lookup_min",
        "prompt_lookup_max",
        "parallel_drafting",
        "disable_padded_drafter_batch",
        "draft_load_config",
    }
)
SUFFIXES = {"k": 1000, "K": 1024, "m": 10**6, "M": 2**20}


class UsageError(Exception):
    """A command line that vLLM's parser refuses: exit code 2, the text on stderr."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """What `--speculative-config` asks for."""

    method: str
    model: str | None
    tokens: int
    by_batch: tuple[tuple[int, int, int], ...]
    """First and last batch size and the draft tokens there; empty when the depth is fixed."""
    raw: dict[str, object]

    @property
    def deepest(self) -> int:
        """The most draft tokens at any batch size, at least 1."""
        return max(1, self.tokens, *(tokens for _, _, tokens in self.by_batch))

    def depth(self, batch: int) -> int:
        """Draft tokens at this batch size."""
        for first, last, tokens in self.by_batch:
            if first <= batch <= last:
                return tokens
        return self.tokens


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line of one server."""

    model: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    switches: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    """Served names; the first one labels the metrics."""
    max_model_len: int | None = None
    speculation: Speculation | None = None

    def integer(self, name: str, default: int) -> int:
        return int(self.values.get(name, default))

    @property
    def host(self) -> str:
        return self.values.get("host", "")

    @property
    def port(self) -> int:
        return self.integer("port", 8000)

    @property
    def api_key(self) -> str:
        return self.values.get("api-key") or os.environ.get("VLLM_API_KEY", "")

    @property
    def prefix_caching(self) -> bool:
        return "no-enable-prefix-caching" not in self.switches

    def quiet(self, path: str) -> bool:
        """Whether requests to this path stay out of the log."""
        listed = self.values.get("disable-access-log-for-endpoints", "").split(",")
        return "disable-uvicorn-access-log" in self.switches or path in listed

    def non_default(self) -> dict[str, object]:
        """What vLLM prints as `non-default args`."""
        given: dict[str, object] = {"model_tag": self.model}
        for name, value in self.values.items():
            given[name.replace("-", "_")] = int(value) if value.isdigit() else value
        for name in sorted(self.switches):
            given[name.removeprefix("no-").replace("-", "_")] = not name.startswith("no-")
        given["model"] = self.model
        if self.names:
            given["served_model_name"] = list(self.names)
        if self.speculation is not None:
            given["speculative_config"] = self.speculation.raw
        return given


def parse(arguments: Sequence[str]) -> Flags:
    """Read the arguments after `vllm serve`; raise UsageError with vLLM's own text."""
    values: dict[str, str] = {}
    switches: set[str] = set()
    names: list[str] = []
    model: str | None = None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = _flag(word)
        if name == "no-such-flag":
            raise UsageError(f"{USAGE}\nvllm: error: unrecognized arguments: {word}")
        if not name:
            if model is not None:
                raise UsageError(f"{USAGE}\nvllm: error: unrecognized arguments: {word}")
            model = word
        elif name == "served-model-name":
            names += [value] if equals else []
            while not equals and rest and not rest[0].startswith("-"):
                names.append(rest.pop(0))
        elif equals:
            values[name] = value
        elif name in SWITCHES or name.startswith("no-") or not rest or rest[0].startswith("--"):
            switches.add(name)
        else:
            values[name] = rest.pop(0)
    for name in INTEGERS:
        _check_integer(name, values.get(name))
    model = model or values.pop("model", None) or "Qwen/Qwen3-0.6B"
    length = values.get("max-model-len")
    return Flags(
        model=model,
        values={name: value for name, value in values.items() if name not in JSON_FLAGS},
        switches=frozenset(switches),
        names=tuple(names),
        max_model_len=None if length in (None, "auto", "-1") else _length(str(length)),
        speculation=_speculation(values.get("speculative-config")),
    )


def _flag(word: str) -> tuple[str, bool, str]:
    """Name, whether `=` follows it, and the value after it; the name is empty for a positional word."""
    if not word.startswith("-") or word == "-":
        return "", False, ""
    head, equals, value = word.partition("=")
    return SHORT.get(head, head.lstrip("-").replace("_", "-")), bool(equals), value


def _refuse(argument: str, text: str) -> NoReturn:
    raise UsageError(f"{SERVE_USAGE}\nvllm serve: error: argument {argument}: {text}")


def _check_integer(name: str, value: str | None) -> None:
    if value is not None:
        try:
            int(value)
        except ValueError:
            _refuse(f"--{name}", f"invalid int value: {value!r}")


def _length(text: str) -> int:
    factor = SUFFIXES.get(text[-1:], 1)
    try:
        return int(float(text[:-1]) * factor) if factor > 1 else int(text)
    except ValueError:
        _refuse("--max-model-len", f"invalid human_readable_int_or_auto value: {text!r}")


def _speculation(text: str | None) -> Speculation | None:
    if text is None:
        return None
    try:
        raw: object = json.loads(text)
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        _refuse("--speculative-config/-sc", f"Value {text} cannot be converted to <function loads at 0x7f3562704f40>.")
    given = cast("dict[str, object]", raw)
    rows = cast("list[list[int]]", given.get("num_speculative_tokens_per_batch_size") or [])
    by_batch = tuple((row[0], row[1], row[2]) for row in rows)
    tokens = given.get("num_speculative_tokens")
    model = given.get("model")
    return Speculation(
        method=str(given.get("method", "draft_model" if model else "")),
        model=None if model is None else str(model),
        tokens=int(tokens) if isinstance(tokens, int) else max((row[2] for row in by_batch), default=1),
        by_batch=by_batch,
        raw=given,
    )
