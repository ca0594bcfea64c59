"""Which key of a profile is which flag of `vllm serve` (0.29), in the order in which they are written."""

import re
from dataclasses import dataclass
from enum import Enum

from arcops.core.affinity import AFFINITY


class Form(Enum):
    """How a flag is written."""

    VALUE = "--flag VALUE"
    EITHER = "--flag, or --no-flag for false"


@dataclass(frozen=True, slots=True)
class Flag:
    """One key and its flag."""

    key: str
    """`section.key`."""
    name: str
    form: Form = Form.VALUE


SERVER_FLAGS: tuple[Flag, ...] = (
    Flag("model.tokenizer", "--tokenizer"),
    Flag("model.dtype", "--dtype"),
    Flag("model.quantization", "--quantization"),
    Flag("model.language_model_only", "--language-model-only", Form.EITHER),
    Flag("model.load_format", "--load-format"),
    Flag("model.trust_remote_code", "--trust-remote-code", Form.EITHER),
    Flag("scheduling.max_model_len", "--max-model-len"),
    Flag("scheduling.max_num_seqs", "--max-num-seqs"),
    Flag("scheduling.max_num_batched_tokens", "--max-num-batched-tokens"),
    Flag("scheduling.async_scheduling", "--async-scheduling", Form.EITHER),
    Flag("cache.block_size", "--block-size"),
    Flag("cache.kv_cache_memory", "--kv-cache-memory-bytes"),
    Flag("cache.gpu_memory_utilization", "--gpu-memory-utilization"),
    Flag("cache.kv_cache_dtype", "--kv-cache-dtype"),
    Flag("cache.mamba_cache_dtype", "--mamba-cache-dtype"),
    Flag("cache.mamba_ssm_cache_dtype", "--mamba-ssm-cache-dtype"),
    Flag("cache.mamba_cache_mode", "--mamba-cache-mode"),
    Flag("cache.prefix_caching", "--enable-prefix-caching", Form.EITHER),
    Flag("compilation.enforce_eager", "--enforce-eager", Form.EITHER),
    Flag("parsers.reasoning", "--reasoning-parser"),
    Flag("parsers.tool_call", "--tool-call-parser"),
)
"""The keys whose value is the flag's value. What needs more thought is in core/launch.py."""

_OWNERS: dict[str, str] = {
    **{flag.name: flag.key for flag in SERVER_FLAGS},
    "--model": "model.path",
    "--served-model-name": "model.served_name",
    "--revision": "model.revision",
    "-q": "model.quantization",
    "--host": "server.host",
    "--port": "server.port",
    "--uds": "server.host",
    "--api-key": "server.api_key_file",
    "--tensor-parallel-size": "parallel.tensor_parallel_size",
    "-tp": "parallel.tensor_parallel_size",
    "--device-ids": "device.cards",
    "--compilation-config": "compilation.cudagraph_mode and compilation.capture_sizes",
    "-cc": "compilation.cudagraph_mode and compilation.capture_sizes",
    "--cudagraph-capture-sizes": "compilation.capture_sizes",
    "--max-cudagraph-capture-size": "compilation.capture_sizes",
    "--enable-auto-tool-choice": "parsers.tool_call",
    "--speculative-config": "speculation",
    "-sc": "speculation",
    "--spec-method": "speculation.method",
    "--spec-model": "speculation.model",
    "--spec-tokens": "speculation.num_tokens",
    "--shutdown-timeout": "limits.shutdown_timeout",
}
"""Every spelling of a flag that a key of the profile stands for."""

_MORE_CARDS = (
    "it would take cards that are not locked; a backend is spread over device.cards by tensor parallelism only"
)
_MORE_MACHINES = "a backend runs on one machine, under one supervisor"

_FORBIDDEN: dict[str, str] = {
    # vLLM starts tensor x pipeline x prefill-context x data workers (its ParallelConfig.world_size). The decode context
    # is split over the tensor's workers, and is free.
    **dict.fromkeys(
        ("--pipeline-parallel-size", "-pp", "--prefill-context-parallel-size", "-pcp", "--enable-elastic-ep"),
        _MORE_CARDS,
    ),
    **dict.fromkeys(
        ("--data-parallel-size", "-dp", "-dpa", "-dpb", "-dpe", "-dph", "-dpl", "-dpm", "-dpn", "-dpp", "-dpr"),
        _MORE_CARDS,
    ),
    **dict.fromkeys(
        ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless"), _MORE_MACHINES
    ),
    "--distributed-executor-backend": "workers of another executor could run where arcops cannot see them",
    "--api-server-count": "arcops watches one API server",
    "-asc": "arcops watches one API server",
    "--help": "vllm would print its help and end",
    "-h": "vllm would print its help and end",
    "--config": "it could set anything; write the settings into the profile",
    "--hf-token": "a secret does not belong on a command line; put it where the runtime's environment finds it",
    "--disable-access-log-for-endpoints": "arcops sets it, for the paths that it asks",
}

_FAMILIES: dict[str, str] = {"--data-parallel-": _MORE_CARDS}
"""Beginnings that stand for every flag that has them."""

_VARIABLES: dict[str, str] = {
    **dict.fromkeys(
        (name for variables in AFFINITY.values() for name in variables),
        "arcops sets it from the cards that it locks; set device.cards instead",
    ),
    "VLLM_API_KEY": "a secret does not belong in a profile; set server.api_key_file instead",
}
"""Variables that a profile may not set."""

_ONE_LETTER = re.compile(r"-[qnrh]")
_NUMBER = re.compile(r"-[0-9.]")


def objection(argument: str) -> str | None:
    """Why `argument` may not stand in `extra_args`; None if it may.

    vLLM takes `--flag`, `--flag=value`, `--no-flag`, `--some_flag`, `--flag.json.key`, `-n2` and any unambiguous
    beginning of a flag, with one dash or two (argparse's abbreviations); all of them are the same flag here.
    """
    if not argument.startswith("-") or _NUMBER.match(argument):
        return None
    name = re.split(r"[=.]", argument, maxsplit=1)[0]
    if name in ("-", "--"):
        return "it ends the flags; nothing may follow them"
    if name.startswith("--"):
        name = name.replace("_", "-")
    elif _ONE_LETTER.match(name):
        name = name[:2]
    for spelling in (name, name.replace("--no-", "--", 1)):
        for flag, key in _OWNERS.items():
            if _means(spelling, flag):
                return f"is what {key} stands for; set that instead"
        for flag, reason in _FORBIDDEN.items():
            if _means(spelling, flag):
                return reason
        for beginning, reason in _FAMILIES.items():
            if spelling.startswith(beginning):
                return reason
    return None


def variable_objection(name: str) -> str | None:
    """Why the variable `name` may not stand in `runtime.env`; None if it may."""
    if name.startswith("VLLM_DP_"):  # what --data-parallel-size and its relatives are read from where they are not set
        return _MORE_CARDS
    return _VARIABLES.get(name)


def _means(spelling: str, flag: str) -> bool:
    """Whether `spelling` is `flag`, or a beginning of it with as many dashes."""
    return spelling == flag or (flag.startswith(spelling) and flag.startswith("--") == spelling.startswith("--"))
