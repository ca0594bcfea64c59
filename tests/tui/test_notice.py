"""The lines about survival and environment: said where something is wrong, and where there is room for good news."""

import pytest

from arcops import wire
from arcops.core.phase import Phase
from arcops.tui.ink import Lines
from arcops.tui.panels.base import Room
from arcops.tui.panels.notice import NoticePanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes

HERE, THERE = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


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


@pytest.mark.parametrize(
    ("qualified", "qualified_in", "tall", "shown"),
    [
        (True, HERE, False, ""),
        (True, HERE, True, "environment: qualified (aaaaaaaaaaaa)"),
        (False, None, False, ""),
        (False, None, True, "environment: never qualified"),
        (False, THERE, False, "! environment: since it last qualified, 1 thing has changed: a change a change …"),
        (False, THERE, True, "! environment: since it last qualified, 1 thing has changed: a change a change …"),
        (None, None, False, ""),
        (None, None, True, "environment: whether it has qualified is not known"),
    ],
)
def test_an_environment_that_has_changed_is_always_said(
    qualified: bool | None, qualified_in: str | None, tall: bool, shown: str
) -> None:
    info = wire.EnvironmentInfo(
        launch_id="one",
        digest=HERE,
        qualified=qualified,
        qualified_in=qualified_in,
        changes=1,
        since_qualified=("a \x1b[2Jchange " * 40,),
    )
    snapshot = Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=scenes.status(environment=info))
    found = NoticePanel().lines(snapshot, Room(80, 24, tall))
    assert ["".join(text for text, _ in line) for line in found] == [shown] * bool(shown)
