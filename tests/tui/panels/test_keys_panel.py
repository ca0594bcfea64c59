"""The last line: what there is room for, and what a click means."""

import pytest
from textual.dom import DOMNode

from arcops.tui.keys import Key, Keys
from arcops.tui.panels.keys import at, fitting

NODE = DOMNode()


def key(shown: str, label: str) -> Key:
    return Key((shown,), shown, label, f"{label} it", in_footer=True, action=label, of=NODE, moves=False)


OWN = (key("enter", "switch to it"), key("u", "read anew"))
EVERYWHERE = (key("s", "switch"), key("x", "stop"), key("r", "restart"), key("?", "help"), key("q", "quit"))
KEYS = Keys(OWN, EVERYWHERE)


def labels(keys: tuple[Key, ...]) -> list[str]:
    return [key.label for key in keys]


def test_with_room_for_all_all_are_there():
    assert fitting(KEYS, 100) == (OWN, EVERYWHERE)


@pytest.mark.parametrize("width", range(80))
def test_help_and_the_way_out_are_the_last_to_stay(width: int):
    own, everywhere = fitting(KEYS, width)
    assert labels(everywhere)[-2:] == ["help", "quit"]
    assert own == OWN[: len(own)]
    assert own == OWN or labels(everywhere) == ["help", "quit"], "the view's own go after the others"


def test_help_and_the_way_out_stand_last_whatever_an_application_adds():
    order = [*EVERYWHERE, key("space", "pause")]
    assert labels(Keys(OWN, tuple(order)).footer.everywhere) == ["switch", "stop", "restart", "pause", "help", "quit"]


def test_a_click_on_a_key_or_its_word_is_that_key_and_between_two_it_is_none():
    # `s switch  x stop`
    assert at(EVERYWHERE, 0) == EVERYWHERE[0]
    assert at(EVERYWHERE, 7) == EVERYWHERE[0]
    assert at(EVERYWHERE, 8) is None
    assert at(EVERYWHERE, 9) is None
    assert at(EVERYWHERE, 10) == EVERYWHERE[1]
    assert at(EVERYWHERE, -1) is None
    assert at(EVERYWHERE, 500) is None
    assert at((), 0) is None
