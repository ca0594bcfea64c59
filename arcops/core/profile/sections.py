"""The sections of a profile. Where a key is not set (None), vLLM's own default holds."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from arcops.core.profile.units import Duration, Size
from arcops.core.speculation.schema import Section, setting

_CARD = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_CARDS_MEANT = "cards are a number from 0 to 16, or a list of different PCI addresses like 0000:03:00.0"
_ADDRESSES_MEANT = "cards are a list of different PCI addresses like 0000:03:00.0; a profile says how many it needs"


def _value(value: object) -> object:
    """YAML reads `NAME: 0` as a number; an environment holds text. A truth value, with no one spelling, is refused."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _cards(value: object) -> int | tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 16:
        return value
    addresses = _distinct(value)
    if not addresses:
        raise ValueError(_CARDS_MEANT)
    return tuple(sorted(addresses))


def _addresses(value: object) -> tuple[str, ...]:
    addresses = _distinct(value)
    if addresses is None:
        raise ValueError(_ADDRESSES_MEANT)
    return addresses


def _distinct(value: object) -> tuple[str, ...] | None:
    """Different PCI addresses in the order in which they were written; None for anything else."""
    if not isinstance(value, list | tuple):
        return None
    items = cast("Sequence[object]", value)
    addresses = tuple(item.lower() for item in items if isinstance(item, str) and _CARD.fullmatch(item.lower()))
    return addresses if len(set(addresses)) == len(items) else None


Cards: TypeAlias = Annotated[
    int | tuple[str, ...],
    PlainValidator(_cards),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 16},
                {"type": "array", "items": {"type": "string", "pattern": f"^{_CARD.pattern}$"}, "minItems": 1},
            ]
        }
    ),
]
"""How many cards, or their PCI addresses, sorted."""

Addresses: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(_addresses),
    WithJsonSchema({"type": "array", "items": {"type": "string", "pattern": f"^{_CARD.pattern}$"}}),
]
"""PCI addresses in the order in which they were written: the first are taken first."""

Variable: TypeAlias = Annotated[str, Field(pattern=_VARIABLE)]
Value: TypeAlias = Annotated[str, BeforeValidator(_value), WithJsonSchema({"type": ["string", "integer"]})]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
CaptureSize: TypeAlias = Annotated[int, Field(ge=1)]


