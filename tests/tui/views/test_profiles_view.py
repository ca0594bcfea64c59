"""The Profiles view: what it shows, and how a switch goes from there."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import OptionList

from arcops import wire
from arcops.core.errors import ArcopsError, InvalidProfileError
from arcops.tui.dialogs import Confirm
from arcops.tui.profiles import ProfileChoice
from tests.tui import profile_scenes, scenes
from tests.tui.screen_text import check, text_of
from tests.tui.screens import MOMENTS, Canned, Heard, no_daemon, shown, snapshot_of, until


def source_of(moment: str = "busy") -> Canned:
    source = Canned(MOMENTS[moment]())
    source.on_demand.pasts = profile_scenes.TOLD
    source.on_demand.plans = dict(profile_scenes.PLANS)
    return source


def choices() -> Sequence[ProfileChoice]:
    return profile_scenes.CHOICES


async def open_view(pilot: Pilot[None]) -> OptionList:
    await pilot.press("2")
    await until(pilot, lambda: pilot.app.screen.query_one("Profiles OptionList", OptionList).option_count > 0)
    await pilot.pause()
    return pilot.app.screen.query_one("Profiles OptionList", OptionList)


async def select(pilot: Pilot[None], name: str) -> None:
    options = await open_view(pilot)
    options.highlighted = [choice.name for choice in profile_scenes.CHOICES].index(name)
    await pilot.pause()


async def settled(pilot: Pilot[None]) -> None:
    """Until the story has the height that its lines take: they are drawn before there is room for them."""
    story = pilot.app.screen.query_one("Profiles .details", VerticalScroll)

    def fits() -> bool:
        panel = story.children[0]
        return panel.size.height == panel.get_content_height(story.size, story.size, panel.size.width)

    await until(pilot, fits)
    await pilot.pause()


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 48)], ids=["60x20", "80x24", "160x48"])
async def test_the_view_with_the_one_that_runs_and_with_another(size: tuple[int, int]):
    async with shown(source_of(), size, choices) as (app, pilot):
        await open_view(pilot)
        await until(pilot, lambda: "ready in 30 s" in text_of(app) and "memory: fits" in text_of(app))
        await settled(pilot)
        check(f"profiles-runs-{size[0]}x{size[1]}", text_of(app))
        await select(pilot, "target-only")
        await until(pilot, lambda: "differs in 6" in text_of(app) and "memory: does not fit" in text_of(app))
        await settled(pilot)
        check(f"profiles-differs-{size[0]}x{size[1]}", text_of(app))


@pytest.mark.asyncio
async def test_what_runs_is_selected_first():
    async with shown(source_of(), load=choices) as (app, pilot):
        options = await open_view(pilot)
        assert options.highlighted == 1
        assert "── dflash2 ──" in text_of(app)


@pytest.mark.asyncio
async def test_the_selection_moves_by_arrows_and_by_letters():
    async with shown(source_of(), load=choices) as (_, pilot):
        options = await open_view(pilot)
        seen: list[int | None] = []
        for key in ("G", "k", "up", "g", "j", "down", "end", "home"):
            await pilot.press(key)
            seen.append(options.highlighted)
        assert seen == [3, 2, 1, 0, 1, 2, 3, 0]


@pytest.mark.asyncio
async def test_a_click_selects_and_a_second_one_asks():
    async with shown(source_of(), load=choices) as (app, pilot):
        await open_view(pilot)
        await pilot.click("Profiles OptionList", offset=(5, 2))
        await until(pilot, lambda: "── target-only ──" in text_of(app))
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await pilot.click("Profiles OptionList", offset=(5, 2))
        await until(pilot, lambda: isinstance(app.screen, Confirm))


@pytest.mark.asyncio
async def test_while_the_files_are_read_it_says_so():
    go_on = threading.Event()

    def slowly() -> Sequence[ProfileChoice]:
        assert go_on.wait(30)
        return profile_scenes.CHOICES

    async with shown(source_of(), load=slowly) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: "reading the profiles…" in text_of(app))
        go_on.set()
        await until(pilot, lambda: "target-only" in text_of(app))
        assert "reading the profiles" not in text_of(app)


@pytest.mark.asyncio
async def test_a_configuration_that_cannot_be_read_is_said_and_harms_nothing():
    broken = True

    def load() -> Sequence[ProfileChoice]:
        if broken:
            raise InvalidProfileError("site.yaml:2: modls_dir: unknown key", hint="did you mean models_dir?")
        return profile_scenes.CHOICES

    async with shown(source_of(), load=load) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: "modls_dir: unknown key; did you mean models_dir?" in " ".join(text_of(app).split()))
        await pilot.press("enter", "down", "right_square_bracket")
        assert "serving dflash2" in text_of(app)
        broken = False
        await pilot.press("u")
        await until(pilot, lambda: "target-only" in text_of(app))
        assert "modls_dir" not in text_of(app)


@pytest.mark.asyncio
async def test_without_profiles_it_names_the_command_that_makes_one():
    async with shown(source_of(), load=tuple) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: "there are no profiles: see `arcops init`" in text_of(app))


@pytest.mark.asyncio
async def test_without_a_daemon_the_files_are_shown_and_the_past_is_unknown():
    source = Canned(no_daemon())
    source.on_demand.refusal = ArcopsError("no daemon answers")
    async with shown(source, load=choices) as (app, pilot):
        await select(pilot, "target-only")
        text = text_of(app)
        assert "ok       unknown" in text
        assert "runs" not in text
        assert "differs: unknown: no daemon answers" in text


@pytest.mark.asyncio
async def test_what_the_daemon_said_before_it_went_is_not_shown_as_how_things_stand():
    source = source_of()
    async with shown(source, load=choices) as (app, pilot):
        await open_view(pilot)
        await until(pilot, lambda: "ready in 30 s" in text_of(app))
        source.on_demand.refusal = ArcopsError("no daemon answers")
        source.show(no_daemon(status=scenes.busy(), silent=14.0, now=scenes.NOW + 14))
        await until(pilot, lambda: "ready in 30 s" not in text_of(app) and "runs" not in text_of(app))


@pytest.mark.asyncio
async def test_when_another_launch_runs_the_daemon_is_asked_again():
    source = source_of()
    async with shown(source, load=choices) as (app, pilot):
        await select(pilot, "target-only")
        await until(pilot, lambda: "differs in" in text_of(app))
        other = msgspec.structs.replace(profile_scenes.RUNNING, profile="target-only", launch_id="another")
        source.on_demand.pasts = msgspec.structs.replace(profile_scenes.TOLD, running=other)
        backend = scenes.backend(profile="target-only", launch_id="another")
        source.show(snapshot_of(msgspec.structs.replace(scenes.busy(), backend=backend)))
        await until(pilot, lambda: "its file has changed since it was started" in text_of(app))
        assert "● target-only" in text_of(app)


@pytest.mark.asyncio
async def test_enter_switches_after_saying_what_will_happen_and_a_yes():
    source = source_of()
    async with shown(source, load=choices) as (app, pilot):
        await select(pilot, "dflash2")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.pause()
        text = " ".join(text_of(app).replace("│", " ").split())
        assert "3 running and 12 waiting requests are open." in text
        assert "3 running requests get 60 s to finish" in text, "the daemon's own plan"
        assert "Loading dflash2 usually takes 31 s." in text
        await pilot.press("n")
        await pilot.pause()
        assert source.asked == [wire.SwitchRequest(profile="dflash2", dry_run=True)]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: source.asked[-1] == wire.SwitchRequest(profile="dflash2"))


@pytest.mark.asyncio
async def test_how_long_a_load_takes_is_said_to_be_unknown_where_it_never_became_ready():
    source = source_of()
    async with shown(source, load=choices) as (app, pilot):
        await select(pilot, "target-only")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.pause()
        assert "How long loading target-only takes is unknown" in text_of(app)


@pytest.mark.asyncio
async def test_a_switch_that_goes_on_shows_its_phases_and_the_diagnosis_when_it_fails():
    source = source_of("draining")
    async with shown(source, load=choices) as (app, pilot):
        await open_view(pilot)
        assert "[draining] · stopping · clearing · starting · checking · serving" in text_of(app)
        source.show(MOMENTS["starting"]())
        await until(pilot, lambda: "12 s of usually 31 s" in text_of(app))
        assert "clearing · [starting] · checking" in text_of(app)
        source.show(MOMENTS["failed"]())
        await until(pilot, lambda: "cause (kv_cache_too_small)" in text_of(app))
        assert "phases" not in text_of(app)


@pytest.mark.asyncio
async def test_u_reads_the_files_anew_and_keeps_the_selection():
    found = list(profile_scenes.CHOICES)
    async with shown(source_of(), load=lambda: tuple(found)) as (app, pilot):
        await select(pilot, "target-only")
        found.insert(0, replace(profile_scenes.CHOICES[1], name="a-new-one"))
        await pilot.press("u")
        await until(pilot, lambda: "a-new-one" in text_of(app))
        await pilot.pause()
        assert "── target-only ──" in text_of(app)


@pytest.mark.asyncio
async def test_the_brackets_scroll_the_story():
    async with shown(source_of(), (80, 24), choices) as (app, pilot):
        await select(pilot, "target-only")
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        story = app.screen.query_one("Profiles .details", VerticalScroll)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: story.scroll_y > 0)
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: story.scroll_y == 0)


@pytest.mark.asyncio
async def test_many_profiles_leave_room_for_the_story_of_one():
    many = tuple(replace(profile_scenes.CHOICES[1], name=f"profile-{number:03}") for number in range(200))
    async with shown(source_of(), (80, 24), lambda: many) as (app, pilot):
        options = await open_view(pilot)
        await pilot.press("end")
        await until(pilot, lambda: "── profile-199 ──" in text_of(app))
        assert "The 35B with a DFlash2 draft." in text_of(app)
        assert options.size.height >= 4
        assert text_of(app).count("profile-199") == 2, "the selected row is in sight"


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(60, 20), (160, 48), (200, 60)])
async def test_the_selected_row_is_in_sight_at_every_size(size: tuple[int, int]):
    many = tuple(replace(profile_scenes.CHOICES[1], name=f"profile-{number:03}") for number in range(200))
    source = source_of("failed")
    async with shown(source, size, lambda: many) as (app, pilot):
        await open_view(pilot)
        await pilot.press("end")
        await until(pilot, lambda: " profile-199 " in text_of(app))
        assert " profile-100 " not in text_of(app)


@pytest.mark.asyncio
async def test_the_command_line_of_the_selected_one_can_be_copied():
    async with shown(source_of(), load=choices) as (app, pilot):
        await select(pilot, "target-only")
        await copy(app, pilot, "command")
        assert app.copied[0].startswith("/opt/vllm/bin/vllm serve /models/qwen")


async def copy(app: Heard, pilot: Pilot[None], label: str) -> None:
    """Open the chooser and take the value of this label."""
    await pilot.press("c")
    await until(pilot, lambda: len(app.screen_stack) > 1)
    await pilot.pause()
    options = app.screen.query_one(OptionList)
    options.highlighted = [str(option.prompt).split()[0] for option in options.options].index(label)
    await pilot.press("enter")
    await until(pilot, lambda: bool(app.copied))


@pytest.mark.asyncio
async def test_another_view_stops_the_reading():
    """No answer that comes late may end the screen or another view."""
    go_on = threading.Event()

    def slowly() -> Sequence[ProfileChoice]:
        assert go_on.wait(30)
        return profile_scenes.CHOICES

    async with shown(source_of(), load=slowly) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: "reading the profiles…" in text_of(app))
        await pilot.press("1")
        go_on.set()
        await asyncio.sleep(0)
        await pilot.pause()
        assert "Requests" in text_of(app)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["80x24", "160x48"])
@pytest.mark.parametrize("name", ["dflash2", "target-only"])
async def test_what_the_selected_one_takes_of_its_card(size: tuple[int, int], name: str):
    async with shown(source_of(), size, choices) as (app, pilot):
        await select(pilot, name)
        await until(pilot, lambda: "memory: " in text_of(app) and "reading the checkpoint" not in text_of(app))
        story = app.screen.query_one("Profiles .details", VerticalScroll)
        await until(pilot, lambda: "differs in" in text_of(app))
        await settled(pilot)
        while story.scroll_y < story.max_scroll_y:
            await pilot.press("right_square_bracket")
            await pilot.pause()
        check(f"plan-{name}-{size[0]}x{size[1]}", text_of(app))


@pytest.mark.asyncio
async def test_a_plan_that_is_slow_holds_nobody_up_and_is_not_shown_for_another_profile():
    source = source_of()
    source.on_demand.hanging = ("plan dflash2",)
    async with shown(source, (160, 48), choices) as (app, pilot):
        await select(pilot, "dflash2")
        await until(pilot, lambda: "plan dflash2" in source.on_demand.asked)
        assert "memory: reading the checkpoint…" in text_of(app)
        await pilot.press("j")
        await until(pilot, lambda: "memory: does not fit" in text_of(app))
        source.on_demand.go_on.set()
        await pilot.pause()
        assert "memory: does not fit" in text_of(app)
        await pilot.press("k")
        await until(pilot, lambda: "memory: fits" in text_of(app))


@pytest.mark.asyncio
async def test_a_plan_is_read_once_and_anew_when_it_is_asked_for():
    source = source_of()
    async with shown(source, (160, 48), choices) as (app, pilot):
        await select(pilot, "dflash2")
        await until(pilot, lambda: "memory: fits" in text_of(app))
        await pilot.press("j")
        await until(pilot, lambda: "memory: does not fit" in text_of(app))
        await pilot.press("k")
        await until(pilot, lambda: "memory: fits" in text_of(app))
        assert source.on_demand.asked.count("plan dflash2") == 1
        source.on_demand.plans["dflash2"] = profile_scenes.TOO_MUCH
        await pilot.press("u")
        await until(pilot, lambda: "memory: does not fit" in text_of(app))
        assert source.on_demand.asked.count("plan dflash2") == 2


@pytest.mark.asyncio
async def test_where_there_is_no_plan_it_says_why_and_of_an_invalid_profile_nobody_asks():
    source = source_of()
    source.on_demand.plans = {}
    async with shown(source, (160, 48), choices) as (app, pilot):
        await select(pilot, "dflash2")
        await until(pilot, lambda: "memory: unknown: there is no plan of dflash2" in text_of(app))
        await pilot.press("k")
        await until(pilot, lambda: "── broken ──" in text_of(app))
        await pilot.pause(0.3)
        assert "memory" not in text_of(app)
        assert "plan broken" not in source.on_demand.asked
