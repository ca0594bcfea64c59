"""Readings: a value or an absence, never a zero in place of either."""

from arcops.core.quantity import Known, Unknown, age, value_or_none


def test_a_known_reading_is_mapped_and_keeps_its_time() -> None:
    assert Known(3, at=7.0).map(lambda value: value * 2) == Known(6, at=7.0)


def test_an_unknown_reading_stays_unknown_with_its_reason() -> None:
    nothing = Unknown("the sensor is gone", at=7.0)
    assert nothing.map(lambda value: 0) is nothing


def test_the_value_of_an_unknown_reading_is_none_and_not_zero() -> None:
    assert value_or_none(Unknown("no", 0.0)) is None
    assert value_or_none(Known(0, 0.0)) == 0


def test_the_age_of_a_reading_is_never_negative() -> None:
    assert age(Known(1, at=5.0), now=7.5) == 2.5
    assert age(Unknown("no", at=9.0), now=7.5) == 0.0