class Runtime(Section):
    """The vLLM that is started: an environment of its own, known by its executable."""

    vllm: str | None = setting(
        "The vllm executable, absolute or from ~; site.yaml's unless set.",
        example="/opt/vllm-xpu/bin/vllm",
        min_length=1,
    )
    setup: str | None = setting(
        "A shell script that is sourced once before a launch; its environment is used. site.yaml's unless set.",
        example="/opt/intel/oneapi/setvars.sh",
        min_length=1,
    )
    env: dict[Variable, Value] = Field(
        default_factory=dict,
        description="Environment variables of the backend, over those of the setup script. Which cards it sees is "
        "said by device.cards, never here.",
        examples=[{"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}],
    )


class Device(Section):
    """What the model runs on. Every card is locked for as long as the backend lives."""

    kind: Literal["xpu", "cuda", "cpu"] = Field(description="Intel GPU, NVIDIA GPU or CPU.", examples=["xpu"])
    cards: Cards | None = setting(
        "How many of site.yaml's cards, or PCI addresses; 1 unless set, none on the CPU.", example=["0000:03:00.0"]
    )
    allow_holders: tuple[Text, ...] = setting(
        "Commands (comm) that may hold memory of a card beside the backend.", default=(), example=["gnome-shell"]
    )
    allow_memory: Size = setting(
        "Memory of each card that all others may hold together; also how much more than when idle may be in use there "
        "without a name (256MiB at least).",
        default=64 << 20,
        example="1GiB",
    )


class Model(Section):
    """The target's checkpoint."""

    path: str = Field(
        min_length=1,
        description="A directory (absolute, from ~, or below site.yaml's models_dir), or ORG/NAME below models_dir or "
        "in the Hugging Face cache. Nothing is ever downloaded.",
        examples=["amd/Qwen3.6-35B-A3B-w4a16-llmcompressor"],
    )
    served_name: str | None = setting(
        "What /v1/models calls it; the last part of the path unless set.",
        example="qwen-int4",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$",
    )
    revision: str | None = setting(
        "Which snapshot of the Hugging Face cache: a branch, a tag or a commit; main unless set.",
        example="main",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$",
    )
    tokenizer: str | None = setting("Another tokenizer's directory.", example="/opt/models/tokenizer", min_length=1)
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = setting(
        "Type of activations and of weights that are not quantized.", example="bfloat16"
    )
    quantization: str | None = setting(
        "How the weights are quantized; read from the checkpoint unless set.",
        example="compressed-tensors",
        min_length=1,
    )
    language_model_only: bool | None = setting("Leave the vision and audio parts out.", example=True)
    load_format: str | None = setting("How weights are read.", example="safetensors", min_length=1)
    trust_remote_code: bool | None = setting("Run Python code that the checkpoint brings.", example=False)


class Server(Section):
    """Where the OpenAI-compatible API listens."""

    host: str = setting(
        "The address to bind; other than loopback only with expose and api_key_file.",
        default="127.0.0.1",
        example="127.0.0.1",
        pattern=r"^[A-Za-z0-9.:%_-]+$",
    )
    port: int = setting("The TCP port.", default=8000, example=8000, ge=1, le=65535)
    expose: bool = setting("The API shall be reachable from other machines.", default=False, example=False)
    api_key_file: str | None = setting(
        "A file whose first line is the API key, absolute or from ~.", example="~/.config/arcops/api-key", min_length=1
    )


class Scheduling(Section):
    """How requests share the model."""

    max_model_len: int | None = setting(
        "The longest context, input and output together.", example=262144, unit="tokens", ge=1
    )
    max_num_seqs: int | None = setting("How many sequences run at once.", example=1, unit="sequences", ge=1)
    max_num_batched_tokens: int | None = setting(
        "The most tokens of one step, and so the size of a prefill chunk.", example=8192, unit="tokens", ge=1
    )
    async_scheduling: bool | None = setting("Prepare the next step while this one runs.", example=True)


CacheType: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]


class Cache(Section):
    """The KV cache of attention layers, and the state cache of recurrent ones."""

    block_size: int | None = setting("Tokens of one attention block.", example=64, unit="tokens", ge=1)
    kv_cache_memory: Size | None = setting(
        "A fixed pool on each card; overrides gpu_memory_utilization.", example="6.5GiB", unit="bytes"
    )
    gpu_memory_utilization: float | None = setting(
        "The share of a card's memory that vLLM may use in all.", example=0.92, gt=0, le=1
    )
    kv_cache_dtype: str | None = setting("Type of the target's KV cache.", example="auto", min_length=1)
    mamba_cache_dtype: CacheType | None = setting("Type of the recurrent layers' caches.", example="float16")
    mamba_ssm_cache_dtype: CacheType | None = setting(
        "Type of the recurrent state alone; mamba_cache_dtype unless set.", example="float16"
    )
    mamba_cache_mode: Literal["none", "align", "all"] | None = setting(
        "Which recurrent states are kept for prefix caching.", example="align"
    )
    prefix_caching: bool | None = setting("Reuse the cache of a prompt's known beginning.", example=True)


class Compilation(Section):
    """Graphs and compilation."""

    enforce_eager: bool | None = setting("No graphs and no compilation.", example=False)
    cudagraph_mode: Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"] | None = setting(
        "Which steps run as captured graphs (on Intel's cards too).", example="FULL_DECODE_ONLY"
    )
    capture_sizes: tuple[CaptureSize, ...] | None = setting(
        "The batch sizes that graphs are captured for.", example=[1, 2, 4, 8], unit="tokens", min_length=1
    )


class Parallel(Section):
    """How the model is spread."""

    tensor_parallel_size: int | None = setting(
        "Over how many cards each layer is split; all of device.cards unless set.", example=2, unit="cards", ge=1
    )


class Parsers(Section):
    """How generated text becomes the API's fields."""

    reasoning: str | None = setting("The reasoning parser.", example="qwen3", min_length=1)
    tool_call: str | None = setting(
        "The tool call parser; switches automatic tool choice on.", example="qwen3_coder", min_length=1
    )


