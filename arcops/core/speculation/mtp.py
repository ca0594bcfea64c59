"""Multi-token prediction: the checkpoint's own extra head drafts."""

from typing import TYPE_CHECKING

from arcops.core.speculation.base import (
    DRAFT_KEYS,
    REFUSED_REQUEST_PARAMETERS,
    VERIFY_KEYS,
    Fault,
    Json,
    speculative_config,
    verify_faults,
)

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


class Mtp:
    """The head is part of the target's checkpoint, so there is no draft model. One head is run `num_tokens` times."""

    name = "mtp"
    keys = VERIFY_KEYS | DRAFT_KEYS
    required = frozenset({"num_tokens"})
    forbids = REFUSED_REQUEST_PARAMETERS

    def faults(self, section: "Speculation") -> list[Fault]:
        return verify_faults(section)

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return speculative_config(section, None)
