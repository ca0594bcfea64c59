"""DFlash and DFlash2: a small draft that proposes a block of tokens from the target's hidden states."""

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


class Dflash:
    """vLLM calls both `dflash` and tells them apart by the draft's architecture (DFlash2 since vLLM 0.28)."""

    name = "dflash"
    keys = VERIFY_KEYS | DRAFT_KEYS | DRAFT_MODEL_KEYS
    required = frozenset({"model", "num_tokens"})
    forbids = REFUSED_REQUEST_PARAMETERS

    def faults(self, section: "Speculation") -> list[Fault]:
        return verify_faults(section)

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return speculative_config(section, draft)
