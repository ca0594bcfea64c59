"""The KV cache of a launch: how vLLM divides its pool into blocks, and how many tokens that is.

All layers share one pool of equal blocks. Layers of one kind form groups; a block holds a page of each layer of a
group, and a request takes blocks for each group on its own. Source: get_kv_cache_groups, unify_kv_cache_spec_page_size,
_get_kv_cache_groups_uniform_page_size and _align_hybrid_block_size of vLLM 0.29.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import lcm
from typing import assert_never

from arcops.core.budget.layers import Attention, DeltaNet, Layer, Part

NULL_BLOCK = 1
"""Blocks of the pool that no request gets: the one that stands for "none"."""
_MUCH_LARGER = 1.5
"""A largest bucket below this many times the smallest sets the size of the groups; else the smallest does."""


class StateMode(Enum):
    """How states of delta nets are kept (`mamba_cache_mode`). The values are vLLM's."""

    NONE = "none"
    """The running one: there is no prefix cache."""
    ALIGN = "align"
    """One at the end of each scheduled block, too: what vLLM takes with a prefix cache."""
    ALL = "all"
    """One for every block."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the cache's shape depends on, beside the layers."""

    context: int
    """Tokens of the longest request (`max_model_len`)."""
    block: int
    """Tokens of a block before hybrid models are aligned: what was set, or the platform's."""
    mode: StateMode = StateMode.NONE
    speculative: int = 0
    """Tokens that are drafted for a step."""
    in_flight: int = 2048
    """Tokens that may be scheduled and not settled: a batch, or two with asynchronous scheduling."""
    state_chunk: int = 2048
    """Tokens to which blocks are aligned in mode `all` (the model's own chunk, or vLLM's where it has none)."""
    kernel_block: int = 16
    """Tokens of the smallest block that the attention kernels take."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a table of blocks."""

    layers: int
    size: int
    """Bytes of a block that they take together."""
    blocks: int
    """That a request of the whole context takes."""
    what: str
    """In words: `full attention`, `window of 4,096`, `delta net`."""
    part: Part
    padded: int
    """Bytes of these that hold nothing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A cache as it would be laid out."""

    block: int
    """Tokens of a block of the target's attention."""
    block_bytes: int
    """That one block of the pool takes, over the layers of the largest group."""
    groups: tuple[Group, ...]
    context: int

    @property
    def blocks_a_request(self) -> int:
        """Blocks for one request of the whole context."""
        return sum(group.blocks for group in self.groups)

    def blocks_in(self, pool: int) -> int:
        """Blocks that `pool` bytes give."""
        return max(0, pool // self.block_bytes)

    def reported_tokens(self, pool: int) -> int:
        """What vLLM 0.29 reports as `GPU KV cache size`, in tokens of requests of the whole context."""
        return int(self.blocks_in(pool) / self.blocks_a_request * self.context)

    def usable_tokens(self, pool: int) -> int:
        """The same without the null block, which 0.29 counts though no request gets it (and later versions do not)."""
        return int(max(0, self.blocks_in(pool) - NULL_BLOCK) / self.blocks_a_request * self.context)

    def requests_in(self, pool: int) -> float:
        """Requests of the whole context that fit at once, by the usable blocks."""
        return max(0, self.blocks_in(pool) - NULL_BLOCK) / self.blocks_a_request

    def pool_for(self, requests: int = 1) -> int:
        """The smallest pool with which vLLM starts and that many requests of the whole context fit, in bytes."""
        return (requests * self.blocks_a_request + NULL_BLOCK) * self.block_bytes


@dataclass(frozen=True, slots=True)
class _Page:
    """A layer's share of a block, on the way to a common size."""

    layer: Layer
    tokens: int
    """Of a block of it; for a state those that it is kept for."""
    size: int
    padded: int = 0


def parts(amount: int, size: int) -> int:
    """How many of this size hold so much."""
    return -(-amount // size)


def shape_of(layers: Sequence[Layer], settings: Settings) -> Shape | None:
    """The cache of these layers; None for a model that keeps nothing. Layers are in their order in the model."""
    if not layers:
        return None
    block, state_page = _aligned(layers, settings)
    pages = [_page(layer, block, state_page, settings) for layer in layers]
    buckets = _one_bucket(pages) or _buckets(_unified(pages))
    size = _layers_a_group(buckets)
    groups: list[Group] = []
    for bucket in buckets:
        count = parts(len(bucket), size)
        for number in range(count):
            members = bucket[number::count]
            groups.append(_group(members, settings))
    widest = max(group.size for group in groups)
    return Shape(block=block, block_bytes=widest, groups=tuple(groups), context=settings.context)


def _aligned(layers: Sequence[Layer], settings: Settings) -> tuple[int, int | None]:
    """Tokens of a block, and bytes to which states are padded: a block of attention has to hold a state."""
    target = [one for one in layers if isinstance(one, Attention) and one.part is Part.TARGET]
    states = [one.bytes_of(settings.speculative) for one in layers if isinstance(one, DeltaNet)]
    if not states or not target:
        return settings.block, None
    state, token = max(states), target[0].token_bytes
    step = max(settings.kernel_block, settings.block)
    if settings.mode is StateMode.ALL:
        step = lcm(settings.state_chunk, step)
        needed = step * parts(parts(state, token), step)
    else:
        needed = step * parts(state, step * token)
    block = max(settings.block, needed)
    return block, block * token


def _page(layer: Layer, block: int, state_page: int | None, settings: Settings) -> _Page:
    match layer:
        case Attention():
            return _Page(layer, block, block * layer.token_bytes)
        case DeltaNet():
            size = layer.bytes_of(settings.speculative)
            page = size if state_page is None else max(size, state_page)
            tokens = settings.context if settings.mode is StateMode.NONE else block
            return _Page(layer, tokens, page, page - size)
        case _:
            assert_never(layer)


def _one_bucket(pages: Sequence[_Page]) -> list[list[_Page]] | None:
    """All layers as one group, where all need the same number of blocks: full attention only, or one window only."""
    windows = {page.layer.window for page in pages if isinstance(page.layer, Attention)}
    if all(isinstance(page.layer, Attention) for page in pages) and len(windows) == 1:
        return [list(pages)]
    if all(isinstance(page.layer, DeltaNet) for page in pages) and len({page.size for page in pages}) == 1:
        return [list(pages)]
    return None


def _unified(pages: Sequence[_Page]) -> list[_Page]:
    """Pages of one size: smaller ones take more tokens where that comes out even, and are padded where not."""
    largest = max(page.size for page in pages)
    found: list[_Page] = []
    for page in pages:
        ratio, rest = divmod(largest, page.size)
        if isinstance(page.layer, Attention) and rest == 0:
            found.append(replace(page, tokens=page.tokens * ratio, size=largest))
        else:
            found.append(replace(page, size=largest, padded=page.padded + largest - page.size))
    return found


def _buckets(pages: Sequence[_Page]) -> list[list[_Page]]:
    """Layers by what they keep and how, in the order in which each kind first comes."""
    found: dict[object, list[_Page]] = {}
    for page in pages:
        layer = page.layer
        # Whose layer it is makes no difference to the pool.
        alike = replace(layer, part=Part.TARGET) if isinstance(layer, Attention) else layer
        found.setdefault((alike, page.tokens, page.size), []).append(page)
    return list(found.values())


def _layers_a_group(buckets: Sequence[Sequence[_Page]]) -> int:
    sizes = [len(bucket) for bucket in buckets]
    return max(sizes) if max(sizes) < min(sizes) * _MUCH_LARGER else min(sizes)


def _group(members: Sequence[_Page], settings: Settings) -> Group:
    first = members[0]
    match first.layer:
        case Attention(window=None):
            blocks, what = parts(settings.context, first.tokens), "full attention"
        case Attention(window=int(window)):
            kept = min(window - 1 + settings.in_flight, settings.context)
            blocks, what = parts(kept, first.tokens) + 1, f"window of {window:,}"
        case DeltaNet():
            blocks, what = _states(settings, first.tokens), "delta net"
        case _:
            raise AssertionError(first.layer)
    whose = {page.layer.part for page in members if isinstance(page.layer, Attention)}
    part = Part.DRAFT if whose == {Part.DRAFT} else Part.TARGET
    size, padded = sum(page.size for page in members), sum(page.padded for page in members)
    return Group(len(members), size, blocks, what, part, padded)


def _states(settings: Settings, block: int) -> int:
    """States that one request takes, each in a block of its own."""
    match settings.mode:
        case StateMode.NONE:
            return 1 + settings.speculative
        case StateMode.ALIGN:
            return 2 + settings.speculative
        case StateMode.ALL:
            return parts(settings.context, block) + settings.speculative
        case _:
            assert_never(settings.mode)
