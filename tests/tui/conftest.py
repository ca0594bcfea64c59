"""The terminal that the screen believes to be on, whatever the tests run in."""

import pytest


@pytest.fixture(autouse=True)
def a_terminal_with_all_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
