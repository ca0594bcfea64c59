"""The view of the logs: what it shows, what each key does."""

import time
from collections.abc import Sequence

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.tui.logs import stream as log_stream
from arcops.tui.logs.choose_launch import ChooseLaunch
from arcops.tui.views import logs
from arcops.tui.views.logs import Logs
from tests.tui import scenes
from tests.tui.on_demand import Prepared
from tests.tui.screen_text import check
from tests.tui.test_logbook import ENGINE_FAILS
from tests.tui.views.happenings import NIGHT
from tests.tui.views.stage import SIZES, SMALL, Stage, on_stage, snapshot_of, typed_ahead, until, wheel

NOISE = tuple(f"(APIServer pid=4242) INFO 01-15 08:01:{n:02d} [loggers.py:257] Engine 000: line {n}" for n in range(40))
SUPERVISOR = (
    "INFO 01-15 08:00:00 [arcopsd] phase: phase=starting reason='launching dflash2'",
    "WARNING 01-15 08:00:03 [arcopsd] journal: the disk is full",
)


def lines(*texts: str, launch: str | None = scenes.LAUNCH) -> wire.LogLines:
    return wire.LogLines(launch_id=launch, lines=texts)


def source_of(texts: Sequence[str] = (*scenes.LOG, *ENGINE_FAILS, *NOISE), **more: object) -> Prepared:
    made: dict[str, object] = {"supervisor": (lines(*SUPERVISOR, launch=None),), "history": NIGHT, **more}
    return Prepared(backend=(lines(*texts),), **made)  # pyright: ignore[reportArgumentType] - a test's own words


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """New lines are shown soon, and a broken stream is tried again soon."""
    monkeypatch.setattr(logs, "SHOWN_EVERY", 0.01)
    monkeypatch.setattr(log_stream, "RETRY", 0.01)


async def come(app: Stage, pilot: Pilot[None], source: Prepared, *texts: str, launch: str = scenes.LAUNCH) -> None:
    """These lines are written now, and taken in."""
    source.log_queue.put_nowait(lines(*texts, launch=launch))
    await until(pilot, source.log_queue.empty)
    await pilot.pause(0.05)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x48"])
async def test_the_backends_log(size: tuple[int, int]):
    async with on_stage(Logs(source_of()), size) as (app, pilot):
        await pilot.press("e")
        check(f"logs-{size[0]}x{size[1]}", app.text)


@pytest.mark.asyncio
async def test_a_small_terminal_keeps_state_and_lines():
    async with on_stage(Logs(source_of()), SMALL) as (app, pilot):
        await pilot.press("z", "slash", *"engine", "enter")
        shown = app.text.splitlines()
        assert len(shown) == SMALL[1]
        assert all(len(line) <= SMALL[0] for line in shown)
        assert "paused" in app.text
        assert "search “engine”" in app.text


@pytest.mark.asyncio
async def test_it_follows_and_up_pauses_with_the_number_of_new_lines():
    source = source_of()
    async with on_stage(Logs(source)) as (app, pilot):
        assert "following · 55 lines" in app.text
        await come(app, pilot, source, "the newest of all")
        assert "the newest of all" in app.text
        await pilot.press("up")
        await come(app, pilot, source, "one more", "and another")
        assert "paused, 2 new lines below · f follows" in app.text
        assert "and another" not in app.text
        await pilot.press("f")
        assert "following" in app.text
        assert "and another" in app.text


@pytest.mark.asyncio
async def test_keys_and_wheel_move():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("home")
        assert "vLLM API server version" in app.text
        for on, back in (("pagedown", "pageup"), ("ctrl+f", "ctrl+b")):
            await pilot.press(on)
            assert "vLLM API server version" not in app.text
            await pilot.press(back)
            assert "vLLM API server version" in app.text
        await pilot.press("end")
        assert "following" in app.text
        await wheel(pilot, "#log-lines", up=True)
        assert "paused" in app.text
        await pilot.press("j", "j", "j")
        assert "following" in app.text