class LimitsSection(Section):
    """How long things may take."""

    start_stall: Duration = setting(
        "A start without any progress for this long has stalled.", default=600.0, example="10m", unit="seconds"
    )
    drain: Duration = setting(
        "How long open requests may go on when the backend is to stop.", default=60.0, example="60s", unit="seconds"
    )
    shutdown_timeout: Duration | None = setting(
        "vLLM's own last part of the drain, in whole seconds; 5, or the drain if that is shorter, unless set.",
        example="5s",
        unit="seconds",
    )
    stop_grace: Duration = setting("From the first SIGTERM to the kill.", default=60.0, example="60s", unit="seconds")
    clear: Duration = setting(
        "How long port and memory may take to come back.", default=60.0, example="60s", unit="seconds"
    )
    stall_after: Duration = setting(
        "Work in flight and no progress for this long is suspect.", default=60.0, example="60s", unit="seconds"
    )
    probe: Duration = setting("How long the first answer may take.", default=120.0, example="2m", unit="seconds")


class RestartSection(Section):
    """When a failed backend is started again."""

    first_delay: Duration = setting("The first waiting time.", default=2.0, example="2s", unit="seconds")
    factor: float = setting("By how much each waiting time is longer.", default=2.0, example=2.0, ge=1, le=10)
    longest_delay: Duration = setting("The longest waiting time.", default=300.0, example="5m", unit="seconds")
    per_hour: int = setting(
        "More failures than this within an hour, and nothing is tried again.", default=6, example=6, ge=0, le=60
    )


class KnownAnswerSection(Section):
    """A question whose greedy answer is known: exactly one of equals and contains says which."""

    prompt: str = Field(
        min_length=1, description="What is asked (/v1/completions, temperature 0).", examples=["1, 2, 3, 4, 5,"]
    )
    equals: str | None = setting(
        "The whole answer, white space around it aside.", example="6, 7, 8, 9, 10,", pattern=r"\S"
    )
    contains: str | None = setting("What must stand somewhere in the answer.", example="6, 7, 8", pattern=r"\S")
    max_tokens: int = setting("The most tokens of the answer.", default=16, example=16, unit="tokens", ge=1, le=256)


class ChecksSection(Section):
    """What a backend must show before it is called serving, and what is watched while it serves."""

    first_answer: bool = setting("Ask for one token, and get it.", default=True, example=True)
    idle_probe: Duration = setting(
        "A backend without requests is asked for a token after so long; 0 for never.",
        default=300.0,
        example="5m",
        unit="seconds",
    )
    known_answer: KnownAnswerSection | None = setting(
        "What is asked instead of one token. A start with a wrong answer fails; while it serves one is told."
    )
    degenerate: bool = setting(
        "Ask for 16 tokens, and take one token over and over for a fault; always so with a known answer.",
        default=False,
        example=False,
    )
    acceptance_floor: float | None = setting(
        "With speculation: a lower share of accepted draft tokens is told; 0 to 1.", example=0.05, ge=0, le=1
    )


class QualifyingChatSection(Section):
    """A question for the chat that this profile's model must get right."""

    prompt: str = Field(
        description="What is asked (/v1/chat/completions, temperature 0).",
        pattern=r"\S",
        examples=["What is the capital of France? One word."],
    )
    expect: str = Field(description="What must stand somewhere in the answer.", pattern=r"\S", examples=["Paris"])


class QualificationSection(Section):
    """What `arcops qualify` asks of this profile, beside what it asks of every one. No launch depends on it."""

    chat: QualifyingChatSection | None = setting("A question of this profile's own, in place of the gate's.")
    long_tokens: int | None = setting(
        "The length of the long request's prompt; the gate chooses unless set.",
        example=32768,
        unit="tokens",
        ge=1,
        le=16_777_216,
    )
    headroom_mib: int | None = setting(
        "Memory of each card that must be left over when all else is done.",
        example=512,
        unit="MiB",
        ge=0,
        le=16_777_216,
    )
    tools: bool = setting("Ask for tool calls.", default=True, example=True)
    image: str | None = setting(
        "A picture to ask about, absolute or from ~.", example="~/pictures/red-square.png", pattern=r"^[/~]"
    )
