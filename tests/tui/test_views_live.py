"""The views before a real daemon with a fake vLLM: what they ask is what it answers."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.tui.app import OperatorScreen
from arcops.tui.live.feed import Feed
from arcops.tui.views import views
from tests.daemon.rig import Rig
from tests.tui.screen_text import text_of
from tests.tui.views.stage import until

SLOW = 40.0
"""Seconds for what is done by other processes on a busy machine."""


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig]:
    with Rig(tmp_path) as one:
        yield one


@pytest.mark.processes
@pytest.mark.asyncio
async def test_each_view_tells_what_the_daemon_and_the_machine_say(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    for name, value in rig.env().items():
        monkeypatch.setenv(name, value)
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    feed = Feed(rig.paths.socket, rig.instance)
    app = OperatorScreen(feed, tuple)
    keys = {entry.name: str(number + 1) for number, entry in enumerate(views(feed, tuple))}

    async with app.run_test(size=(120, 48)) as pilot:

        async def see(*wanted: str) -> None:
            await until(pilot, lambda: all(text in text_of(app) for text in wanted), SLOW)

        await see("serving target-only")
        await pilot.press(keys["logs"])
        await see("Backend log", "following", "Resolved architecture")
        await pilot.press("b")
        await see("Supervisor log", "phase=serving")
        await pilot.press("b", "p")
        await see("The log of which launch?", "target-only")
        await pilot.press("down", "enter")
        await see("(chosen)", "Resolved architecture")
        await pilot.press("b")
        await see("Supervisor log", "phase=serving")
        await pilot.press("b")
        await see("(chosen)", "Resolved architecture")

        await pilot.press(keys["events"])
        await see("serving tiny", "Numbers around it")
        await see("→", "before → after")

        await pilot.press(keys["card"])
        await see("no card, a file", "held by   arcopsd", "── Memory", "no profile has a card")

        await pilot.press(keys["checks"])
        await see("checks: ", "configuration", "residue")

        rig.kill_daemon()
        await pilot.press(keys["logs"])
        await see("! no more lines: ", "Resolved architecture")
        await pilot.press(keys["events"])
        await see("! no new ones: ", "serving tiny")
        rig.start()
        await pilot.press(keys["logs"])
        await see("(chosen)")
        await until(pilot, lambda: "no more lines" not in text_of(app), SLOW)
        assert text_of(app).count("Resolved architecture") == 1
        await pilot.press(keys["events"])
        await see("arcopsd")
        await until(pilot, lambda: "no new ones" not in text_of(app), SLOW)
