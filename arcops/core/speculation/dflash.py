"""DFlash and DFlash2: a small draft that proposes a block of tokens from the target's hidden states.

vLLM calls both `dflash` and tells them apart by the draft's architecture (DFlash2 since vLLM 0.28).
"""

from arcops.core.speculation.base import DRAFT_KEYS, DRAFT_MODEL_KEYS, VERIFY_KEYS, Method

DFLASH = Method(
    name="dflash",
    keys=VERIFY_KEYS | DRAFT_KEYS | DRAFT_MODEL_KEYS,
    required=frozenset({"model", "num_tokens"}),
)
