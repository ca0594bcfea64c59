"""The view of the doctor's findings: what it shows, what each key does."""

import pytest

from arcops.core.errors import ArcopsError
from arcops.tui.panels.check_list import sorted_findings
from arcops.tui.views.checks import Checks
from tests.tui.on_demand import Prepared
from tests.tui.screen_text import check
from tests.tui.views.happenings import FINDINGS
from tests.tui.views.stage import SIZES, SMALL, on_stage, until, wheel

DONE = "7 checks: 1 problem, 1 warning, 1 unknown"


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x48"])
async def test_the_worst_is_first_with_what_helps(size: tuple[int, int]):
    async with on_stage(Checks(Prepared(findings=FINDINGS), clock=lambda: 100.0), size) as (app, pilot):
        await until(pilot, lambda: DONE in app.text)
        check(f"checks-{size[0]}x{size[1]}", app.text)


@pytest.mark.asyncio
async def test_a_small_terminal_shows_list_and_remedy():
    async with on_stage(Checks(Prepared(findings=FINDINGS)), SMALL) as (app, pilot):
        await until(pilot, lambda: DONE in app.text)
        shown = app.text.splitlines()
        assert len(shown) == SMALL[1]
        assert all(len(line) <= SMALL[0] for line in shown)
        assert "▸ ✖ problem" in app.text
        assert "do        ps -fp 5150" in app.text


@pytest.mark.asyncio
async def test_keys_mouse_and_wheel_select():
    async with on_stage(Checks(Prepared(findings=FINDINGS))) as (app, pilot):
        await until(pilot, lambda: DONE in app.text)
        assert "── card-holders" in app.text
        await pilot.press("down")
        assert "── lingering" in app.text
        assert "do        arcops service linger on" in app.text
        assert "`arcops doctor --fix` does it: enable lingering" in app.text
        await pilot.press("j", "k", "up")
        assert "── card-holders" in app.text
        await pilot.press("end")
        assert "── versions" in app.text
        await pilot.press("home", "pagedown", "pageup")
        assert "── card-holders" in app.text
        await wheel(pilot, "#check-list", up=False)
        assert "── lingering" in app.text
        await pilot.click("#check-list", offset=(10, 4))
        assert "── runtime" in app.text


def test_checks_that_are_alike_keep_their_places_in_whatever_order_they_answer():
    assert sorted_findings(FINDINGS) == sorted_findings(FINDINGS[::-1])


@pytest.mark.asyncio
async def test_while_a_check_hangs_the_screen_lives_and_the_others_are_shown():
    source = Prepared(findings=FINDINGS, hanging=("kernel-log",))
    async with on_stage(Checks(source)) as (app, pilot):
        await until(pilot, lambda: "6 answers" in app.text)
        assert "looking for " in app.text
        await pilot.press("down")
        assert "── lingering" in app.text
        await pilot.press("u")
        source.go_on.set()
        await until(pilot, lambda: DONE in app.text)
        assert "── lingering" in app.text
    assert source.asked == ["examine"]


@pytest.mark.asyncio
async def test_looked_at_again_the_selection_stays_and_news_are_shown():
    source = Prepared(findings=FINDINGS)
    async with on_stage(Checks(source)) as (app, pilot):
        await until(pilot, lambda: DONE in app.text)
        await pilot.press("down", "down")
        assert "── runtime" in app.text
        source.findings = tuple(one for one in FINDINGS if one.name != "card-holders")
        await pilot.press("u")
        await until(pilot, lambda: "6 checks: 0 problems, 1 warning, 1 unknown" in app.text)
        assert "── runtime" in app.text
        assert "card-holders" not in app.text


@pytest.mark.asyncio
async def test_where_nobody_can_look_it_says_why():
    source = Prepared(refusal=ArcopsError("a recording has no machine to examine"))
    async with on_stage(Checks(source)) as (app, pilot):
        await until(pilot, lambda: "! a recording has no machine to examine" in app.text)
        assert "nothing was found out" in app.text
        await pilot.press("down", "end", "right_square_bracket")


@pytest.mark.asyncio
async def test_the_remedy_may_be_copied():
    view = Checks(Prepared(findings=FINDINGS))
    async with on_stage(view) as (app, pilot):
        await until(pilot, lambda: DONE in app.text)
        await pilot.press("down")
        assert view.copyable()[0] == ("what to do", "arcops service linger on")
        assert dict(view.copyable())["what was seen"].startswith("/var/lib/systemd/linger/op")


def test_nothing_may_be_copied_before_the_first_look():
    assert Checks(Prepared()).copyable() == ()
