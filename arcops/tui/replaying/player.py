"""The operator's screen over a recording: the same views, and keys that move in time."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from arcops import recording
from arcops.core.errors import ArcopsError
from arcops.tui import themes
from arcops.tui.app import OperatorScreen
from arcops.tui.panels.playback import PlaybackPanel
from arcops.tui.profiles import ProfileChoice
from arcops.tui.replaying.replay import Replay, refuse
from arcops.tui.tidying import Tidying

STEP, LONG_STEP = 10.0, 60.0
"""Seconds that the arrows move."""


class PlayerScreen(OperatorScreen):
    """Plays; whatever would order something is refused with a word."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", tooltip="stand still or go on"),
        Binding("less_than_sign", "pace(-1)", "slower", tooltip="half the pace", key_display="<"),
        Binding("greater_than_sign", "pace(1)", "faster", tooltip="twice the pace", key_display=">"),
        Binding("left", f"seek({-STEP})", "back", tooltip="10 s back; with shift a minute", key_display="←"),
        Binding("right", f"seek({STEP})", "on", tooltip="10 s on; with shift a minute", key_display="→"),
        # Refused with a word, and not offered.
        Binding("s", "switch", show=False),
        Binding("x", "stop", show=False),
        Binding("r", "restart", show=False),
        Binding("w", "window", show=False),
        Binding("shift+left", f"seek({-LONG_STEP})", show=False),
        Binding("shift+right", f"seek({LONG_STEP})", show=False),
    ]

    def __init__(self, replay: Replay) -> None:
        super().__init__(replay, _no_profiles)
        self._replay = replay
        self._head = (PlaybackPanel(), *self._head)

    def action_pause(self) -> None:
        """Stand still or go on."""
        self._replay.pause()

    def action_pace(self, steps: int) -> None:
        """Faster or slower."""
        self._replay.faster(steps)

    def action_seek(self, seconds: float) -> None:
        """Forward or back."""
        self._replay.seek(seconds)

    def look_through(self, window: float) -> None:
        """The window is the recording's own."""
        try:
            self._replay.look_through(window)
        except ArcopsError as error:
            self._say(error.message, error.hint, bad=True)

    def _reachable(self) -> bool:
        try:
            refuse()
        except ArcopsError as error:
            self._say(error.message, error.hint, bad=True)
        return False


def _no_profiles() -> Sequence[ProfileChoice]:
    raise ArcopsError("profiles are files of the machine that was recorded: they are not in the recording")


def run(file: Path) -> int:
    """Play the recording until the operator leaves; the exit code. Raises ArcopsError for a file that is none."""
    themes.heed_no_color()
    app = PlayerScreen(Replay(recording.read(file)))
    app.tidy(Tidying())
    app.run()
    return app.return_code or 0
