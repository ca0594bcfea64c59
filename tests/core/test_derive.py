import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.derive import Glance, chosen, derived
from arcops.core.cards.measures import CardReading, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown

CARD = "0000:03:00.0"


def look(at: float, *measures: tuple[Quantity, str, float | str], address: str = CARD) -> CardReading:
    """A reading of these measures; words are an absence."""
    return CardReading(
        address,
        at,
        tuple(
            Measure(quantity, Unknown(value, at) if isinstance(value, str) else Known(value, at), "test", part)
            for quantity, part, value in measures
        ),
    )


def energy(at: float, joules: float | str, part: str = "card") -> CardReading:
    return look(at, (Quantity.ENERGY, part, joules))


def idle(at: float, seconds: float | str) -> CardReading:
    return look(at, (Quantity.IDLE_TIME, "gt0", seconds))


def power(earlier: CardReading | None, later: CardReading) -> Reading[float]:
    return derived(earlier, later).reading(Quantity.POWER)


def busy(earlier: CardReading | None, later: CardReading) -> Reading[float]:
    return derived(earlier, later).reading(Quantity.BUSY)


def test_power_is_what_the_energy_has_grown_by_in_a_second() -> None:
    assert power(energy(10, 5000), energy(12, 5300)) == Known(150.0, 12)


def test_use_is_the_time_that_was_not_idle() -> None:
    assert busy(idle(10, 100), idle(14, 101)) == Known(0.75, 14)


@pytest.mark.parametrize(("grown", "use"), [(0, 1.0), (2, 0.0), (2.5, 0.0)])
def test_use_stays_between_nothing_and_all(grown: float, use: float) -> None:
    assert busy(idle(10, 100), idle(12, 100 + grown)) == Known(use, 12)


def test_the_first_look_gives_no_power_and_no_use() -> None:
    for reading in (power(None, energy(1, 5)), busy(None, idle(1, 5))):
        assert reading == Unknown("it takes two looks, and this is the first", 1)


def test_a_look_at_another_card_is_none_at_this_one() -> None:
    other = look(10, (Quantity.ENERGY, "card", 5000), address="0000:83:00.0")
    assert power(other, energy(12, 5300)) == Unknown("it takes two looks, and this is the first", 12)


def test_an_absence_at_the_first_look_is_as_no_look() -> None:
    assert power(energy(10, "gone"), energy(12, 5)) == Unknown("it takes two looks, and this is the first", 12)


def test_an_absence_at_the_second_look_says_its_own_reason() -> None:
    assert power(energy(10, 5), energy(12, "this user may not read it")) == Unknown("this user may not read it", 12)


def test_a_counter_that_went_back_gives_no_negative_power() -> None:
    for reading in (power(energy(10, 5000), energy(12, 1)), busy(idle(10, 9), idle(12, 1))):
        assert reading == Unknown("its counter went back (the driver was loaded anew)", 12)


@pytest.mark.parametrize("at", [10, 10.001, 9])
def test_no_time_between_two_looks_gives_nothing(at: float) -> None:
    for reading in (power(energy(10, 5), energy(at, 9)), busy(idle(10, 5), idle(at, 9))):
        assert reading == Unknown("too little time between two looks", at)


def test_power_that_no_card_takes_is_none() -> None:
    assert isinstance(power(energy(10, 0), energy(11, 1e9)), Unknown)


def test_each_part_has_its_own_and_nothing_is_added_up() -> None:
    first = look(10, (Quantity.ENERGY, "card", 0), (Quantity.ENERGY, "pkg", 0), (Quantity.IDLE_TIME, "gt1", 0))
    then = look(11, (Quantity.ENERGY, "card", 90), (Quantity.ENERGY, "pkg", 60), (Quantity.IDLE_TIME, "gt1", 1))
    found = derived(first, then)
    assert found.reading(Quantity.POWER, "card") == Known(90.0, 11)
    assert found.reading(Quantity.POWER, "pkg") == Known(60.0, 11)
    assert found.reading(Quantity.BUSY, "gt1") == Known(0.0, 11)
    assert [one.source for one in found.measures if one.quantity is Quantity.BUSY] == ["test, two looks"]


