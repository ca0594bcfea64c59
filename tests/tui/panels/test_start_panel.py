"""How far an order has got, as words."""

import msgspec
import pytest

from arcops import wire
from arcops.core.phase import Phase
from arcops.tui.panels.base import Room
from arcops.tui.panels.start import StartPanel
from tests.tui import scenes
from tests.tui.screens import MOMENTS, snapshot_of


def said(status: wire.Status, width: int = 78) -> str:
    lines = StartPanel().lines(snapshot_of(status), Room(width, 0, tall=False))
    return "\n".join("".join(text for text, _ in line) for line in lines)


def switching(phase: Phase, **changes: object) -> wire.Status:
    status = msgspec.structs.replace(scenes.draining(), phase=phase.value, phase_code=phase.code)
    return msgspec.structs.replace(status, **changes)


@pytest.mark.parametrize("moment", ["stopped", "busy", "suspect", "failed", "blocked", "wedged"])
def test_where_no_order_is_under_way_there_is_nothing_to_show(moment: str):
    assert StartPanel().lines(MOMENTS[moment](), Room(78, 0, tall=False)) == ()


@pytest.mark.parametrize("phase", [Phase.DRAINING, Phase.STOPPING, Phase.CLEARING, Phase.STARTING, Phase.CHECKING])
def test_a_switch_marks_the_phase_that_it_is_in(phase: Phase):
    text = said(switching(phase))
    assert "Switch · to target-only" in text
    steps = "draining · stopping · clearing · starting · checking · serving"
    assert steps.replace(phase.value, f"[{phase.value}]") in text


def test_the_first_start_has_nothing_to_take_down():
    order = wire.OrderInfo(id=1, goal="run", profile="dflash2", committed=False)
    text = said(switching(Phase.STARTING, order=order))
    assert "phases    [starting] · checking · serving" in text


def test_a_stop_ends_in_stopped():
    order = wire.OrderInfo(id=1, goal="stop", profile=None, committed=False)
    text = said(switching(Phase.STOPPING, order=order))
    assert "── Stop ──" in text
    assert "draining · [stopping] · clearing · stopped" in text


def test_where_there_is_no_room_for_all_phases_their_number_is_said():
    assert "phases    [clearing] · 3 of 6" in said(switching(Phase.CLEARING), 50)


def test_a_start_that_nobody_ordered_has_its_bars_and_no_phases():
    order = wire.OrderInfo(id=1, goal="run", profile="dflash2", committed=True)
    text = said(msgspec.structs.replace(scenes.starting(), order=order))
    assert "phases" not in text
    assert "12 s of usually 31 s" in text


def test_a_phase_from_a_newer_daemon_has_no_place_in_the_way():
    status = msgspec.structs.replace(scenes.draining(), phase="dreaming")
    assert "phases" not in said(status)
