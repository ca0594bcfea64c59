"""The plan: what is exact is never said to fit where it does not, and what is advised does fit."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from arcops.core.budget.cache import Settings, StateMode
from arcops.core.budget.layers import Attention, DeltaNet, Layer, Part
from arcops.core.budget.plan import (
    MIB,
    SPREAD,
    Basis,
    Demand,
    Fit,
    Item,
    Plan,
    Room,
    Use,
    longest_context,
    mib,
    plan_of,
)

GIB = 1024 * MIB
FULL = Attention(2, 128, 2)
"""A token of it takes a KiB."""


def item(size: int | None, basis: Basis = Basis.EXACT) -> Item:
    return Item("weights", size, basis, "", Use.WEIGHTS)


def demand(
    *items: Item,
    layers: Sequence[Layer] = (FULL,) * 16,
    context: int = 4096,
    pool: int | None = GIB,
    utilisation: float = 0.9,
    longest: int | None = 32_768,
) -> Demand:
    """Sixteen layers of attention: a token takes 16 KiB."""
    settings = Settings(context=context, block=16)
    return Demand(tuple(layers), settings, items, pool, utilisation, None, longest)


@pytest.mark.parametrize(
    ("asked", "room", "fit", "said"),
    [
        (demand(item(8 * GIB)), Room(16 * GIB, 0), Fit.FITS, "needs 9,216 MiB, and the card has 16,384 MiB"),
        (demand(item(15 * GIB)), Room(16 * GIB, 0), Fit.FITS, "needs 16,384 MiB"),
        (demand(item(15 * GIB + 1)), Room(16 * GIB, 0), Fit.DOES_NOT, "at least"),
        (demand(item(8 * GIB)), Room(16 * GIB, 8 * GIB), Fit.DOES_NOT, "others hold 8,192 MiB"),
        (demand(item(8 * GIB)), Room(16 * GIB, None), Fit.FITS, "the card has 16,384 MiB"),
        (demand(item(8 * GIB)), Room(None, None), Fit.UNKNOWN, "how much memory the card has is not known"),
        (demand(item(None)), Room(16 * GIB, 0), Fit.UNKNOWN, "what is unknown beside"),
        (demand(item(None), item(16 * GIB)), Room(16 * GIB, 0), Fit.DOES_NOT, "at least"),
        (demand(item(15 * GIB, Basis.ESTIMATED)), Room(16 * GIB, 0), Fit.CLOSE, "by estimate"),
        (demand(item(8 * GIB, Basis.ESTIMATED)), Room(16 * GIB, 0), Fit.FITS, ""),
        (demand(item(8 * GIB, Basis.ESTIMATED)), Room(12 * GIB, 0), Fit.CLOSE, ""),
        (demand(item(17 * GIB, Basis.ESTIMATED)), Room(16 * GIB, 0), Fit.DOES_NOT, "needs 18,432 MiB"),
        (demand(item(8 * GIB), pool=60 * MIB), Room(16 * GIB, 0), Fit.DOES_NOT, "a request of 4,096 tokens needs"),
        (demand(item(8 * GIB), pool=0), Room(None, None), Fit.DOES_NOT, "it gets 0 MiB"),
        (demand(item(8 * GIB), pool=None), Room(16 * GIB, 0), Fit.FITS, ""),
        (demand(item(15 * GIB), pool=None), Room(16 * GIB, 0), Fit.DOES_NOT, "it gets 0 MiB"),
        (demand(item(8 * GIB), pool=None), Room(16 * GIB, 4 * GIB), Fit.DOES_NOT, "others hold"),
        (demand(item(8 * GIB), layers=()), Room(16 * GIB, 0), Fit.FITS, "needs 8,192 MiB"),
    ],
)
def test_the_verdict(asked: Demand, room: Room, fit: Fit, said: str) -> None:
    plan = plan_of(asked, room)
    assert plan.fit is fit, plan.reason
    assert said in plan.reason


def test_a_pool_that_is_a_share_is_what_the_rest_leaves_of_it() -> None:
    plan = plan_of(demand(item(8 * GIB), pool=None, utilisation=0.75), Room(16 * GIB, 0))
    assert plan.pool == 4 * GIB
    assert plan.items[-1].basis is Basis.EXACT
    guessed = plan_of(demand(item(8 * GIB, Basis.ESTIMATED), pool=None), Room(16 * GIB, 0))
    assert guessed.items[-1].basis is Basis.ESTIMATED


def test_a_pool_that_is_a_share_of_what_is_unknown_is_unknown() -> None:
    for plan in (
        plan_of(demand(item(8 * GIB), pool=None), Room(None, None)),
        plan_of(demand(item(None), pool=None), Room(16 * GIB, 0)),
    ):
        assert (plan.pool, plan.total, plan.tokens, plan.longest_context) == (None, None, None, None)
        assert plan.items[-1].basis is Basis.UNKNOWN


def test_a_model_that_keeps_nothing_has_an_empty_cache() -> None:
    plan = plan_of(demand(item(GIB), layers=()), Room(GIB, 0))
    assert (plan.shape, plan.pool, plan.total) == (None, 0, GIB)
    crowded = plan_of(demand(item(GIB), layers=()), Room(GIB, 1))
    assert crowded.fit is Fit.DOES_NOT
    assert [advice for advice in crowded.advice if "arcops gpu" in advice]


def test_sizes_are_written_in_the_unit_of_cards() -> None:
    assert mib(6_979_321_856) == "6,656 MiB"


attention = st.builds(
    Attention,
    kv_heads=st.integers(1, 8),
    head_dim=st.sampled_from([64, 128]),
    value_bytes=st.sampled_from([1, 2]),
    window=st.none() | st.integers(64, 4096),
    part=st.sampled_from(Part),
)
nets = st.just(DeltaNet(2, 4, 128, 128, 4, 2, 4))
items = st.builds(
    Item,
    name=st.just("an item"),
    size=st.none() | st.integers(0, 4 * GIB),
    basis=st.sampled_from([Basis.EXACT, Basis.MEASURED, Basis.ESTIMATED]),
    words=st.just(""),
)
demands = st.builds(
    Demand,
    layers=st.lists(attention | nets, max_size=8).map(tuple),
    settings=st.builds(
        Settings,
        context=st.integers(1, 100_000),
        block=st.sampled_from([16, 64]),
        mode=st.sampled_from([StateMode.NONE, StateMode.ALIGN]),
        speculative=st.integers(0, 4),
        in_flight=st.integers(1, 8192),
    ),
    items=st.lists(items, max_size=4).map(tuple),
    pool=st.none() | st.integers(0, 4 * GIB),
    utilisation=st.floats(0.01, 1.0),
    sequences=st.none() | st.integers(1, 256),
    longest=st.none() | st.integers(1, 200_000),
)
rooms = st.builds(Room, total=st.none() | st.integers(0, 20 * GIB), foreign=st.none() | st.integers(0, 8 * GIB))
TIGHT = demand(item(2 * GIB), item(GIB, Basis.ESTIMATED), context=20_000, pool=GIB)


def exact(plan: Plan) -> int:
    """Bytes that are surely taken."""
    return sum(one.size or 0 for one in plan.items if one.basis in (Basis.EXACT, Basis.MEASURED))


@given(demands, rooms)
def test_nothing_is_said_to_fit_where_what_is_exact_exceeds_the_room(asked: Demand, room: Room) -> None:
    plan = plan_of(asked, room)
    if room.total is not None and exact(plan) > room.total - (room.foreign or 0):
        assert plan.fit is Fit.DOES_NOT
    if plan.fit in (Fit.FITS, Fit.CLOSE):
        assert plan.total is not None
        assert room.total is not None
        assert plan.total <= room.total - (room.foreign or 0)
        assert plan.shape is None or plan.shape.pool_for() <= (plan.pool or 0)


@given(demands, rooms, st.integers(0, 8 * GIB))
def test_a_larger_room_never_turns_a_fixed_pool_that_fits_into_one_that_does_not(
    asked: Demand, room: Room, more: int
) -> None:
    assume(room.total is not None and asked.pool is not None)
    larger = replace(room, total=(room.total or 0) + more)
    if plan_of(asked, room).fit is Fit.FITS:
        assert plan_of(asked, larger).fit is Fit.FITS
    if plan_of(asked, room).fit is Fit.CLOSE:
        assert plan_of(asked, larger).fit in (Fit.CLOSE, Fit.FITS)


@given(demands, rooms, st.integers(0, 8 * GIB))
def test_what_a_stranger_gives_back_never_makes_it_worse(asked: Demand, room: Room, less: int) -> None:
    order = (Fit.DOES_NOT, Fit.CLOSE, Fit.FITS)
    freed = replace(room, foreign=max(0, (room.foreign or 0) - less))
    before, after = plan_of(asked, room).fit, plan_of(asked, freed).fit
    if before in order and after in order:
        assert order.index(after) >= order.index(before)


@given(demands, st.integers(0, 4 * GIB))
def test_the_longest_context_fits_and_a_token_more_does_not(asked: Demand, pool: int) -> None:
    found = longest_context(asked, pool)
    most = asked.longest or asked.settings.context
    assert 0 <= found <= most

    def fits(context: int) -> bool:
        shape = plan_of(replace(asked, settings=replace(asked.settings, context=context)), Room(None, None)).shape
        return shape is None or shape.pool_for() <= pool

    assert found == 0 or fits(found)
    assert found == most or not fits(found + 1)


@given(demands, rooms)
@example(TIGHT, Room(4 * GIB, 0))
@example(TIGHT, Room(6 * GIB, 2 * GIB))
@example(replace(TIGHT, pool=100 * MIB), Room(8 * GIB, 0))
@example(replace(TIGHT, pool=100 * MIB), Room(2 * GIB, 0))
def test_what_is_advised_fits(asked: Demand, room: Room) -> None:
    plan = plan_of(asked, room)
    for advice in plan.advice:
        followed, left = asked, room
        for key, value in re.findall(r"(max_model_len|kv_cache_memory): (\d+)", advice):
            if key == "max_model_len":
                followed = replace(followed, settings=replace(followed.settings, context=int(value)))
            else:
                followed = replace(followed, pool=int(value))
        if "arcops gpu" in advice:
            left = replace(room, foreign=0)
        assert (followed, left) != (asked, room)
        found = plan_of(followed, left)
        assert found.fit is Fit.FITS or (room.total is None and found.fit is Fit.UNKNOWN), (advice, found.reason)


def test_what_does_not_fit_is_told_what_would() -> None:
    advice = plan_of(TIGHT, Room(4 * GIB, 0)).advice
    assert len(advice) == 1
    assert re.fullmatch(r"cache\.kv_cache_memory: 536\d+ would fit", advice[0]), advice
    shorter = plan_of(replace(TIGHT, pool=100 * MIB), Room(8 * GIB, 0)).advice
    assert shorter[0].startswith("scheduling.max_model_len: 6384 ")
    assert "holds one request of the whole context" in shorter[1]


def test_an_estimate_may_take_half_as_much_again_before_it_is_said_to_fit() -> None:
    asked = demand(item(2 * GIB), item(2 * GIB, Basis.ESTIMATED), pool=GIB)
    edge = int((3 + 2 * SPREAD) * GIB)
    assert plan_of(asked, Room(edge, 0)).fit is Fit.FITS
    assert plan_of(asked, Room(edge - MIB, 0)).fit is Fit.CLOSE