@pytest.mark.asyncio
async def test_search_marks_and_goes_on():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("slash", *"Line 1", "enter")
        assert "search “line 1”  12 of 12 lines" in app.text
        assert "»" in app.text
        await pilot.press("N")
        assert "11 of 12 lines" in app.text
        await pilot.press("n", "n")
        assert "  1 of 12 lines" in app.text
        await pilot.press("escape")
        assert "search" not in app.text
        assert "»" not in app.text
        await pilot.press("f", "slash", *"Line 1", "escape")
        assert "following" in app.text
        await pilot.press("slash", *"no such words", "enter")
        assert "nowhere in these lines" in app.text


@pytest.mark.asyncio
async def test_keys_that_are_typed_into_the_search_do_nothing_else():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("slash", *"fez", "enter")
        assert "search “fez”" in app.text
        assert "wrapped" not in app.text
        await pilot.press("z")
        assert "wrapped" in app.text


@pytest.mark.asyncio
async def test_what_is_typed_ahead_of_the_screen_is_searched_and_is_no_key_of_the_views():
    async with on_stage(Logs(source_of())) as (app, pilot):
        typed_ahead(app, "slash", *"fzblp")
        await until(pilot, lambda: "search “fzblp”" in app.text)
        await pilot.pause()
        assert "wrapped" not in app.text
        assert "Backend log" in app.text


@pytest.mark.asyncio
async def test_the_level_filter_goes_round():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("l")
        assert "warnings and errors: 8 of 55 lines" in app.text
        await pilot.press("l")
        assert "errors: 7 of 55 lines" in app.text
        assert "line 39" not in app.text
        await pilot.press("l")
        assert "following · 55 lines" in app.text


@pytest.mark.asyncio
async def test_the_first_error_and_the_next():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("e")
        assert "E»08:00:12 ERROR a bell" in app.text
        await pilot.press("E")
        assert "E»09:37:11 ERROR EngineCore failed to start." in app.text
        await pilot.press("E")
        assert "E»Traceback" in app.text
    async with on_stage(Logs(source_of(NOISE))) as (app, pilot):
        await pilot.press("e")
        assert app.said == ["no error in these lines"]


@pytest.mark.asyncio
async def test_long_lines_are_wrapped_or_moved():
    async with on_stage(Logs(source_of(["x" * 100 + " the end of it"]))) as (app, pilot):
        assert "the end of it" not in app.text
        await pilot.press("z")
        assert "the end of it" in app.text
        await pilot.press("z", *["full_stop"] * 3)
        assert "the end of it" in app.text
        await pilot.press(*["comma"] * 3)
        assert "the end of it" not in app.text


@pytest.mark.asyncio
async def test_the_supervisors_own_log():
    source = source_of()
    async with on_stage(Logs(source)) as (app, pilot):
        await pilot.press("b")
        await until(pilot, lambda: "Supervisor log" in app.text and "launching dflash2" in app.text)
        assert "line 39" not in app.text
        await pilot.press("b")
        await until(pilot, lambda: "Backend log" in app.text and "line 39" in app.text)
    assert source.asked[:3] == ["logs newest", "logs supervisor", "logs newest"]


@pytest.mark.asyncio
async def test_an_earlier_launchs_log_is_chosen_from_the_history():
    source = source_of(launches={scenes.LAUNCH: lines("what was said then")})
    async with on_stage(Logs(source)) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ChooseLaunch))
        assert "backoff (hang)" in app.text
        app.screen.query_one(OptionList).highlighted = 2
        await pilot.press("enter")
        await until(pilot, lambda: "what was said then" in app.text)
        assert f"Backend log · {scenes.LAUNCH} (chosen)" in app.text
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ChooseLaunch))
        await pilot.press("home", "enter")
        await until(pilot, lambda: "line 39" in app.text)
        assert "(chosen)" not in app.text


