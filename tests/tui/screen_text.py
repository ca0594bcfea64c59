"""The screen as plain text, and its comparison with what was approved."""

import os
from pathlib import Path

import pytest
from textual.app import App

SNAPSHOTS = Path(__file__).parent / "snapshots"


def text_of(app: App[None]) -> str:
    """What the topmost screen shows, a line each, without trailing blanks."""
    compositor = app.screen._compositor  # pyright: ignore[reportPrivateUsage] - no public way to read cells
    lines = ("".join(segment.text for segment in strip).rstrip() for strip in compositor.render_strips())
    return "\n".join(lines) + "\n"


def check(name: str, text: str) -> None:
    """Compare with the approved text; with ARCOPS_UPDATE_SNAPSHOTS=1 approve this one."""
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("ARCOPS_UPDATE_SNAPSHOTS") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if not file.exists():
        pytest.fail(f"{file} is missing: look at the screen, and approve it with ARCOPS_UPDATE_SNAPSHOTS=1\n{text}")
    assert text == file.read_text(encoding="utf-8"), f"the screen differs from {file}:\n{text}"
