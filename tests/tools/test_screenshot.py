"""The README's picture can be drawn, and fetches nothing."""

import re

import pytest

from tools.screenshot import PICTURE, picture


def words(svg: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", svg.replace("&#160;", " ")).split())


@pytest.mark.asyncio
async def test_the_picture_shows_the_numbers_of_the_recorded_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    drawn = await picture()
    assert "serving demo-dflash2" in words(drawn)
    assert "recording of 2026-" in words(drawn)
    assert re.search(r"TTFT .* ms", words(drawn))
    assert "@font-face" not in drawn
    assert "url(http" not in drawn


def test_the_picture_in_the_repository_is_of_that_run() -> None:
    assert "serving demo-dflash2" in words(PICTURE.read_text())
