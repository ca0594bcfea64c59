"""Prompt lookup: the guess is what followed the same words earlier in the prompt. No network, no memory."""

from typing import TYPE_CHECKING

from arcops.core.speculation.base import (
    REFUSED_REQUEST_PARAMETERS,
    VERIFY_KEYS,
    Fault,
    Json,
    speculative_config,
    verify_faults,
)

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


class Ngram:
    """Good where the answer quotes the prompt. vLLM needs the longest n-gram; the shortest is 1 unless set."""

    name = "ngram"
    keys = VERIFY_KEYS | {"prompt_lookup_min", "prompt_lookup_max"}
    required = frozenset({"num_tokens", "prompt_lookup_max"})
    forbids = REFUSED_REQUEST_PARAMETERS

    def faults(self, section: "Speculation") -> list[Fault]:
        faults = verify_faults(section)
        shortest, longest = section.prompt_lookup_min, section.prompt_lookup_max
        if shortest is not None and longest is not None and shortest > longest:
            faults.append(Fault("prompt_lookup_min", f"{shortest} is over prompt_lookup_max ({longest})"))
        return faults

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return speculative_config(section, draft)
