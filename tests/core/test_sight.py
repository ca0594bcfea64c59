"""What a look has against a launch."""

from dataclasses import replace

import pytest

from arcops.core.action import KeepBaseline
from arcops.core.cards.attribution import MIB
from arcops.core.cards.holders import Holding
from arcops.core.decide.sight import (
    BRING_BACK,
    CLEAR,
    END_HOLDER,
    FIND_HOLDER,
    LET_LOOK,
    MOVES_WITHIN,
    RETURNS_WITHIN,
    Sight,
    left_on,
    lessons,
    obstacle,
    remarks,
)
from arcops.core.errors import ExitCode
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card, Holder, Port
from tests.core.simulated import launch
from tests.core.simulated_memory import Memory, named, occupancy

FREE = Port((), ours=False, bindable=True)
TAKEN = replace(FREE, bindable=False)
LISTENER = Holder(8, "nginx", "www", "port 8000 (127.0.0.1:8000)")
ADDRESS = "0000:03:00.0"
PYTHON = named(7, 90 * MIB, "python", "root")
WEDGED = "card 0000:03:00.0 is wedged: reboot"


def card(*holdings: Holding, hidden: int = 0, fault: str = "", wedged: bool = False) -> Card:
    memory = occupancy(ADDRESS, 5.0, Memory(hidden=hidden), holdings)
    return Card((memory,), fault=fault, wedged=wedged)


def told(port: Reading[Port], at_card: Reading[Card]) -> Sight:
    """What they have against a launch, as of a look since 4.0."""
    said = obstacle(launch(), port, at_card, 4.0)
    assert said is not None
    return said


@pytest.mark.parametrize(
    ("port", "at_card", "found"),
    [
        (FREE, Card(), ""),
        (FREE, card(), ""),
        (FREE, card(PYTHON), "pid 7 (python) of user root holds 90 MiB of card 0000:03:00.0"),
        (FREE, card(fault=WEDGED), WEDGED),
        (FREE, card(PYTHON, fault=WEDGED), WEDGED),
        (FREE, card(hidden=6000 * MIB), "6,300 MiB of card 0000:03:00.0 are in use"),
        (TAKEN, card(), "cannot be bound"),
        (TAKEN, card(hidden=6000 * MIB), "cannot be bound"),
        (replace(FREE, listeners=(LISTENER,)), card(PYTHON), "holds port 8000 (127.0.0.1:8000); pid 7"),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_named(port: Port, at_card: Card, found: str) -> None:
    said = told(Known(port, 5.0), Known(at_card, 5.0))
    assert found in said.words
    assert bool(found) == bool(said.words)
    assert (said == CLEAR) == (not found)


def test_an_old_look_and_one_that_failed_are_no_free_card() -> None:
    good = Known(card(), 5.0)
    assert obstacle(launch(), Known(FREE, 5.0), good, 6.0) is None
    assert "no answer within 60 s" in told(Known(FREE, 5.0), Unknown("no answer within 60 s", 5.0)).words


def test_what_is_to_be_done_about_it_fits_the_obstacle() -> None:
    dark = Unknown("no answer within 60 s", 5.0)
    for at_card, todo in (
        (Known(card(PYTHON), 5.0), END_HOLDER),
        (Known(card(PYTHON, fault="it is wedged"), 5.0), BRING_BACK),
        (Known(card(hidden=6000 * MIB), 5.0), FIND_HOLDER),
        (dark, LET_LOOK),
    ):
        assert told(Known(FREE, 5.0), at_card).todo == todo
    assert told(dark, Known(card(), 5.0)).todo == LET_LOOK


def test_a_wedged_card_is_told_from_one_that_is_taken_or_cannot_be_asked() -> None:
    wedged, silent = (Known(card(fault="it does not answer", wedged=known), 5.0) for known in (True, False))
    taken, dark = Known(card(PYTHON), 5.0), Unknown("no answer within 60 s", 5.0)
    codes = [told(Known(FREE, 5.0), one).code for one in (wedged, silent, taken, dark)]
    assert codes == [ExitCode.WEDGED, *[ExitCode.BLOCKED] * 3]


def seen_twice(first: int, second: int, **changes: object) -> Known[Card]:
    """Two looks at a card on which nobody is named; MiB that are hidden at each."""
    look = occupancy(ADDRESS, 5.0, Memory(drivers=second * MIB), [])
    look = replace(look, earlier=Known(first * MIB, 4.0), **changes)  # pyright: ignore[reportArgumentType]
    return Known(Card((look,)), 5.0)


def test_memory_that_nobody_is_named_for_is_given_a_moment_and_a_longer_one_while_it_moves() -> None:
    still, moving, taken = (
        told(Known(FREE, 5.0), one).grace
        for one in (seen_twice(6000, 6000), seen_twice(9000, 6000), Known(card(PYTHON), 5.0))
    )
    assert (still, moving) == (RETURNS_WITHIN, MOVES_WITHIN)
    assert taken == 0.0, "who is named does not go by itself"


def test_what_is_left_on_any_of_the_cards_is_told() -> None:
    two = launch(cards=(ADDRESS, "0000:04:00.0"))
    (dirty,) = seen_twice(6000, 6000).value.memory
    (clean,) = seen_twice(300, 300).value.memory
    assert left_on(two, Card((clean, clean)), 4.0, 1.0) == ""
    assert "6,000 MiB of card 0000:03:00.0 are in use" in left_on(two, Card((clean, dirty)), 4.0, 1.0)


def test_a_look_teaches_what_each_card_has_when_idle_and_one_that_failed_teaches_nothing() -> None:
    assert lessons(launch(), seen_twice(300, 300), 4.0) == (KeepBaseline(ADDRESS, 300 * MIB),)
    assert lessons(launch(), seen_twice(300, 300), 4.5) == (), "the earlier look is too old"
    assert lessons(launch(), Unknown("no answer within 60 s", 5.0), 4.0) == ()
    assert lessons(launch(), seen_twice(400, 400, baseline=300 * MIB), 4.0) == (KeepBaseline(ADDRESS, 400 * MIB),)
    risen = occupancy(ADDRESS, 5.0, Memory(drivers=400 * MIB, unreadable=1), [])
    risen = replace(risen, earlier=Known(400 * MIB, 4.0), baseline=300 * MIB)
    assert lessons(launch(), Known(Card((risen,)), 5.0), 4.0) == (), "who may not be looked into may hide there"
    assert lessons(launch(), Known(Card((risen,)), 5.0), 4.0, kept=True) == (KeepBaseline(ADDRESS, 400 * MIB),)


def test_what_a_look_cannot_tell_is_remarked() -> None:
    look = occupancy(ADDRESS, 5.0, Memory(unreadable=3), [])
    (said,) = remarks(Known(Card((look,)), 5.0))
    assert said == "300 MiB of card 0000:03:00.0 are in use, and nobody can be named for them"
    assert remarks(Unknown("no answer within 60 s", 5.0)) == ()
