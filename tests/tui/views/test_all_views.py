"""All views within the whole screen."""

import pytest

from arcops.tui.snapshot import Snapshot
from arcops.tui.views import views
from tests.tui.screen_text import text_of
from tests.tui.test_app import Canned, shown
from tests.tui.views.happenings import FINDINGS, NIGHT, numbers
from tests.tui.views.stage import SIZES, SMALL, snapshot_of

NAMES = ("logs", "events", "card", "checks")
EXPECTED = {"logs": "Backend log", "events": "Event 14", "card": "── Locks", "checks": "Checks of this machine"}


def source_of(snapshot: Snapshot) -> Canned:
    source = Canned(snapshot)
    source.on_demand.history, source.on_demand.findings, source.on_demand.numbers = NIGHT, FINDINGS, numbers()
    return source


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [*SIZES, SMALL, (20, 5)], ids=str)
async def test_each_has_its_key_and_leaves_the_rest_of_the_screen_alone(size: tuple[int, int]):
    source = source_of(snapshot_of())
    keys = {entry.name: str(number + 1) for number, entry in enumerate(views(source, tuple))}
    async with shown(source, size) as (app, pilot):
        for name in NAMES:
            await pilot.press(keys[name])
            await pilot.pause()
            text = text_of(app)
            assert len(text.splitlines()) == size[1]
            if size[1] >= SMALL[1]:
                assert EXPECTED[name] in text, name
                assert "quit" in text.splitlines()[-1]
        for name in reversed(NAMES):
            await pilot.press(keys[name])
            await pilot.pause()
            assert size[1] < SMALL[1] or EXPECTED[name] in text_of(app), name
