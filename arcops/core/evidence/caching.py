"""Is a cold run cold, and a cached one cached? By the server's own counters of hits, and by its answers' usage.

A hit is counted in tokens of a prompt, in whole blocks. Source: vLLM 0.29, v1/core/kv_cache_manager.py: the last
token of a prompt is always computed, so of n tokens at most the whole blocks of n - 1 can be hits; a server that drafts
with the target's hidden states (EAGLE, MTP) drops the last of these as well.
"""

from enum import Enum
from typing import Final

from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.run import Stage
from arcops.core.evidence.setting import ServerFacts

_BLOCK_SIZE: Final = "block_size"
"""The label of `vllm:cache_config_info`."""


class Caching(Enum):
    """What a stage means to measure."""

    COLD = "cold"
    CACHED = "cached"


def wanted(stage: Stage) -> Caching | None:
    """What the stage says that it is, by its name, or because its requests were never asked before; None where it does
    not matter. A warm pass need not be cached: a short prompt has no whole block."""
    if stage.name.startswith(Caching.CACHED.value):
        return Caching.CACHED
    if stage.name.startswith(Caching.COLD.value) or stage.warm is False:
        return Caching.COLD
    return None


def cold(stage: Stage) -> tuple[Verdict, str]:
    """Nothing of the stage's prompts was in the prefix cache."""
    counted, said = hits(stage), cached_tokens(stage)
    if counted:
        return Verdict.FAILED, f"not cold: {counted:,.0f} prompt tokens were hits of the prefix cache"
    warm = sum(one.cached_tokens or 0 for one in stage.requests)  # one that says so is enough
    if warm:
        return Verdict.FAILED, f"not cold: by the answers' usage {warm:,} prompt tokens were cached"
    if counted is None and said is None:
        return Verdict.UNKNOWN, "neither the server's counters nor its usage say what was cached"
    by = " and ".join(
        name for name, value in (("the server's counters", counted), ("its usage", said)) if value is not None
    )
    return Verdict.PASSED, f"no hit of the prefix cache, by {by}"


def cached(stage: Stage, server: ServerFacts) -> tuple[Verdict, str]:
    """All whole blocks of the stage's prompts were in the prefix cache."""
    counted, said = hits(stage), cached_tokens(stage)
    known = [value for value in (counted, said) if value is not None]
    if not known:
        return Verdict.UNKNOWN, "neither the server's counters nor its usage say what was cached"
    block, prompts = _block_size(server), [one.prompt_tokens for one in stage.requests]
    asked = [tokens for tokens in prompts if tokens is not None and tokens > 0]
    if block is None or len(asked) != len(prompts) or not asked:
        return Verdict.UNKNOWN, f"{min(known):,.0f} tokens were hits; of how many whole blocks is not known"
    # None is unknown: whoever may draft may drop a block.
    dropped = 0 if server.speculates is False else block
    least = sum(max(0, (tokens - 1) // block * block - dropped) for tokens in asked)
    words = f"{min(known):,.0f} of {sum(asked):,} prompt tokens were hits, in blocks of {block:,}"
    if min(known) < least:
        return Verdict.FAILED, f"not cached: {words}; all whole blocks are {least:,}"
    if least <= 0:
        return Verdict.UNKNOWN, f"{words}: the prompts are no longer than a block"
    return Verdict.PASSED, words


def hits(stage: Stage) -> float | None:
    """Prompt tokens that the server found in its prefix cache while the stage went on; None where it does not say, or
    is another server since."""
    before, after = stage.before, stage.after
    if before.prefix_hits is None or after.prefix_hits is None or before.server_started != after.server_started:
        return None
    found = after.prefix_hits - before.prefix_hits
    return None if found < 0 else found


def cached_tokens(stage: Stage) -> int | None:
    """Prompt tokens that the answers' usage calls cached; None as soon as one of them does not say."""
    said = [one.cached_tokens for one in stage.requests]
    known = [value for value in said if value is not None]
    return sum(known) if known and len(known) == len(said) else None


def _block_size(server: ServerFacts) -> int | None:
    said = (server.cache or {}).get(_BLOCK_SIZE, "")
    return int(said) if said.isascii() and said.isdigit() and 0 < int(said) < 1 << 24 else None
