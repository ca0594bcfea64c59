"""Prompt lookup: the guess is what followed the same words earlier in the prompt. No network, no memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcops.core.speculation.base import VERIFY_KEYS, Method
from arcops.core.speculation.words import Fault

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


@dataclass(frozen=True, slots=True)
class _PromptLookup(Method):
    """Good where the answer quotes the prompt. vLLM needs the longest n-gram; the shortest is 1 unless set."""

    def faults(self, section: "Speculation") -> list[Fault]:
        faults = Method.faults(self, section)
        shortest, longest = section.prompt_lookup_min, section.prompt_lookup_max
        if shortest is not None and longest is not None and shortest > longest:
            faults.append(Fault("prompt_lookup_min", f"{shortest} is over prompt_lookup_max ({longest})"))
        return faults


NGRAM = _PromptLookup(
    name="ngram",
    keys=VERIFY_KEYS | {"prompt_lookup_min", "prompt_lookup_max"},
    required=frozenset({"num_tokens", "prompt_lookup_max"}),
)
