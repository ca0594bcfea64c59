"""The line about survival: said where it does not survive, and where there is room for good news."""

import pytest

from arcops import wire
from arcops.core.phase import Phase
from arcops.tui.ink import Lines
from arcops.tui.panels.base import Room
from arcops.tui.panels.notice import NoticePanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes


def lines(survival: wire.SurvivalInfo | None, *, tall: bool) -> Lines:
    status = scenes.status(Phase.STOPPED, survival=survival)
    snapshot = Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=status)
    return NoticePanel().lines(snapshot, Room(60, 24, tall))


@pytest.mark.parametrize(
    ("logout", "reboot", "tall", "shown"),
    [
        (True, True, False, 0),
        (True, True, True, 1),
        (True, False, False, 1),
        (False, False, False, 1),
        (None, None, False, 1),
    ],
)
def test_survival_is_one_line(logout: bool | None, reboot: bool | None, tall: bool, shown: int) -> None:
    found = lines(wire.SurvivalInfo(logout=logout, reboot=reboot, why="lingering is off"), tall=tall)
    assert ["".join(text for text, _ in line) for line in found] == ["boot: lingering is off"] * shown


def test_a_long_sentence_takes_one_line_of_a_small_screen_and_two_of_a_large_one() -> None:
    long = wire.SurvivalInfo(logout=False, reboot=False, why="lingering is off: " + "and so on " * 20)
    assert len(lines(long, tall=False)) == 1
    assert len(lines(long, tall=True)) == 2


def test_a_daemon_that_does_not_say_is_not_judged() -> None:
    assert lines(None, tall=True) == ()
