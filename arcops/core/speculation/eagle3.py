"""EAGLE-3: a head trained on hidden states of several of the target's layers; a checkpoint made for one target."""

from arcops.core.speculation.base import DRAFT_KEYS, DRAFT_MODEL_KEYS, VERIFY_KEYS, Method

EAGLE3 = Method(
    name="eagle3",
    keys=VERIFY_KEYS | DRAFT_KEYS | DRAFT_MODEL_KEYS | {"parallel_drafting"},
    required=frozenset({"model", "num_tokens"}),
)
