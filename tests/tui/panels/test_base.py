"""How panels are drawn: only the lines that changed, cut where they are too long, and fit to be selected."""

from dataclasses import replace

import msgspec
import pytest
from textual.geometry import Region

from arcops.tui.ink import Ink, Line, cut, fitted, length, padded, plain, pushed_apart, rule, strong
from arcops.tui.panels.log import LogPanel
from arcops.tui.panels.rates import RatesPanel
from arcops.tui.panels.requests import RequestsPanel
from arcops.tui.snapshot import LogTail
from tests.tui import scenes
from tests.tui.screen_text import text_of
from tests.tui.test_app import Canned, shown, snapshot_of


def text(line: Line) -> str:
    return "".join(piece for piece, _ in line)


@pytest.mark.parametrize(
    ("pieces", "width", "wanted"),
    [
        (("short", " line"), 20, "short line"),
        (("exactly", " ten"), 11, "exactly ten"),
        (("one", " too", " many"), 8, "one too…"),
        (("cut in the first",), 4, "cut…"),
        (("wide 漢字 cells",), 8, "wide 漢…"),
        (("never half 漢",), 12, "never half…"),
        (("nothing",), 1, "…"),
    ],
)
def test_a_line_that_is_too_long_is_cut_with_an_ellipsis(pieces: tuple[str, ...], width: int, wanted: str):
    assert text(fitted(tuple(plain(piece) for piece in pieces), width)) == wanted


def test_a_line_is_as_long_as_the_cells_that_it_takes():
    assert length((plain("漢字"), plain(" ab"))) == 7
    assert text(pushed_apart((plain("漢字"),), (plain("right"),), 12)) == "漢字   right"
    assert text(pushed_apart((plain("漢字"),), (plain("right"),), 10)) == "漢字"
    assert text(rule("漢字", 12)) == "── 漢字 ────"
    assert padded("漢", 4) == "漢  "
    assert [cut("漢字 ab", 7), cut("漢字 ab", 6), cut("漢字", 0)] == ["漢字 ab", "漢字…", ""]


def test_a_cut_keeps_the_inks():
    assert fitted((strong("loud"), plain(" and quiet")), 8) == (("loud", Ink.STRONG), (" an…", Ink.PLAIN))


@pytest.mark.asyncio
async def test_only_the_lines_that_changed_are_drawn_again():
    source = Canned(snapshot_of(scenes.busy()))
    async with shown(source) as (app, pilot):
        panel = app.query_one(RequestsPanel)
        drawn: list[Region] = []
        was = panel.refresh

        def refresh(*regions: Region, **kwargs: bool) -> RequestsPanel:
            drawn.extend(regions)
            return was(*regions, **kwargs)

        panel.refresh = refresh  # type: ignore[method-assign]
        more = msgspec.structs.replace(scenes.busy(), rates=scenes.busy_rates(waiting=13))
        source.show(snapshot_of(more))
        await pilot.pause()
        assert [(region.y, region.height) for region in drawn] == [(1, 1)]
        assert "waiting    13" in text_of(app)
        assert "preempted     1" in text_of(app)


@pytest.mark.asyncio
async def test_another_theme_is_drawn_at_once():
    async with shown(Canned(snapshot_of(scenes.busy()))) as (app, pilot):
        panel = app.query_one(RatesPanel)
        app.theme = "textual-dark"
        await pilot.pause()
        dark = [str(piece.style) for piece in panel.render_line(1)]
        app.theme = "textual-light"
        await pilot.pause()
        assert [str(piece.style) for piece in panel.render_line(1)] != dark


@pytest.mark.asyncio
async def test_text_can_be_selected_with_the_mouse():
    lines = ("first line", "second line")
    async with shown(Canned(replace(snapshot_of(scenes.busy()), log=LogTail("x", lines)))) as (app, pilot):
        log = app.query_one(LogPanel)
        await pilot.mouse_down(log, offset=(0, 1))
        await pilot.hover(log, offset=(5, 2))
        await pilot.mouse_up(log, offset=(5, 2))
        await pilot.pause()
        assert app.screen.get_selected_text() == "first line\nsecond"
        assert "second line" in text_of(app)
