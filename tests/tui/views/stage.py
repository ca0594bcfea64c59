"""One view by itself on a screen, with as much room as the whole screen leaves it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from arcops import wire
from arcops.tui.app import OperatorScreen
from arcops.tui.snapshot import Link, Snapshot
from arcops.tui.views.base import View
from tests.tui import scenes
from tests.tui.screen_text import text_of

SIZES = [(80, 24), (160, 48)]
SMALL = (60, 20)
NAMED = {"slash": "/"}
"""What keys with a name of their own write."""
HEAD = 4
"""Rows that the status and the views' names take; the keys take one more below."""


class Stage(App[None]):
    """The view in the stylesheet of the whole screen."""

    CSS_PATH = OperatorScreen.CSS_PATH
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = OperatorScreen.HORIZONTAL_BREAKPOINTS

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        super().__init__()
        self.animation_level = "none"
        self._view, self._snapshot = view, snapshot
        self.said: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("\n".join(["(head)"] * HEAD))
        yield self._view
        yield Static("(keys)")

    def on_mount(self) -> None:
        self._view.show(self._snapshot)
        self._view.opened()

    def notify(self, message: str, **_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - only recorded
        self.said.append(message)

    @property
    def text(self) -> str:
        """What is to be seen."""
        return text_of(self)


def snapshot_of(status: wire.Status | None = None, **changes: object) -> Snapshot:
    made = {"socket": "/run/user/1000/arcops/main.sock", "instance": "main", "window": 60.0, "now": scenes.NOW}
    return Snapshot(**{**made, "link": Link.LIVE, "status": status or scenes.busy(), **changes})  # pyright: ignore[reportArgumentType] - a test's own words


@asynccontextmanager
async def on_stage(
    view: View, size: tuple[int, int] = (80, 24), snapshot: Snapshot | None = None
) -> AsyncGenerator[tuple[Stage, Pilot[None]]]:
    app = Stage(view, snapshot or snapshot_of())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool], within: float = 30.0) -> None:
    """Let the screen go on until it is so."""
    deadline = monotonic() + within
    while not condition():
        if monotonic() > deadline:
            pytest.fail(f"not so within {within:g} s; the screen shows\n{text_of(pilot.app)}")
        await pilot.pause(0.02)


async def wheel(pilot: Pilot[None], widget: str, *, up: bool) -> None:
    """A step of the mouse's wheel over the middle of a widget."""
    kind = events.MouseScrollUp if up else events.MouseScrollDown
    await pilot._post_mouse_events([kind], widget=widget, offset=(5, 5))  # pyright: ignore[reportPrivateUsage] - no public way
    await pilot.pause()


def typed_ahead(app: App[None], *keys: str) -> None:
    """Keys that arrive together, as they do where the screen is slower than who types."""
    for key in keys:
        app.post_message(events.Key(key, NAMED.get(key, key)))
