"""The room of a card: what processes can have, less what others hold; what is unknown is never free."""

from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.cards.holders import Census, Holding
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.planning import place_of
from arcops.planning.room import foreign_of
from tests.core.simulated import launch
from tests.trees.sysfs import b70, lay

MIB = 1024 * 1024
UNKNOWN: Reading[int] = Unknown("nobody says", 0.0)


def holding(client: int, resident: int | None, *, ours: bool = False, shared: int = 0) -> Holding:
    """So many MiB."""
    size = None if resident is None else resident * MIB
    return Holding(client, (), size, size, ours, shared * MIB)


def census(*holdings: Holding, used: int | None = None, unreadable: int = 0) -> Census:
    in_use = UNKNOWN if used is None else Known(used * MIB, 0.0)
    return Census("0000:03:00.0", 0.0, holdings, (), unreadable, in_use)


@pytest.mark.parametrize(
    ("seen", "foreign"),
    [
        (census(used=0), 0),
        (census(used=40), 40),
        (census(holding(1, 30), used=40), 40),
        (census(holding(1, 30, ours=True), used=40), 10),
        (census(holding(1, 30, ours=True), holding(2, 5), used=40), 10),
        (census(holding(1, 50, ours=True), used=40), 0),
        (census(holding(1, 20, ours=True, shared=10), holding(2, 20, ours=True, shared=10), used=40), 10),
        (census(holding(1, None), used=40, unreadable=9), 40),
        (census(holding(1, None, ours=True), holding(2, 5), used=40), 5),
        (census(), 0),
        (census(holding(1, 30)), 30),
        (census(holding(1, 30), unreadable=3), 30),
        (census(unreadable=3), None),
        (census(holding(1, None)), None),
        (census(holding(1, None), holding(2, 30)), 30),
        (census(holding(1, 30, ours=True)), 0),
    ],
)
def test_what_others_hold(seen: Census, foreign: int | None) -> None:
    assert foreign_of(seen) == (None if foreign is None else foreign * MIB)


def nobody() -> frozenset[int]:
    return frozenset()


def on(*cards: str) -> Launch:
    return replace(launch("mine"), cards=cards)


def test_on_the_cpu_no_room_is_planned() -> None:
    place = place_of(on(), nobody)
    assert (place.name, place.room.total, place.bandwidth) == ("the CPU", None, None)
    assert "not planned" in place.absent


def test_a_card_that_is_not_there_has_no_room(tmp_path: Path) -> None:
    roots = lay(tmp_path, b70())
    place = place_of(on("0000:03:00.0", "0000:09:00.0"), nobody, roots)
    assert (place.room.total, place.absent) == (None, "there is no card 0000:09:00.0")


def test_a_card_whose_driver_nobody_can_read_has_no_room_that_is_known(tmp_path: Path) -> None:
    roots = lay(tmp_path, replace(b70(), driver="vfio-pci"))
    place = place_of(on("0000:03:00.0"), nobody, roots)
    assert place.room.total is None
    assert "driver: vfio-pci" in place.absent
    assert place.bandwidth == 608e9


def test_a_card_that_does_not_say_how_much_it_has_says_why(tmp_path: Path) -> None:
    place = place_of(on("0000:03:00.0"), nobody, lay(tmp_path, b70()))
    assert place.room.total is None or place.room.total > 0
    assert (place.room.total is None) is bool(place.absent)
