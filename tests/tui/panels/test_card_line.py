"""The cards of what runs, in a line each."""

import msgspec
import pytest

from arcops import wire
from arcops.tui.ink import length
from arcops.tui.panels.base import Room
from arcops.tui.panels.card_line import CardsPanel
from tests.tui import scenes
from tests.tui.card_scenes import SECOND, glance
from tests.tui.views.stage import snapshot_of


def lines(*cards: wire.CardGlance, width: int = 78, tall: bool = False, silent: float = 0.0) -> list[str]:
    status = msgspec.structs.replace(scenes.busy(), cards=cards)
    now = snapshot_of(status, silent=silent, now=scenes.NOW + silent)
    drawn = CardsPanel().lines(now, Room(width, 0, tall=tall))
    assert all(length(line) <= max(width, 50) for line in drawn)
    return ["".join(text for text, _ in line) for line in drawn]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (56, "card     27.9 of 31.9 GiB  87.6 %    187 W    72 °C"),
        (78, "card     27.9 of 31.9 GiB ██████████▌░  87.6 %    187 W    72 °C   2,400 MHz"),
        (97, "card     27.9 of 31.9 GiB ██████████▌░  87.6 %    187 W    72 °C   2,400 MHz   busy  93 %"),
    ],
)
def test_what_does_not_fit_is_left_out_from_the_end(width: int, shown: str):
    assert lines(glance(), width=width) == [shown]


def test_what_is_wrong_comes_before_the_numbers():
    assert "2 resets   throttled: power limit    187 W" in lines(glance(throttling=("power limit",), resets=2))[0]
    assert "1 reset  " in lines(glance(resets=1))[0]


def test_what_is_unknown_is_no_nought_and_says_why_where_there_is_room():
    blind = glance(memory_used=None, power=None, absent={"memory_used": "needs CAP_PERFMON", "power": "not here"})
    assert lines(blind, width=120) == [
        "card     ? of 31.9 GiB in use: needs CAP_PERFMON    72 °C   2,400 MHz   busy  93 %   no power: not here"
    ]
    assert lines(glance(memory_total=None), width=40)[0].startswith("card     27.9 GiB in use")


def test_an_old_reading_says_its_age():
    assert "read 21 s ago" in lines(glance(), silent=20.0)[0]
    assert "read" not in lines(glance())[0]


def test_a_card_that_nobody_has_read_yet_has_no_age():
    line = lines(glance(at=0.0, memory_used=None, absent={"memory_used": "nobody has looked yet"}), width=120)[0]
    assert "in use: nobody has looked yet" in line
    assert "ago" not in line


def test_several_cards_have_a_line_each_as_far_as_there_is_room():
    cards = (glance(), glance(address=SECOND), glance(address="0001:05:00.0"))
    assert [line.split()[0] for line in lines(*cards, tall=True)] == ["03:00.0", "04:00.0", "0001:05:00.0"]
    assert [line.split()[0] for line in lines(*cards)] == ["03:00.0", "cards"]
    assert lines(*cards)[1] == "cards    2 more: 5 shows them"


def test_without_a_card_there_is_no_line():
    assert lines() == []
    assert CardsPanel().lines(snapshot_of(scenes.busy()), Room(78, 0, tall=True)) == ()
