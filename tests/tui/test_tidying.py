"""Garbage is collected while nobody waits for a key."""

import gc
import sys
from types import SimpleNamespace

import pytest

from arcops.tui import tidying
from arcops.tui.app import OperatorScreen
from arcops.tui.tidying import AT_LAST, QUIET, SELDOM, Tidying
from tests.tui import scenes
from tests.tui.screens import Canned, snapshot_of


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the collector was told to do, in order."""
    told: list[str] = []

    def thresholds(_young: int, _middle: int, old: int) -> None:
        told.append(f"threshold {old}")

    spy = SimpleNamespace(
        collect=lambda: told.append("collect"),
        freeze=lambda: told.append("freeze"),
        get_threshold=gc.get_threshold,
        set_threshold=thresholds,
    )
    monkeypatch.setattr(tidying, "gc", spy)
    monkeypatch.setattr(tidying, "SWITCH", sys.getswitchinterval())
    return told


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tidy(done: list[str], clock: Clock) -> Tidying:
    del done  # nothing is really collected
    return Tidying(clock)


def test_what_was_made_to_last_is_set_aside_as_soon_as_nobody_presses_a_key(
    tidy: Tidying, clock: Clock, done: list[str]
):
    tidy.pressed()
    assert not tidy.look()
    clock.now += QUIET + 0.1
    assert tidy.look()
    assert done == ["collect", "freeze"]


def test_in_quiet_it_is_done_seldom_and_nothing_is_set_aside_twice(tidy: Tidying, clock: Clock, done: list[str]):
    clock.now += QUIET + 0.1
    tidy.look()
    looked: list[bool] = []
    for _ in range(int(SELDOM * 3)):
        clock.now += 1.0
        looked.append(tidy.look())
    assert sum(looked) == 3
    assert done == ["collect", "freeze", "collect", "collect", "collect"]


def test_a_new_view_is_set_aside_too(tidy: Tidying, clock: Clock, done: list[str]):
    clock.now += QUIET + 0.1
    tidy.look()
    tidy.grown()
    clock.now += 1.0
    assert tidy.look()
    assert done == ["collect", "freeze"] * 2


def test_keys_hold_it_off_but_not_for_ever(tidy: Tidying, clock: Clock):
    seconds = 0
    while seconds < 2 * AT_LAST:
        tidy.pressed()
        clock.now += 1.0
        seconds += 1
        if tidy.look():
            break
    assert seconds == AT_LAST


def test_the_old_are_not_looked_at_between_times(tidy: Tidying, done: list[str]):
    tidy.begin()
    assert done == [f"threshold {tidying.NEVER}"]
    assert gc.get_threshold()[2] < tidying.NEVER


@pytest.mark.asyncio
async def test_the_screen_says_when_a_key_is_pressed_and_when_a_view_is_made(done: list[str]):
    told: list[str] = []

    class Heard(Tidying):
        def pressed(self) -> None:
            told.append("pressed")

        def grown(self) -> None:
            told.append("grown")

    app = OperatorScreen(Canned(snapshot_of(scenes.busy())), tuple)
    app.tidy(Heard())
    async with app.run_test() as pilot:
        await pilot.press("w")
        assert set(told) == {"pressed"}
        await pilot.press("4")
        assert "grown" in told