def test_what_the_driver_tells_itself_stands() -> None:
    first = look(10, (Quantity.ENERGY, "card", 0))
    then = look(11, (Quantity.ENERGY, "card", 90), (Quantity.POWER, "card", 77))
    assert [one.reading for one in derived(first, then).measures if one.quantity is Quantity.POWER] == [Known(77, 11)]


def test_an_absence_of_the_drivers_gives_way_to_what_follows() -> None:
    first = look(10, (Quantity.ENERGY, "card", 0))
    then = look(11, (Quantity.ENERGY, "card", 90), (Quantity.POWER, "card", "not in this driver"))
    assert [one.reading for one in derived(first, then).measures if one.quantity is Quantity.POWER] == [Known(90, 11)]


VALUES = st.one_of(st.sampled_from(["absent"]), st.floats(0, 1e13, allow_nan=False))


def counters(at: float, values: dict[str, float | str]) -> CardReading:
    of = (Quantity.ENERGY, Quantity.IDLE_TIME)
    return look(at, *((quantity, part, value) for quantity in of for part, value in values.items()))


LOOKS = st.builds(
    counters, st.floats(0, 1e6, allow_nan=False), st.dictionaries(st.sampled_from(["card", "pkg", "gt0"]), VALUES)
)


@given(st.none() | LOOKS, LOOKS)
def test_of_any_two_looks_follows_what_can_be_true(earlier: CardReading | None, later: CardReading) -> None:
    found = derived(earlier, later)
    for one in found.measures:
        if isinstance(one.reading, Known):
            assert math.isfinite(one.reading.value)
            assert one.reading.value >= 0
            assert one.quantity is not Quantity.BUSY or one.reading.value <= 1
            assert one.quantity is not Quantity.POWER or one.reading.value <= 5000
        assert one.reading.at == later.at
    keys = [(one.quantity, one.part) for one in found.measures]
    assert len(keys) == len(set(keys))
    assert {Quantity.ENERGY, Quantity.POWER} <= {quantity for quantity, _ in keys} or not later.measures
    assert (found.address, found.at, found.throttling) == (later.address, later.at, later.throttling)


def test_a_line_shows_the_card_the_package_and_the_engines_that_compute() -> None:
    reading = look(
        5,
        (Quantity.MEMORY_TOTAL, "", 32),
        (Quantity.MEMORY_USED, "", 3),
        (Quantity.POWER, "pkg", 60),
        (Quantity.POWER, "card", 90),
        (Quantity.TEMPERATURE, "vram", 80),
        (Quantity.TEMPERATURE, "pkg", 61),
        (Quantity.CLOCK, "gt1", 1500),
        (Quantity.CLOCK, "gt0", 2400),
        (Quantity.BUSY, "gt1", 0),
        (Quantity.BUSY, "gt0", 0.9),
    )
    values = (3, 32, 90, 61, 2400, 0.9)
    assert chosen(reading) == Glance(*(Known(value, 5) for value in values))


def test_without_a_package_sensor_a_line_shows_the_hottest() -> None:
    reading = look(5, (Quantity.TEMPERATURE, "mem", 70), (Quantity.TEMPERATURE, "junction", 83))
    assert chosen(reading).temperature == Known(83, 5)


def test_a_sensor_that_is_absent_gives_way_to_one_that_is_there() -> None:
    reading = look(5, (Quantity.TEMPERATURE, "pkg", "no"), (Quantity.TEMPERATURE, "vram", 70))
    assert chosen(reading).temperature == Known(70, 5)
    reading = look(5, (Quantity.CLOCK, "gt0", "no"), (Quantity.CLOCK, "gt2", 70))
    assert chosen(reading).clock == Known(70, 5)


def test_what_a_line_cannot_show_has_its_reason() -> None:
    glance = chosen(look(5, (Quantity.MEMORY_USED, "", "needs CAP_PERFMON"), (Quantity.POWER, "card", "two looks")))
    assert glance.memory_used == Unknown("needs CAP_PERFMON", 5)
    assert glance.power == Unknown("two looks", 5)
    assert glance.busy == Unknown("not in this driver", 5)
