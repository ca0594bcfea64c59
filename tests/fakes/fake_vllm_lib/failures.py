"""Starts that fail: the stage, the process and the root-cause lines of real ones (vLLM 0.29), tracebacks shortened."""

from dataclasses import dataclass

from fake_vllm_lib.flags import METHODS, SPECULATION_KEYS, Flags
from fake_vllm_lib.log import Log

STAGES = ("arguments", "config", "engine", "weights", "kv_cache", "warmup", "server")
PLACES = {"EngineCore": "core.py:1374", "Worker": "multiproc_executor.py:944"}
NOT_CACHED = (
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
    "specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups and "
    "downloads online, pass 'local_files_only=False' as input."
)
FURTHER = "    For further information visit https://errors.pydantic.dev/2.14/v/"
NO_ROOM = (
    "ValueError: To serve at least one request with the model's max seq len (%d), (%s GiB KV cache is needed, which is "
    "larger than the available KV cache memory (%s GiB). Based on the available memory, the estimated maximum model "
    "length is %d. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
    "decreasing `max_model_len` when initializing the engine. See "
    "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)


@dataclass(frozen=True, slots=True)
class Failure:
    """How a start ends: where, in which process, with which root cause."""

    stage: str
    process: str
    """APIServer, EngineCore or Worker. A failure below the API server ends with `Engine core initialization failed`."""
    cause: str
    code: int = 1


def _invalid(kind: str, text: str, rule: str) -> str:
    return f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {kind}\n{text}\n{FURTHER}{rule}"


FAILURES = {
    "port_in_use": Failure("arguments", "APIServer", "OSError: [Errno 98] Address already in use"),
    "tool_parser": Failure(
        "arguments", "APIServer", "KeyError: 'invalid tool call parser: nosuch (chose from { hermes,qwen3_coder })'"
    ),
    "not_cached": Failure("config", "APIServer", NOT_CACHED),
    "unknown_arch": Failure(
        "config",
        "APIServer",
        _invalid(
            "ModelConfig",
            "  Value error, The checkpoint you are trying to load has model type `foo9` but Transformers does not "
            "recognize this architecture. This could be because of an issue with the checkpoint, or because your "
            "version of Transformers is out of date.",
            "value_error",
        ),
    ),
    "max_len": Failure(
        "config",
        "APIServer",
        _invalid(
            "ModelConfig",
            "  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len "
            "(max_position_embeddings=32768.0 or model_max_length=None in model's config.json). To allow overriding "
            "this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
            "value_error",
        ),
    ),
    "no_mtp_head": Failure("config", "APIServer", "NotImplementedError: Unsupported speculative method: 'mtp'"),
    "memory_taken": Failure(
        "engine",
        "EngineCore",
        "ValueError: Free memory on device cuda:0 (10.18/139.8 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 128.62 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes.",
    ),
    "oom": Failure(
        "weights",
        "EngineCore",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of "
        "139.80 GiB of which 57.56 MiB is free. Process 1924 has 134.75 GiB memory in use. Including non-PyTorch "
        "memory, this process has 4.98 GiB memory in use. Of the allocated memory 4.31 GiB is allocated by PyTorch, "
        "and 1.74 MiB is reserved by PyTorch but unallocated.",
    ),
    "corrupt_weights": Failure(
        "weights",
        "Worker",
        "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file "
        "not fully covered",
    ),
    "kv_too_small": Failure("kv_cache", "EngineCore", NO_ROOM % (32768, "0.03", "0.01", 8064)),
}


def from_flags(flags: Flags, config: dict[str, object] | None, draft_exists: bool) -> Failure | None:
    """What the real one would refuse about this model (its config.json; None for no such folder) and these flags."""
    if config is None:
        return _missing_model(flags.model)
    longest = config.get("max_position_embeddings")
    if isinstance(longest, int) and flags.max_model_len is not None and flags.max_model_len > longest:
        cause = FAILURES["max_len"].cause.replace("100000", str(flags.max_model_len)).replace("32768.0", f"{longest}.0")
        return Failure("config", "APIServer", cause)
    return _speculation(flags, config, draft_exists)


def _missing_model(model: str) -> Failure:
    if model.count("/") > 1 or model.startswith(("/", ".")):
        return Failure(
            "config",
            "APIServer",
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            f"'namespace/repo_name': '{model}'. Use `repo_type` argument if needed.",
        )
    return FAILURES["not_cached"]


def _speculation(flags: Flags, config: dict[str, object], draft_exists: bool) -> Failure | None:
    asked = flags.speculation
    if asked is None:
        return None

    def refused(text: str, rule: str) -> Failure:
        return Failure("config", "APIServer", _invalid("SpeculativeConfig", text, rule))

    for key, value in asked.raw.items():
        if key not in SPECULATION_KEYS:
            kind = type(value).__name__
            text = f"{key}\n  Unexpected keyword argument [type=unexpected_keyword_argument, input_value={value!r}, "
            return refused(f"{text}input_type={kind}]", "unexpected_keyword_argument")
    if asked.method not in METHODS:
        text = "method\n  Input should be 'ngram', 'medusa', 'draft_model', 'eagle', 'eagle3', 'mtp' or 'dflash' "
        return refused(f"{text}[type=literal_error, input_value={asked.method!r}, input_type=str]", "literal_error")
    if asked.method in ("mtp", "qwen3_5_mtp") and config and not config.get("mtp_num_hidden_layers"):
        return FAILURES["no_mtp_head"]
    if not draft_exists:
        return refused(
            f"  Value error, Invalid repository ID or local directory specified: '{asked.model}'.\n"
            "Please verify the following requirements:\n1. Provide a valid Hugging Face repository ID.\n"
            "2. Specify a local directory that contains a recognized configuration file.",
            "value_error",
        )
    return None


def report(failure: Failure, engine: Log, api: Log) -> None:
    """The log of this failure: the traceback's head, the root cause, and what the API server makes of it."""
    if failure.process == "APIServer":
        api.raw(
            'Traceback (most recent call last):\n  File "/opt/vllm/bin/vllm", line 8, in <module>\n    sys.exit(main())'
        )
        api.raw(failure.cause)
        return
    below = Log("Worker") if failure.process == "Worker" else engine
    place = PLACES[failure.process]
    below.line(place, f"{failure.process} failed to start.\nTraceback (most recent call last):", "ERROR")
    below.line(place, failure.cause, "ERROR")
    if failure.process == "Worker":
        engine.line(
            PLACES["EngineCore"],
            "EngineCore failed to start.\nException: WorkerProc initialization failed due to an exception in a "
            "background process. See stack trace for root cause.",
            "ERROR",
        )
    engine.raw(f"Process EngineCore:\nTraceback (most recent call last):\n{failure.cause}")
    api.raw(
        "Traceback (most recent call last):\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    )
