"""What a speculative method is, and what most methods share.

The keys of `--speculative-config` are those of vLLM 0.29's `SpeculativeConfig`; the limits on them are its own checks,
made here so that a wrong profile is refused before a backend is stopped for it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from arcops.core.speculation.words import Fault, Json

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation

REFUSED_REQUEST_PARAMETERS = frozenset({"min_p", "logit_bias"})
"""vLLM 0.29 refuses them with any speculation (`SamplingParams._validate_spec_decode`)."""

VERIFY_KEYS = frozenset(
    {
        "num_tokens",
        "schedule",
        "rejection_sample_method",
        "synthetic_acceptance_length",
        "synthetic_acceptance_rates",
    }
)
"""Settings of the verification, the same for every method that guesses."""

DRAFT_KEYS = frozenset({"draft_sample_method", "kv_cache_dtype", "attention_backend", "enforce_eager"})
"""Settings of a draft that is a network."""

DRAFT_MODEL_KEYS = frozenset({"model", "quantization", "max_model_len", "draft_tensor_parallel_size"})
"""Settings of a draft that has a checkpoint of its own."""

_VLLM_NAMES: tuple[tuple[str, str], ...] = (
    ("num_tokens", "num_speculative_tokens"),
    ("schedule", "num_speculative_tokens_per_batch_size"),
    ("kv_cache_dtype", "kv_cache_dtype"),
    ("attention_backend", "attention_backend"),
    ("quantization", "quantization"),
    ("max_model_len", "max_model_len"),
    ("draft_tensor_parallel_size", "draft_tensor_parallel_size"),
    ("enforce_eager", "enforce_eager"),
    ("parallel_drafting", "parallel_drafting"),
    ("prompt_lookup_min", "prompt_lookup_min"),
    ("prompt_lookup_max", "prompt_lookup_max"),
    ("draft_sample_method", "draft_sample_method"),
    ("rejection_sample_method", "rejection_sample_method"),
    ("synthetic_acceptance_length", "synthetic_acceptance_length"),
    ("synthetic_acceptance_rates", "synthetic_acceptance_rates"),
)
"""Our key and vLLM's, in the order in which they are written."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to speculate. Most differ only in which settings mean something to them."""

    name: str
    """As the profile's `speculation.method` and vLLM's `method` call it."""
    keys: frozenset[str]
    """Settings of the section that mean something to this method, `method` excepted."""
    required: frozenset[str] = frozenset({"num_tokens"})
    """Settings that it cannot do without."""
    forbids: frozenset[str] = REFUSED_REQUEST_PARAMETERS
    """Request parameters that vLLM refuses while this method runs."""

    def faults(self, section: "Speculation") -> list[Fault]:
        """What is wrong beyond missing and meaningless settings."""
        return [*_schedule_faults(section), *_synthetic_faults(section)]

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        """The value of `--speculative-config`, None for none: our settings under vLLM's names, in a fixed order."""
        config: dict[str, Json] = {"method": section.method}
        if draft is not None:
            config["model"] = draft
        settings = section.settings()
        config.update({theirs: settings[ours] for ours, theirs in _VLLM_NAMES if ours in settings})
        return config


def settings_faults(section: "Speculation", method: Method) -> list[Fault]:
    """Settings that the method needs and does not have, or has and cannot use."""
    made = section.settings()
    missing = [
        Fault(key, f"the method {method.name} needs it") for key in sorted(method.required) if made.get(key) is None
    ]
    useless = [
        Fault(key, f"means nothing to the method {method.name}; remove it, or set it to null to drop an inherited one")
        for key in made
        if key not in method.keys
    ]
    return missing + useless


def _schedule_faults(section: "Speculation") -> list[Fault]:
    faults: list[Fault] = []
    expected = 1
    for index, (first, last, depth) in enumerate(section.schedule or ()):
        key = f"schedule.{index}"
        if first != expected:
            faults.append(Fault(key, f"starts at {first} sequences, and the ranges before it end at {expected - 1}"))
        if last < first:
            faults.append(Fault(key, f"ends at {last} sequences, before its start at {first}"))
        if section.num_tokens is not None and depth > section.num_tokens:
            faults.append(Fault(key, f"its depth {depth} is over num_tokens ({section.num_tokens})"))
        expected = max(first, last) + 1
    return faults


def _synthetic_faults(section: "Speculation") -> list[Fault]:
    length, rates, tokens = section.synthetic_acceptance_length, section.synthetic_acceptance_rates, section.num_tokens
    synthetic = section.rejection_sample_method == "synthetic"
    if synthetic and (length is None) == (rates is None):
        return [
            Fault(
                "rejection_sample_method",
                "synthetic needs exactly one of synthetic_acceptance_length and synthetic_acceptance_rates",
            )
        ]
    faults: list[Fault] = []
    if not synthetic:
        for key, value in (("synthetic_acceptance_length", length), ("synthetic_acceptance_rates", rates)):
            if value is not None:
                faults.append(Fault(key, "needs rejection_sample_method: synthetic"))
    if length is not None and tokens is not None and length > tokens + 1:
        faults.append(Fault("synthetic_acceptance_length", f"{length:g} is over num_tokens + 1 ({tokens + 1})"))
    if rates is not None:
        if tokens is not None and len(rates) != tokens:
            faults.append(Fault("synthetic_acceptance_rates", f"has {len(rates)} entries, num_tokens is {tokens}"))
        if any(later > earlier for earlier, later in pairwise(rates)):
            faults.append(Fault("synthetic_acceptance_rates", "may not rise from one position to the next"))
    return faults
