"""The overview: what there is room for at each size, and that it draws no more than what is new."""

from dataclasses import replace

import msgspec
import pytest

from arcops import wire
from arcops.tui.app import OperatorScreen
from arcops.tui.past import Mark, Past
from arcops.tui.snapshot import Snapshot
from arcops.tui.views.overview import layout_for
from tests.tui import card_scenes, scenes
from tests.tui.screen_text import check, text_of
from tests.tui.screens import Canned, shown, snapshot_of


def with_a_past(**changes: object) -> Snapshot:
    """Speculating, with an hour behind it and another launch in it, 40 s ago."""
    past = Past()
    past.take_samples(scenes.samples(600))
    past.take_minutes(scenes.samples(200, scenes.NOW // 60 * 60 - 60, step=60))
    made = replace(
        snapshot_of(scenes.speculating()),
        history=past.seconds,
        minutes=past.minutes,
        marks=(Mark(scenes.NOW - 40, "dflash2"),),
    )
    return replace(made, **changes)


def numbers_of(age: float) -> wire.Status:
    return msgspec.structs.replace(scenes.busy(), rates_age=age)


def styles_of(app: OperatorScreen, text: str) -> list[str]:
    """How the first line that has this in it looks, piece by piece."""
    compositor = app.screen._compositor  # pyright: ignore[reportPrivateUsage] - no public way to read cells
    line = next(strip for strip in compositor.render_strips() if text in "".join(piece.text for piece in strip))
    return [str(piece.style) for piece in line]


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(80, 24), (120, 30), (160, 48), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_overview_at_each_size(size: tuple[int, int]):
    async with shown(Canned(with_a_past()), size) as (app, _):
        check(f"overview-{size[0]}x{size[1]}", text_of(app))


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 48), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_cards_have_a_line_where_there_is_room_and_plots_where_there_is_much(size: tuple[int, int]):
    status = msgspec.structs.replace(scenes.speculating(), cards=(card_scenes.glance(),))
    async with shown(Canned(with_a_past(status=status)), size) as (app, _):
        text = text_of(app)
        assert ("card     27.9 of 31.9 GiB" in text) is (size[1] >= 24)
        assert ("── Card memory   27.9 GiB" in text) is (size[1] >= 60)
        check(f"overview-card-{size[0]}x{size[1]}", text)


@pytest.mark.asyncio
async def test_who_holds_the_card_is_told_where_nothing_serves():
    status = msgspec.structs.replace(scenes.blocked(), cards=(card_scenes.glance(),))
    async with shown(Canned(snapshot_of(status))) as (app, _):
        assert "card     27.9 of 31.9 GiB" in text_of(app)


@pytest.mark.asyncio
async def test_the_hour_is_drawn_in_minutes():
    status = msgspec.structs.replace(scenes.speculating(), window=3600.0)
    async with shown(Canned(with_a_past(window=3600.0, status=status)), (160, 48)) as (app, _):
        check("overview-hour-160x48", text_of(app))


@pytest.mark.asyncio
async def test_a_resize_changes_between_rows_and_plots():
    async with shown(Canned(with_a_past()), (80, 24)) as (app, pilot):
        assert "── Rates" in text_of(app)
        await pilot.resize_terminal(160, 48)
        await pilot.pause()
        assert "── Rates" not in text_of(app)
        assert "── Decode" in text_of(app)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert "── Rates" in text_of(app)
        assert "── Decode" not in text_of(app)


@pytest.mark.asyncio
async def test_plots_leave_the_screen_to_the_log_when_nothing_serves():
    source = Canned(with_a_past())
    async with shown(source, (160, 48)) as (app, pilot):
        source.show(replace(source.now, status=scenes.stopped()))
        await pilot.pause()
        text = text_of(app)
        assert "── Decode" not in text
        assert text.splitlines().index(next(line for line in text.splitlines() if "── Log" in line)) < 6


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "old", [snapshot_of(scenes.busy(), silent=9.0), snapshot_of(numbers_of(12.0))], ids=["no word", "old numbers"]
)
async def test_numbers_that_are_not_live_look_different(old: Snapshot):
    source = Canned(snapshot_of(scenes.busy()))
    async with shown(source) as (app, pilot):
        live = styles_of(app, "412 tok/s")
        source.show(old)
        await pilot.pause()
        assert styles_of(app, "412 tok/s") != live


def test_a_wide_screen_has_plots_earlier_than_a_narrow_one():
    assert layout_for(160, 26).plots
    assert not layout_for(80, 26).plots
    assert layout_for(80, 40).plots
    assert not layout_for(80, 40).gauges
    assert layout_for(200, 56).more
    assert layout_for(200, 56).card_plots
    assert not layout_for(160, 44).card_plots
    assert layout_for(80, 20).cards
    assert not layout_for(60, 16).cards
