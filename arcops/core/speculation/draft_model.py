"""A smaller model of the same vocabulary drafts token by token."""

from typing import TYPE_CHECKING

from arcops.core.speculation.base import (
    DRAFT_KEYS,
    DRAFT_MODEL_KEYS,
    REFUSED_REQUEST_PARAMETERS,
    VERIFY_KEYS,
    Fault,
    Json,
    speculative_config,
    verify_faults,
)

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


class DraftModel:
    """The classic form: the draft is a complete language model with a KV cache of its own."""

    name = "draft_model"
    keys = VERIFY_KEYS | DRAFT_KEYS | DRAFT_MODEL_KEYS | {"parallel_drafting"}
    required = frozenset({"model", "num_tokens"})
    forbids = REFUSED_REQUEST_PARAMETERS

    def faults(self, section: "Speculation") -> list[Fault]:
        return verify_faults(section)

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return speculative_config(section, draft)
