"""A smaller model of the same vocabulary drafts token by token: a complete model with a KV cache of its own."""

from arcops.core.speculation.base import DRAFT_KEYS, DRAFT_MODEL_KEYS, VERIFY_KEYS, Method

DRAFT_MODEL = Method(
    name="draft_model",
    keys=VERIFY_KEYS | DRAFT_KEYS | DRAFT_MODEL_KEYS | {"parallel_drafting"},
    required=frozenset({"model", "num_tokens"}),
)