@pytest.mark.asyncio
async def test_a_log_that_is_gone_says_so():
    async with on_stage(Logs(source_of())) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ChooseLaunch))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "! no more lines: there is no log of a launch" in app.text)
        assert "nothing was read" in app.text


@pytest.mark.asyncio
async def test_the_next_launch_is_set_apart():
    source = source_of()
    async with on_stage(Logs(source)) as (app, pilot):
        await come(app, pilot, source, "of the next one", launch="20270115-090000-2")
        assert "──── launch 20270115-090000-2 ────" in app.text
        assert "Backend log · 20270115-090000-2" in app.text


@pytest.mark.asyncio
async def test_without_a_daemon_the_lines_stay_and_nothing_is_told_twice():
    source = source_of()
    async with on_stage(Logs(source)) as (app, pilot):
        source.refusal = ArcopsError("no daemon answers on main.sock")
        source.log_queue.put_nowait(None)
        await until(pilot, lambda: "! no more lines: no daemon answers on main.sock" in app.text)
        assert "line 39" in app.text
        source.refusal = None
        source.backend = (lines(*scenes.LOG, *ENGINE_FAILS, *NOISE, "it is back"),)
        await until(pilot, lambda: "it is back" in app.text)
        assert "following · 56 lines" in app.text
        assert "no more lines" not in app.text


@pytest.mark.asyncio
async def test_a_daemon_that_says_nothing_is_not_followed_as_if_it_did():
    view = Logs(source_of())
    async with on_stage(view) as (app, pilot):
        view.show(snapshot_of(silent=14.0))
        await pilot.pause()
        assert "! no more lines: no word from the daemon for 14 s" in app.text
        assert "following" not in app.text
        assert "line 39" in app.text
        view.show(snapshot_of())
        await pilot.pause()
        assert "following" in app.text


@pytest.mark.asyncio
async def test_nothing_to_be_read_says_why():
    source = source_of(refusal=ArcopsError("no daemon answers on main.sock"))
    async with on_stage(Logs(source)) as (app, _):
        assert "nothing was read" in app.text
        assert "no daemon answers" in app.text
    async with on_stage(Logs(Prepared(backend=(lines(launch=None),)))) as (app, _):
        assert "Backend log · no launch" in app.text
        assert "the log is empty" in app.text


@pytest.mark.asyncio
async def test_while_another_view_is_shown_nothing_is_asked():
    source = source_of()
    view = Logs(source)
    async with on_stage(view) as (app, pilot):
        view.closed()
        await pilot.pause()
        source.log_queue.put_nowait(lines("unheard"))
        await pilot.pause(0.1)
        assert not source.log_queue.empty()
        view.opened()
        await until(pilot, lambda: "unheard" in app.text)


@pytest.mark.asyncio
async def test_what_may_be_copied():
    view = Logs(source_of())
    async with on_stage(view) as (_, pilot):
        await pilot.press("slash", *"traceback", "enter")
        found = dict(view.copyable())
        assert found["found line"] == "(EngineCore pid=14837) Traceback (most recent call last):"
        assert found["launch"] == scenes.LAUNCH
        assert found["path of the log"] == "/var/lib/arcops/log"
        assert found["found line"] in found["lines in sight"]


@pytest.mark.asyncio
async def test_a_key_is_answered_at_once_while_fifty_lines_a_second_come_and_twenty_thousand_are_kept():
    source = source_of()
    view = Logs(source)

    async def answer(app: Stage, pilot: Pilot[None]) -> float:
        source.log_queue.put_nowait(lines(*NOISE[:13]))
        began = time.perf_counter()
        await pilot.press("up")
        return time.perf_counter() - began

    async with on_stage(view) as (app, pilot):
        few = min([await answer(app, pilot) for _ in range(12)])
        source.log_queue.put_nowait(lines(*(NOISE * 500)))
        await until(pilot, source.log_queue.empty)
        many = min([await answer(app, pilot) for _ in range(12)])
    assert many < 3 * few + 0.02
