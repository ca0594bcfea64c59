"""What a command line of `vllm serve` asks for, as far as memory goes: the flags themselves, whoever wrote them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

from arcops.core.budget.model import ShapeError

UTILISATION: Final = 0.92
"""vLLM 0.29's own gpu_memory_utilization."""
_MOST: Final = 1000
"""No number of drafted tokens or of cards is as large."""
_SHORT: Final = {"-tp": "--tensor-parallel-size", "-sc": "--speculative-config"}


@dataclass(frozen=True, slots=True)
class Drafting:
    """How it speculates."""

    method: str
    tokens: int
    draft: str | None
    """The draft's checkpoint."""
    cache_dtype: str | None
    """Of the draft's cache; the target's unless set."""
    ranks: int | None
    """Over how many cards the draft is spread; the target's unless set."""
    accepted: float | None
    """Mean accepted length that synthetic verification aims at."""


@dataclass(frozen=True, slots=True)
class Wants:
    """The settings that memory depends on; None is vLLM's own default."""

    model: str
    context: int | None = None
    sequences: int | None = None
    batched: int | None = None
    asynchronous: bool | None = None
    block: int | None = None
    pool: int | None = None
    utilisation: float = UTILISATION
    dtype: str | None = None
    cache_dtype: str = "auto"
    state_dtype: str = "auto"
    ssm_dtype: str = "auto"
    mode: str | None = None
    prefix_caching: bool | None = None
    ranks: int = 1
    text_only: bool = False
    eager: bool = False
    drafting: Drafting | None = None


def wants_of(argv: Sequence[str]) -> Wants:
    """What `vllm serve MODEL ...` asks for; the last of several flags counts.

    Raises ShapeError for a value that cannot be one. Flags that memory does not depend on are not looked at.
    """
    flags = dict(_flags(argv))
    return Wants(
        model=argv[2] if len(argv) > 2 else "",
        context=_whole(flags, "--max-model-len"),
        sequences=_whole(flags, "--max-num-seqs"),
        batched=_whole(flags, "--max-num-batched-tokens"),
        asynchronous=_either(flags, "async-scheduling"),
        block=_whole(flags, "--block-size"),
        pool=_whole(flags, "--kv-cache-memory-bytes"),
        utilisation=_share(flags, "--gpu-memory-utilization"),
        dtype=_word(flags, "--dtype"),
        cache_dtype=_word(flags, "--kv-cache-dtype") or "auto",
        state_dtype=_word(flags, "--mamba-cache-dtype") or "auto",
        ssm_dtype=_word(flags, "--mamba-ssm-cache-dtype") or "auto",
        mode=_word(flags, "--mamba-cache-mode"),
        prefix_caching=_either(flags, "enable-prefix-caching"),
        ranks=_whole(flags, "--tensor-parallel-size") or 1,
        text_only=_either(flags, "language-model-only") is True,
        eager=_either(flags, "enforce-eager") is True,
        drafting=_drafting(flags.get("--speculative-config")),
    )


def _flags(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in pairwise((*argv, "")):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            yield _SHORT.get(name, name.replace("_", "-")), value if equals else following


def _word(flags: dict[str, str], name: str) -> str | None:
    return flags.get(name)


def _whole(flags: dict[str, str], name: str) -> int | None:
    value = flags.get(name)
    if value is None:
        return None
    if not value.isdecimal() or len(value) > 18:
        raise ShapeError(f"{name} {value[:40]!r} is not a whole number that the plan can count with")
    return int(value)


def _share(flags: dict[str, str], name: str) -> float:
    value = flags.get(name)
    try:
        share = UTILISATION if value is None else float(value)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ShapeError(f"{name} {str(value)[:40]!r} is not a share between 0 and 1")
    return share


def _either(flags: dict[str, str], name: str) -> bool | None:
    """The later of the two spellings cannot be told from a table: one that is written both ways is taken for false."""
    if f"--no-{name}" in flags:
        return False
    return True if f"--{name}" in flags else None


def _drafting(text: str | None) -> Drafting | None:
    if text is None:
        return None
    try:
        said: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ShapeError("--speculative-config is no JSON") from error
    if not isinstance(said, dict):
        raise ShapeError("--speculative-config is no table")
    table = cast("dict[str, object]", said)
    method, tokens = table.get("method"), table.get("num_speculative_tokens")
    draft, cache = table.get("model"), table.get("kv_cache_dtype")
    ranks, accepted = table.get("draft_tensor_parallel_size"), table.get("synthetic_acceptance_length")
    return Drafting(
        method=method if isinstance(method, str) else "draft_model",
        tokens=tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < _MOST else 1,
        draft=draft if isinstance(draft, str) else None,
        cache_dtype=cache if isinstance(cache, str) else None,
        ranks=ranks if isinstance(ranks, int) and not isinstance(ranks, bool) and 0 < ranks < _MOST else None,
        accepted=_length(accepted),
    )


def _length(value: object) -> float | None:
    """A mean accepted length; JSON has numbers that are none, and whole ones larger than any float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST:
        return None
    return float(value)
