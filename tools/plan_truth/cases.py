"""Which launches: dense and hybrid, every way to speculate, caches of several types, blocks, contexts and pools."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Case:
    """One launch of a tiny model."""

    model: str
    flags: tuple[str, ...] = ()
    method: str | None = None
    draft: str | None = None
    tokens: int = 0
    draft_dtype: str | None = None
    """Of the draft's cache."""
    context: int = 2048
    pool: int = GIB

    def speculative(self, models: str) -> dict[str, object] | None:
        """vLLM's `--speculative-config`."""
        if self.method is None:
            return None
        config: dict[str, object] = {"method": self.method, "num_speculative_tokens": self.tokens}
        if self.draft is not None:
            config["model"] = f"{models}/{self.draft}"
        if self.draft_dtype is not None:
            config["kv_cache_dtype"] = self.draft_dtype
        if self.method == "ngram":
            config["prompt_lookup_max"] = 3
        return config


CACHED: Final = ("--enable-prefix-caching",)
UNCACHED: Final = ("--no-enable-prefix-caching",)


def cases() -> tuple[Case, ...]:
    """All of them."""
    return (*_dense(), *_hybrid(), *_speculating())


def _dense() -> Iterator[Case]:
    yield Case("dense")
    yield Case("dense", context=3000)
    yield Case("dense", ("--block-size", "32"))
    yield Case("dense", ("--block-size", "64"), context=777)
    yield Case("dense", ("--kv-cache-dtype", "fp8"))
    yield Case("dense", ("--dtype", "float16"))
    yield Case("dense", ("--dtype", "float32"), context=4096)
    yield Case("dense", UNCACHED)
    yield Case("dense", pool=300_000_001)


def _hybrid() -> Iterator[Case]:
    yield Case("hybrid")
    yield Case("hybrid", UNCACHED)
    yield Case("hybrid", UNCACHED, context=5000)
    yield Case("hybrid", context=5000, pool=500_000_000)
    yield Case("hybrid", ("--kv-cache-dtype", "fp8"))
    yield Case("hybrid", ("--kv-cache-dtype", "fp8", *UNCACHED))
    yield Case("hybrid", ("--mamba-ssm-cache-dtype", "float16"))
    yield Case("hybrid", ("--mamba-ssm-cache-dtype", "bfloat16", *UNCACHED))
    yield Case("hybrid", ("--mamba-cache-dtype", "float32", *UNCACHED))
    yield Case("hybrid", ("--dtype", "float16", *UNCACHED))
    yield Case("hybrid", ("--block-size", "32"))
    yield Case("hybrid", ("--block-size", "256", *UNCACHED))
    yield Case("hybrid", ("--mamba-cache-mode", "all"))
    yield Case("hybrid", ("--mamba-cache-mode", "align", *CACHED), context=1300)


def _speculating() -> Iterator[Case]:
    yield Case("dense", method="draft_model", draft="draft", tokens=2)
    yield Case("dense", method="ngram", tokens=3)
    yield Case("dense", method="dflash", draft="dflash_dense", tokens=3)
    yield Case("dense", method="dflash", draft="dflash_dense", tokens=3, draft_dtype="fp8")
    for tokens in (1, 2, 3, 4):
        yield Case("hybrid", UNCACHED, method="mtp", tokens=tokens)
    yield Case("hybrid", method="mtp", tokens=3)
    yield Case("hybrid", ("--kv-cache-dtype", "fp8", *UNCACHED), method="mtp", tokens=3)
    yield Case("hybrid", UNCACHED, method="dflash", draft="dflash", tokens=1)
    yield Case("hybrid", UNCACHED, method="dflash", draft="dflash", tokens=3)
    yield Case("hybrid", method="dflash", draft="dflash", tokens=3, draft_dtype="fp8")
    yield Case("hybrid", UNCACHED, method="dflash", draft="dflash", tokens=3, draft_dtype="fp8", context=10_000)
    yield Case("hybrid", UNCACHED, method="draft_model", draft="draft", tokens=2)
