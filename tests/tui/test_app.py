"""The screen: what it shows at each kind of moment, what each key does."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from arcops import wire, words
from arcops.core.errors import ArcopsError, InvalidProfileError
from arcops.core.rates import Rates
from arcops.tui.dialogs import ChooseProfile, Confirm, Help
from arcops.tui.panels.base import Panel
from arcops.tui.profiles import ProfileChoice
from arcops.tui.snapshot import LogTail, Snapshot
from arcops.tui.views.events import Events
from tests.tui import scenes
from tests.tui.screen_text import check, text_of
from tests.tui.screens import MOMENTS, SIZES, Canned, choose, no_daemon, options_of, shown, snapshot_of, until


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x48"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_the_screen_at_each_moment(moment: str, size: tuple[int, int]):
    async with shown(Canned(MOMENTS[moment]()), size) as (app, _):
        check(f"{moment}-{size[0]}x{size[1]}", text_of(app))


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(60, 20), (200, 60)], ids=["60x20", "200x60"])
async def test_the_smallest_and_a_very_large_terminal(size: tuple[int, int]):
    async with shown(Canned(MOMENTS["speculating"]()), size) as (app, _):
        check(f"speculating-{size[0]}x{size[1]}", text_of(app))


@pytest.mark.asyncio
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_small_terminal_keeps_the_sentence_and_the_keys(moment: str):
    async with shown(Canned(MOMENTS[moment]()), (60, 20)) as (app, _):
        lines = text_of(app).splitlines()
        assert len(lines) == 20
        assert "quit" in lines[-1]
        assert any(sign in lines[1] for sign in "○■◐◑◒◔●?✖…!")


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(1, 1), (20, 5), (300, 100)])
async def test_no_size_breaks_it(size: tuple[int, int]):
    async with shown(Canned(MOMENTS["speculating"]()), size) as (app, pilot):
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "serving dflash2" in text_of(app)


@pytest.mark.asyncio
async def test_lines_of_log_alone_are_no_work_for_a_view_that_shows_none(monkeypatch: pytest.MonkeyPatch):
    status = scenes.busy()
    source = Canned(snapshot_of(status))
    told: list[Snapshot] = []

    def hear(_view: Events, snapshot: Snapshot) -> None:
        told.append(snapshot)

    monkeypatch.setattr(Events, "show", hear)
    async with shown(source) as (app, pilot):
        await pilot.press("4")
        await pilot.pause()
        told.clear()
        source.show(replace(source.now, log=LogTail(scenes.LAUNCH, ("a line that came",))))
        await pilot.pause()
        assert told == []
        source.show(replace(source.now, status=scenes.speculating()))
        await until(pilot, lambda: bool(told))
        await pilot.press("1")
        await until(pilot, lambda: "a line that came" in text_of(app))


@pytest.mark.asyncio
async def test_what_is_unknown_is_said_with_its_reason():
    bare = msgspec.structs.replace(
        scenes.busy(), rates=Rates(at=1.0, launch_id=scenes.LAUNCH, absent="no two scrapes within 60 s", running=1.0)
    )
    async with shown(Canned(snapshot_of(bare, history=()))) as (app, _):
        text = text_of(app)
        assert "waiting unknown" in text
        assert "KV cache unknown" in text
        assert text.count("unknown: no two scrapes within 60 s") == 2
        assert "0 tok/s" not in text


@pytest.mark.asyncio
async def test_numbers_of_an_earlier_launch_are_not_shown_for_this_one():
    status = msgspec.structs.replace(scenes.busy(), backend=scenes.backend(launch_id="another"))
    async with shown(Canned(snapshot_of(status))) as (app, _):
        assert "unknown: this launch was not scraped yet" in text_of(app)
        assert "62.4 %" not in text_of(app)


@pytest.mark.asyncio
async def test_a_phase_from_a_newer_daemon_is_shown_as_it_is():
    status = msgspec.structs.replace(scenes.busy(), phase="dreaming")
    async with shown(Canned(snapshot_of(status))) as (app, _):
        assert "? dreaming dflash2 for 2 h 13 min" in text_of(app)


@pytest.mark.asyncio
async def test_text_from_outside_is_never_markup():
    nasty = "[bold red]x[/] [@click=app.quit]y[/] [/nothing] \x1b[2J"
    status = msgspec.structs.replace(scenes.failed(), reason=nasty, trouble=(nasty,))
    snapshot = snapshot_of(status, log=LogTail(nasty, (words.clean(nasty),)))
    async with shown(Canned(snapshot), (160, 48)) as (app, _):
        assert text_of(app).count("[bold red]x[/] [@click=app.quit]y[/] [/nothing]") == 4


@pytest.mark.asyncio
async def test_stale_data_is_dimmed_and_live_data_is_not():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        assert not app.screen.has_class("-stale")
        source.show(MOMENTS["daemon-gone"]())
        await pilot.pause()
        assert app.screen.has_class("-stale")


@pytest.mark.asyncio
async def test_nothing_is_drawn_again_that_did_not_change():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        drawn: list[str] = []

        def count(panel: Panel) -> None:
            was = panel.refresh

            def refresh(*args: object, **kwargs: object) -> Panel:
                drawn.append(type(panel).__name__)
                return was(layout=bool(kwargs.get("layout")))

            panel.refresh = refresh  # type: ignore[method-assign]  # pyright: ignore[reportAttributeAccessIssue] - a spy

        for panel in app.query(Panel):
            count(panel)
        source.show(MOMENTS["busy"]())
        await pilot.pause()
        assert drawn == []
        source.show(replace(source.now, log=LogTail(scenes.LAUNCH, ("another line",))))
        await pilot.pause()
        assert drawn == ["LogPanel"]


@pytest.mark.asyncio
async def test_w_goes_through_the_windows():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (_, pilot):
        await pilot.press("w", "w", "w")
        assert source.asked == [300.0, 3600.0, 60.0]


@pytest.mark.asyncio
async def test_l_gives_the_log_all_the_room_and_whole_lines():
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        assert "max_seq_len" not in text_of(app)
        await pilot.press("l")
        await pilot.pause()
        assert "max_seq_len=262144" in text_of(app)
        assert "Requests" not in text_of(app)
        await pilot.press("l")
        await pilot.pause()
        assert "Requests" in text_of(app)


@pytest.mark.asyncio
async def test_the_question_mark_shows_help_and_escape_leaves_it():
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, Help)
        await pilot.press("escape")
        assert not isinstance(app.screen, Help)


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_q_leaves_and_orders_nothing(key: str):
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running
    assert source.asked == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("key", "request_"), [("x", wire.StopRequest()), ("r", wire.RestartRequest())], ids=["x stops", "r restarts"]
)
async def test_an_order_is_given_only_after_a_yes(key: str, request_: object):
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        for no in ("n", "escape", "enter"):  # enter: Cancel has the focus
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, Confirm)
            assert "3 running and 12 waiting requests" in text_of(app)
            await pilot.press(no)
            await pilot.pause()
        assert source.asked == []
        await pilot.press(key)
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert source.asked == [request_]
        assert app.said == ["accepted as order 41"]


@pytest.mark.asyncio
async def test_s_switches_after_a_choice_and_the_daemons_own_words():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await choose(pilot, "target-only")
        assert isinstance(app.screen, Confirm)
        assert "3 running requests get 60 s to finish" in text_of(app)
        await pilot.press("y")
        await pilot.pause()
        dry = wire.SwitchRequest(profile="target-only", dry_run=True)
        assert source.asked == [dry, wire.SwitchRequest(profile="target-only")]


@pytest.mark.asyncio
async def test_the_switch_dialog_marks_what_runs_and_explains_what_is_highlighted():
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        await pilot.press("s")
        options = await options_of(pilot)
        text = text_of(app)
        assert "dflash2  (now)" in text
        assert "broken  cannot be used" in text
        assert "The 35B with a DFlash2 draft." in text
        options.highlighted = 0
        await until(pilot, lambda: "model.pth: unknown key" in text_of(app))
        await pilot.press("escape")
        assert not isinstance(app.screen, ChooseProfile)


@pytest.mark.asyncio
async def test_a_configuration_that_cannot_be_read_is_explained_in_the_dialog():
    def load() -> Sequence[ProfileChoice]:
        raise InvalidProfileError("site.yaml:2: modls_dir: unknown key", hint="did you mean models_dir?")

    async with shown(Canned(MOMENTS["busy"]()), load=load) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: "modls_dir" in text_of(app))


@pytest.mark.asyncio
async def test_a_refused_switch_says_why_and_asks_nothing():
    source = Canned(MOMENTS["busy"]())
    source.refusal = ArcopsError("order 6 is under way", hint="wait for it")
    async with shown(source) as (app, pilot):
        await choose(pilot, "target-only")
        assert not isinstance(app.screen, Confirm)
        assert app.said == ["order 6 is under way\nhint: wait for it"]


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["s", "x", "r"])
async def test_without_a_daemon_there_is_nobody_to_order(key: str):
    async with shown(Canned(no_daemon())) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert "no daemon answers" in app.said[0]


@pytest.mark.asyncio
async def test_what_became_of_an_order_given_here_is_told_once():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await pilot.press("x")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        outcome = wire.OutcomeInfo(
            order_id=41, exit_code=0, summary="stopped", hint="", evidence="", superseded=False, returned_to=None
        )
        done = snapshot_of(msgspec.structs.replace(scenes.stopped(), settled=(outcome,)))
        source.show(done)
        source.show(done)
        await pilot.pause()
        assert app.said == ["accepted as order 41", "stopped"]


@pytest.mark.asyncio
async def test_the_numbers_go_on_under_an_open_dialog():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await pilot.press("x")
        await pilot.pause()
        source.show(MOMENTS["stopped"]())
        await pilot.pause()
        await pilot.press("n")
        await pilot.pause()
        assert "stopped for 3 min 05 s" in text_of(app)
