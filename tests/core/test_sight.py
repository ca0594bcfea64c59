"""What a look has against a launch."""

from dataclasses import replace

import pytest

from arcops.core.decide.sight import END_HOLDER, LET_LOOK, obstacle, refusal, remedy
from arcops.core.errors import ExitCode
from arcops.core.quantity import Known, Unknown
from arcops.core.world import Card, Holder, Port
from tests.core.simulated import launch

FREE = Port((), ours=False, bindable=True)
OTHER = Holder(7, "python", "root", "90 MiB of card 0000:03:00.0")


@pytest.mark.parametrize(
    ("port", "card", "found"),
    [
        (FREE, Card((), 0), ""),
        (FREE, Card((), 3), ""),
        (FREE, Card((OTHER,), 0), "pid 7 (python) of user root holds 90 MiB of card 0000:03:00.0"),
        (FREE, Card((), 0, fault="card 0000:03:00.0 is wedged: reboot"), "card 0000:03:00.0 is wedged: reboot"),
        (FREE, Card((OTHER,), 0, fault="card 0000:03:00.0 is wedged: reboot"), "card 0000:03:00.0 is wedged: reboot"),
        (replace(FREE, bindable=False), Card((), 0), "cannot be bound"),
    ],
)
def test_what_is_in_the_way_is_named(port: Port, card: Card, found: str) -> None:
    said = obstacle(launch(), Known(port, 5.0), Known(card, 5.0), 4.0)
    assert said is not None
    assert found in said
    assert bool(found) == bool(said)


def test_an_old_look_and_one_that_failed_are_no_free_card() -> None:
    good = Known(Card((), 0), 5.0)
    assert obstacle(launch(), Known(FREE, 5.0), good, 6.0) is None
    failed = Unknown("no answer within 60 s", 5.0)
    assert "no answer within 60 s" in (obstacle(launch(), Known(FREE, 5.0), failed, 4.0) or "")


def test_what_is_to_be_done_about_it_fits_the_obstacle() -> None:
    good, dark = Known(Card((), 0), 5.0), Unknown("no answer within 60 s", 5.0)
    assert remedy(Known(FREE, 5.0), good) == END_HOLDER
    assert remedy(Known(FREE, 5.0), dark) == remedy(dark, good) == LET_LOOK
    assert remedy(Known(FREE, 5.0), Known(Card((OTHER,), 0, fault="it is wedged"), 5.0)) == "bring the card back"


def test_a_wedged_card_is_told_from_one_that_is_taken_or_cannot_be_asked() -> None:
    wedged, silent = (Card((), 0, fault="it does not answer", wedged=known) for known in (True, False))
    assert refusal(Known(wedged, 5.0)) is ExitCode.WEDGED
    for other in (Known(silent, 5.0), Known(Card((OTHER,), 0), 5.0), Unknown("no answer within 60 s", 5.0)):
        assert refusal(other) is ExitCode.BLOCKED
