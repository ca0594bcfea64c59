"""The table of known causes: what vLLM's words mean, and what to do about them.

A rule is tried in order on the text of the root cause (`root.find`). Its summary and hint may name groups of its
pattern. Sources: the failures of real vLLM 0.24 and 0.29 in tests/data/vllm-logs, the texts in vLLM's and PyTorch's
source, and public reports for Intel's cards.
"""

import re
from dataclasses import dataclass

from arcops.core.world import Cause


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` found in the root's text means `cause`."""

    cause: Cause
    pattern: re.Pattern[str]
    summary: str
    hint: str
    deterministic: bool = True
    """The same launch would fail the same way, whatever the machine does meanwhile."""


def _rule(cause: Cause, pattern: str, summary: str, hint: str, *, deterministic: bool = True) -> Rule:
    return Rule(cause, re.compile(pattern), summary, hint, deterministic)


_MEMORY_HINT = (
    "see who else holds memory of the card; else lower scheduling.max_model_len, scheduling.max_num_seqs or "
    "cache.gpu_memory_utilization"
)
_MODEL_HINT = "check model.path in the profile; nothing is downloaded while vLLM is offline"

RULES: tuple[Rule, ...] = (
    _rule(
        Cause.DEVICE_LOST,
        r"(?P<what>(?:UR|ZE|PI)_(?:RESULT_)?ERROR_DEVICE_LOST|CUDA error: (?:an illegal memory access|unspecified"
        r" launch failure|uncorrectable ECC error|misaligned address|launch timed out)|uncorrectable ECC"
        r"|fallen off the bus|\bXid\b|hipErrorIllegalAddress)",
        "the driver lost the device ({what})",
        "`journalctl -k` says whether the card was reset; if it happens again, reboot",
        deterministic=False,
    ),
    _rule(
        Cause.OUT_OF_MEMORY,
        r"Free memory on device (?P<device>\S{1,40}) \((?P<free>[\d.]{1,12})/(?P<total>[\d.]{1,12}) GiB\) on startup is"
        r" less than desired GPU memory utilization \((?P<share>[\d.]{1,12}), (?P<want>[\d.]{1,12}) GiB\)",
        "only {free} of {total} GiB of {device} are free, and vLLM wants {want} GiB",
        "see who else holds memory of the card; if that is to stay, lower cache.gpu_memory_utilization (now {share})",
        deterministic=False,
    ),
    _rule(
        Cause.OUT_OF_MEMORY,
        r"(?P<what>(?:CUDA|XPU|HIP|NPU) out of memory)(?:\. Tried to allocate (?P<size>[\d.]{1,12} \w{1,5}))?",
        "the card's memory is full ({what})",
        _MEMORY_HINT,
        deterministic=False,
    ),
    _rule(
        Cause.OUT_OF_MEMORY,
        r"(?P<what>OutOfMemoryError|(?:UR|ZE)_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY|OUT_OF_RESOURCES"
        r"|DefaultCPUAllocator: can't allocate memory|MemoryError|Cannot allocate memory)",
        "memory is full ({what})",
        _MEMORY_HINT,
        deterministic=False,
    ),
    _rule(
        Cause.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<asked>\d{1,12})\), \((?P<need>[\d.]{1,12}) GiB KV cache is needed, which is larger than the"
        r" available KV cache memory \((?P<have>[\d.]{1,12}) GiB\)"
        r"(?:[^\n]{0,200}?estimated maximum model length is (?P<fits>\d{1,12}))?",
        "a context of {asked} tokens needs {need} GiB of KV cache, and there are {have} GiB",
        "scheduling.max_model_len up to {fits} fits: set it, or give the cache more memory",
    ),
    _rule(
        Cause.KV_CACHE_TOO_SMALL,
        r"No available memory for the cache blocks",
        "no memory is left for the KV cache",
        "raise cache.gpu_memory_utilization, or end whatever else holds memory of the card",
        deterministic=False,
    ),
    _rule(
        Cause.PORT_TAKEN,
        r"\[Errno 98\]|[Aa]ddress already in use",
        "the port is taken",
        "`arcops status` names the listener; stop it, or set another server.port in the profile",
        deterministic=False,
    ),
    _rule(
        Cause.DRAFT_INCOMPATIBLE,
        r"Unsupported speculative method: '(?P<what>[^']{1,60})'",
        "the model has nothing for the speculative method {what} to work with",
        "mtp needs a checkpoint with an MTP head; set another speculation.method, or none",
    ),
    _rule(
        Cause.MODEL_NOT_FOUND,
        r"Invalid repository ID or local directory specified: '(?P<what>[^']{1,300})'",
        "there is no model at {what}",
        _MODEL_HINT,
    ),
    _rule(
        Cause.MODEL_NOT_FOUND,
        r"Repo id must be in the form[^:]{0,80}: '(?P<what>[^']{1,300})'",
        "there is no model at {what}",
        _MODEL_HINT,
    ),
    _rule(
        Cause.MODEL_NOT_FOUND,
        r"LocalEntryNotFoundError|RepositoryNotFoundError|HFValidationError|GatedRepoError|OfflineModeIsEnabled"
        r"|does not appear to have a file named|Cannot find any model weights|Can't load the configuration of"
        r"|No such file or directory: '[^']{0,300}(?:config\.json|\.safetensors)",
        "the model was not found, neither as a directory nor in the local cache",
        _MODEL_HINT,
    ),
    _rule(
        Cause.CORRUPT_WEIGHTS,
        r"SafetensorError|PytorchStreamReader failed|UnpicklingError|Error while deserializing header"
        r"|[Uu]nexpected EOF|checksum mismatch",
        "the weights cannot be read: a file is cut or damaged",
        "compare the files' sizes with their origin, and fetch the model again",
    ),
    _rule(
        Cause.CORRUPT_WEIGHTS,
        r"Following weights were not initialized from checkpoint: \{'(?P<what>[^']{1,120})'",
        "the checkpoint lacks weights that the model wants ({what} and perhaps more)",
        "fetch the model again; for one that came without its vision part, set model.language_model_only",
    ),
    _rule(
        Cause.CONTEXT_TOO_LONG,
        r"max_model_len \((?P<asked>\d{1,12})\) is greater than the derived max_model_len"
        r" \(\w{1,60}=(?P<fits>\d{1,12})",
        "a context of {asked} tokens is more than the model was made for ({fits})",
        "scheduling.max_model_len up to {fits} fits",
    ),
    _rule(
        Cause.UNKNOWN_FLAG,
        r"unrecognized arguments: (?P<what>[^\n]{1,200})",
        "this vLLM does not know {what}",
        "`vllm serve --help=all` lists what it knows; correct extra_args in the profile",
    ),
    _rule(
        Cause.UNKNOWN_FLAG,
        r"validation errors? for (?P<where>\w{1,60}) (?P<what>[\w.]{1,60})"
        r" (?:Unexpected keyword argument|Extra inputs)",
        "this vLLM does not know {what} in {where}",
        "correct the key in the profile",
    ),
    _rule(
        Cause.BAD_VALUE,
        r"validation errors? for (?P<where>\w{1,60}) (?P<key>[\w.]{1,60}) Input should be [^\[]{1,2000}\[type=\w{1,40},"
        r" input_value=(?P<what>[^,]{1,80}),",
        "{where} does not take {what} for {key}",
        "correct the value in the profile",
    ),
    _rule(
        Cause.BAD_VALUE,
        r"invalid tool call parser: (?P<what>[^\s(]{1,80})",
        "there is no tool call parser {what}",
        "correct parsers.tool_call in the profile",
    ),
    _rule(
        Cause.BAD_VALUE,
        r"argument (?P<where>\S{1,80}): (?P<what>[^\n]{1,200})",
        "{where}: {what}",
        "correct the value in the profile",
    ),
    _rule(
        Cause.UNSUPPORTED,
        r"Model architectures \[(?P<what>[^\]]{1,200})\] (?:are not supported|failed to be inspected)",
        "this vLLM does not support the architecture {what}",
        "use a newer vLLM, or another model",
    ),
    _rule(
        Cause.UNSUPPORTED,
        r"Unrecognized model in (?P<what>\S{1,200}?)\. ",
        "vLLM cannot tell what kind of model {what} is",
        "its config.json needs a model_type that this vLLM knows",
    ),
    _rule(
        Cause.BAD_VALUE,
        r"validation errors? for (?P<where>\w{1,60}) (?:Value error, )?(?P<what>[^\n]{1,200}?)(?: ?\[type=|$)",
        "{where} refuses a value: {what}",
        "correct the value in the profile",
    ),
    _rule(
        Cause.UNSUPPORTED,
        r"(?P<what>(?:NotImplementedError|ModuleNotFoundError|ImportError)[^\n]{0,200})",
        "this vLLM cannot do what was asked: {what}",
        "see whether `vllm --version` of the runtime works; change the profile or the runtime",
    ),
    _rule(
        Cause.UNSUPPORTED,
        r"(?P<what>[^\n]{0,160}(?:is|are) not (?:yet )?supported[^\n]{0,80}|no kernel image is available[^\n]{0,80})",
        "this vLLM cannot do what was asked: {what}",
        "change the profile, or the runtime",
    ),
)
"""Order matters: the special before the general."""

ANYWHERE: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.cause is Cause.DEVICE_LOST)
"""What also counts outside an exception: a native abort prints it and dies."""
