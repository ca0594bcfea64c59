"""The plan of a launch: what each allocation takes on a card, whether that fits, and how long a context could be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from arcops.core.budget.cache import Settings, Shape, shape_of
from arcops.core.budget.layers import Layer

SPREAD: Final = 1.5
"""What is only estimated may take this many times as much, and then the plan does not say that it fits."""
MIB: Final = 1024 * 1024


class Basis(Enum):
    """Where a size comes from. The values are an interface."""

    EXACT = "exact"
    """Counted from files and settings."""
    MEASURED = "measured"
    """Seen at an earlier launch of the same profile and runtime."""
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Use(Enum):
    """What an allocation is for. The values are an interface."""

    WEIGHTS = "weights"
    CACHE = "cache"
    REST = "rest"
    """Activations, graphs, the runtime's own."""


class Fit(Enum):
    """The verdict. The values are an interface."""

    FITS = "fits"
    CLOSE = "close"
    """By what is known it fits; by what is estimated it might not."""
    DOES_NOT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Item:
    """One allocation on each card."""

    name: str
    size: int | None
    """Bytes; None where nobody can say."""
    basis: Basis
    words: str
    """What it is made of, for a person."""
    use: Use = Use.REST


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of the smallest of a launch's cards. None is unknown."""

    total: int | None
    """Bytes that processes can have: what the driver keeps for itself is left out."""
    foreign: int | None
    """Bytes that others hold now."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a launch wants of each of its cards."""

    layers: tuple[Layer, ...]
    """The target's, and those that draft, on one rank."""
    settings: Settings
    items: tuple[Item, ...]
    """All but the cache."""
    pool: int | None
    """Bytes that are fixed for the cache; None where `utilisation` says."""
    utilisation: float
    """Share of the card that vLLM may have in all, the cache the rest of it."""
    sequences: int | None
    """That may run at once."""
    longest: int | None
    """Tokens that the model was made for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How it comes out."""

    items: tuple[Item, ...]
    """The cache included."""
    fit: Fit
    reason: str
    """In one sentence, with the numbers."""
    advice: tuple[str, ...]
    """Settings nearby that would fit; empty where it fits."""
    total: int | None
    """Bytes of all items; None where one is unknown."""
    room: Room
    shape: Shape | None
    pool: int | None
    """Bytes of the cache; None where what it is the rest of is unknown."""
    tokens: int | None
    """That vLLM will report as its cache's size."""
    longest_context: int | None
    """Tokens of the longest single request that the pool holds, no more than the model was made for."""
    most_sequences: int | None
    """Requests of the whole context that the pool holds at once."""


def plan_of(demand: Demand, room: Room) -> Plan:
    """Hold a demand against the room there is."""
    shape = shape_of(demand.layers, demand.settings)
    pool, cache = _pool(demand, room, shape)
    items = (*demand.items, cache)
    total = _total(items)
    longest = None if shape is None or pool is None else longest_context(demand, pool)
    most = None if shape is None or pool is None else int(shape.requests_in(pool))
    fit, reason = _judged(items, total, room, shape, pool, demand)
    return Plan(
        items=items,
        fit=fit,
        reason=reason,
        advice=() if fit is Fit.FITS else _advice(demand, shape, pool, longest, room),
        total=total,
        room=room,
        shape=shape,
        pool=pool,
        tokens=None if shape is None or pool is None else shape.reported_tokens(pool),
        longest_context=longest,
        most_sequences=most,
    )


def longest_context(demand: Demand, pool: int) -> int:
    """The longest request that a pool holds, in tokens, no longer than the model was made for; 0 where none fits."""
    low, high = 0, demand.longest or demand.settings.context
    while low < high:
        middle = (low + high + 1) // 2
        shape = shape_of(demand.layers, replace(demand.settings, context=middle))
        if shape is None or shape.pool_for() <= pool:
            low = middle
        else:
            high = middle - 1
    return low


def _pool(demand: Demand, room: Room, shape: Shape | None) -> tuple[int | None, Item]:
    """The cache's bytes: fixed, or what vLLM's share of the card leaves."""
    if shape is None:
        return 0, _cache_item(0, Basis.EXACT, "the model keeps nothing of a sequence")
    if demand.pool is not None:
        return demand.pool, _cache_item(demand.pool, Basis.EXACT, "fixed by kv_cache_memory")
    words = f"the rest of {demand.utilisation:.0%} of the card (gpu_memory_utilization)"
    sizes = [item.size for item in demand.items]
    if room.total is None or any(size is None for size in sizes):
        return None, _cache_item(None, Basis.UNKNOWN, words)
    rest = int(room.total * demand.utilisation) - sum(size for size in sizes if size is not None)
    exact = all(item.basis in (Basis.EXACT, Basis.MEASURED) for item in demand.items)
    return max(0, rest), _cache_item(max(0, rest), Basis.EXACT if exact else Basis.ESTIMATED, words)


