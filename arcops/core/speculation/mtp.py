"""Multi-token prediction: the checkpoint's own extra head drafts, run `num_tokens` times; there is no draft model."""

from arcops.core.speculation.base import DRAFT_KEYS, VERIFY_KEYS, Method

MTP = Method(name="mtp", keys=VERIFY_KEYS | DRAFT_KEYS)
