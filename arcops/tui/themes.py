"""Light, dark, or the terminal's own sixteen colours; and which of them the operator chose last."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from textual.app import App

THEMES: Mapping[str, str] = {"dark": "textual-dark", "light": "textual-light", "terminal": "ansi-dark"}
"""Our names, and Textual's. `terminal` sends no colour of its own, only the sixteen that the terminal has."""
_FEW = "standard"
"""Rich's word for sixteen colours: a theme's shades would be rounded until text and ground meet."""


def without_colour(env: Mapping[str, str]) -> bool:
    """NO_COLOR is set, and not empty (no-color.org)."""
    return bool(env.get("NO_COLOR"))


def only_terminal(app: "App[None]") -> str:
    """Why the terminal's own colours are all that can be shown, in words; empty where the others can be shown too."""
    if app.no_color:
        return "NO_COLOR is set: there are no other themes"
    return "this terminal has sixteen colours: there are no other themes" if app.console.color_system == _FEW else ""


def first_theme(app: "App[None]", chosen: str | None) -> str:
    """The theme to begin with: the one chosen last, unless the terminal cannot show it."""
    if only_terminal(app):
        return "terminal"
    return chosen if chosen is not None and chosen in THEMES else "dark"


def next_theme(now: str) -> str:
    """The one after it."""
    names = list(THEMES)
    return names[(names.index(now) + 1) % len(names)]


def heed_no_color() -> None:
    """An empty NO_COLOR asks for nothing; Textual would take it for a no."""
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]


class _Kept(msgspec.Struct, frozen=True):
    theme: str = "dark"


class Choice:
    """The operator's choice, kept in a file of its own. One that cannot be read or written harms nothing."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def read(self) -> str | None:
        if self._file is None:
            return None
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Kept).theme
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, theme: str) -> None:
        if self._file is None:
            return
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.write_bytes(msgspec.json.encode(_Kept(theme)) + b"\n")