def _cache_item(size: int | None, basis: Basis, words: str) -> Item:
    return Item("KV cache", size, basis, words, Use.CACHE)


def _judged(
    items: Sequence[Item], total: int | None, room: Room, shape: Shape | None, pool: int | None, demand: Demand
) -> tuple[Fit, str]:
    context = demand.settings.context
    if shape is not None and pool is not None and shape.pool_for() > pool:
        needed = mib(shape.pool_for())
        return Fit.DOES_NOT, f"a request of {context:,} tokens needs a cache of {needed}, and it gets {mib(pool)}"
    if room.total is None:
        return Fit.UNKNOWN, "how much memory the card has is not known"
    free = room.total - (room.foreign or 0)
    held = f", of which others hold {mib(room.foreign)}" if room.foreign else ""
    there = f"the card has {mib(room.total)}{held}"
    # A cache that is the rest of a share takes no more than that share.
    least = sum(item.size for item in items if item.size is not None and item.basis in (Basis.EXACT, Basis.MEASURED))
    if least > free:
        return Fit.DOES_NOT, f"it needs {mib(least)} at least, and {there}"
    if total is None:
        return Fit.UNKNOWN, f"it needs {mib(least)} and what is unknown beside, and {there}"
    if total > free:
        return Fit.DOES_NOT, f"it needs {mib(total)}, and {there}"
    guessed = _guessed(demand)
    if demand.pool is not None and total + guessed * (SPREAD - 1) > free:
        return Fit.CLOSE, f"it needs {mib(total)}, {mib(guessed)} of that by estimate, and {there}"
    return Fit.FITS, f"it needs {mib(total)}, and {there}"


def _advice(demand: Demand, shape: Shape | None, pool: int | None, longest: int | None, room: Room) -> tuple[str, ...]:
    """What would fit, nearest first: each was held against the same room."""
    found: list[str] = []
    if shape is None:
        return _without_others(demand, room)
    if longest and longest < demand.settings.context and _would_fit(_shorter(demand, longest), room):
        found.append(f"scheduling.max_model_len: {longest} is the longest context that this cache holds")
    whole = shape.pool_for()
    if pool is not None and whole > pool and _would_fit(replace(demand, pool=whole), room):
        found.append(f"cache.kv_cache_memory: {whole} holds one request of the whole context")
    smaller = _affordable(demand, room)
    if smaller is not None and (pool is None or smaller < pool):
        context = min(demand.settings.context, longest_context(demand, smaller))
        if context and _would_fit(_shorter(replace(demand, pool=smaller), context), room):
            shorter = "" if context == demand.settings.context else f", and scheduling.max_model_len: {context},"
            found.append(f"cache.kv_cache_memory: {smaller}{shorter} would fit")
    return (*found, *_without_others(demand, room))


def _without_others(demand: Demand, room: Room) -> tuple[str, ...]:
    if not room.foreign or not _would_fit(demand, replace(room, foreign=0)):
        return ()
    return (f"end what else holds memory of the card ({mib(room.foreign)}; `arcops gpu` names it)",)


def _shorter(demand: Demand, context: int) -> Demand:
    return replace(demand, settings=replace(demand.settings, context=context))


def _affordable(demand: Demand, room: Room) -> int | None:
    """Bytes that are left for a cache, if what is estimated takes as much as it may; None where that is unknown."""
    sizes = [item.size for item in demand.items]
    if room.total is None or any(size is None for size in sizes):
        return None
    spared = sum(size for size in sizes if size is not None) + int(_guessed(demand) * (SPREAD - 1)) + 1
    left = room.total - (room.foreign or 0) - spared
    return left if left > 0 else None


def _guessed(demand: Demand) -> int:
    """Bytes of what is only estimated, the cache left out."""
    return sum(item.size for item in demand.items if item.size is not None and item.basis is Basis.ESTIMATED)


def _would_fit(demand: Demand, room: Room) -> bool:
    """As far as it can be told: a room that is not known refuses nothing."""
    shape = shape_of(demand.layers, demand.settings)
    pool, cache = _pool(demand, room, shape)
    items = (*demand.items, cache)
    fit, _ = _judged(items, _total(items), room, shape, pool, demand)
    return fit is Fit.FITS or (fit is Fit.UNKNOWN and room.total is None)


def _total(items: Sequence[Item]) -> int | None:
    sizes = [item.size for item in items]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)


def mib(size: float) -> str:
    """Bytes for a person, in the unit that cards are spoken of in."""
    return f"{size / MIB:,.0f} MiB"
