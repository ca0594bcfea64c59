"""The view of the history: what it shows, what each key does."""

import pytest
from textual.pilot import Pilot

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.tui.views import events
from arcops.tui.views.events import Events
from tests.tui import scenes
from tests.tui.on_demand import Prepared
from tests.tui.screen_text import check
from tests.tui.views.happenings import NIGHT, event, numbers
from tests.tui.views.stage import SIZES, SMALL, on_stage, snapshot_of, typed_ahead, until, wheel

TO_SUSPECT = ["down"] * 6


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is selected is asked about soon, and a broken stream is tried again soon."""
    monkeypatch.setattr(events, "NUMBERS_AFTER", 0.0)
    monkeypatch.setattr(events, "SHOWN_EVERY", 0.01)
    monkeypatch.setattr(events, "RETRY", 0.01)


def source_of(**more: object) -> Prepared:
    return Prepared(history=NIGHT, numbers=numbers(), **more)  # pyright: ignore[reportArgumentType] - a test's own words


async def happens(pilot: Pilot[None], source: Prepared, one: wire.Event) -> None:
    """It happens now, and is taken in."""
    source.event_queue.put_nowait(one)
    await until(pilot, source.event_queue.empty)
    await pilot.pause(0.05)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x48"])
async def test_an_incident_with_its_numbers(size: tuple[int, int]):
    async with on_stage(Events(source_of()), size) as (app, pilot):
        await pilot.press(*TO_SUSPECT)
        await until(pilot, lambda: "reading…" not in app.text)
        check(f"events-{size[0]}x{size[1]}", app.text)


@pytest.mark.asyncio
async def test_a_small_terminal_shows_list_and_details():
    async with on_stage(Events(source_of()), SMALL) as (app, pilot):
        await pilot.press(*TO_SUSPECT)
        shown = app.text.splitlines()
        assert len(shown) == SMALL[1]
        assert all(len(line) <= SMALL[0] for line in shown)
        assert "▸ ! 01-15 07:50:00  suspect" in app.text
        assert "why       3 requests in flight" in app.text


@pytest.mark.asyncio
async def test_the_numbers_around_what_is_selected_are_asked_for():
    source = source_of()
    async with on_stage(Events(source)) as (app, pilot):
        await pilot.press("end")
        await until(pilot, lambda: "no server was read within a minute of it" in app.text)
        await pilot.press("home", *TO_SUSPECT)
        await until(pilot, lambda: "running   █" in app.text)
        source.refusal = ArcopsError("no daemon answers on main.sock")
        await pilot.press("down")
        await until(pilot, lambda: "unknown: no daemon answers on main.sock" in app.text)


@pytest.mark.asyncio
async def test_problems_order_and_typed_words():
    async with on_stage(Events(source_of())) as (app, pilot):
        assert "newest first" in app.text
        await pilot.press("p")
        assert "problems only · 6 of 14 events" in app.text
        await pilot.press("slash", *"hang", "space", *"clear", "enter")
        assert "problems only · with “hang clear” · 1 of 14 events" in app.text
        assert "Event 11" in app.text
        await pilot.press("escape")
        assert "14 events" in app.text
        await pilot.press("o")
        assert "newest last" in app.text
        assert "Event 11" in app.text
        await pilot.press("slash", *"nothing like that", "enter")
        assert "no event is like that" in app.text


@pytest.mark.asyncio
async def test_what_is_typed_ahead_of_the_screen_filters_and_is_no_key_of_the_views():
    async with on_stage(Events(source_of())) as (app, pilot):
        typed_ahead(app, "slash", *"hop")
        await until(pilot, lambda: "with “hop”" in app.text)
        await pilot.pause()
        assert "newest first" in app.text
        assert "problems only" not in app.text


@pytest.mark.asyncio
async def test_keys_mouse_and_wheel_select():
    async with on_stage(Events(source_of())) as (app, pilot):
        assert "Event 14" in app.text
        await pilot.press("down", "j")
        assert "Event 12" in app.text
        await pilot.press("k", "up")
        assert "Event 14" in app.text
        await pilot.press("end")
        assert "Event 1 " in app.text
        await pilot.press("home", "pagedown")
        assert "Event 14" not in app.text
        await pilot.press("pageup")
        assert "Event 14" in app.text
        await wheel(pilot, "#event-list", up=False)
        assert "Event 13" in app.text
        await pilot.click("#event-list", offset=(10, 4))
        assert "Event 12" in app.text


@pytest.mark.asyncio
async def test_long_details_are_scrolled():
    async with on_stage(Events(source_of()), SMALL) as (app, pilot):
        await pilot.press(*TO_SUSPECT)
        await until(pilot, lambda: "more lines" in app.text)
        await pilot.press(*["right_square_bracket"] * 9)
        assert "−60 s" in app.text
        await pilot.press(*["left_square_bracket"] * 9)
        assert "Event 8" in app.text
        await wheel(pilot, "#event", up=False)
        assert "Event 8 ──" not in app.text


@pytest.mark.asyncio
async def test_what_happens_now_is_shown_and_a_selection_stays():
    source = source_of()
    async with on_stage(Events(source)) as (app, pilot):
        await happens(pilot, source, event(15, 1, "phase", "suspect", "no progress for 61 s"))
        assert "Event 15" in app.text
        await pilot.press("down")
        assert "Event 14" in app.text
        await happens(pilot, source, event(16, 0, "phase", "serving", "it answered"))
        assert "it answered" in app.text
        assert "Event 14" in app.text


@pytest.mark.asyncio
async def test_without_a_daemon_the_history_stays_and_says_so():
    source = source_of()
    async with on_stage(Events(source)) as (app, pilot):
        source.refusal = ArcopsError("no daemon answers on main.sock")
        source.event_queue.put_nowait(None)
        await until(pilot, lambda: "! no new ones: no daemon answers on main.sock · 14 events" in app.text)
        source.refusal = None
        await until(pilot, lambda: "no new ones" not in app.text)
        await happens(pilot, source, event(15, 1, "daemon", "serving", "arcopsd 0.1.0 started (pid 9)"))
        assert "15 events" in app.text
    async with on_stage(Events(Prepared(refusal=ArcopsError("no daemon answers")))) as (app, _):
        assert "nothing was read" in app.text


@pytest.mark.asyncio
async def test_another_history_takes_the_place_of_the_first():
    source = source_of()
    async with on_stage(Events(source)) as (app, pilot):
        assert "14 events" in app.text
        source.history = (event(1, 5, "trouble", "stopped", "the database was damaged, and a new one was made"),)
        source.event_queue.put_nowait(None)
        await until(pilot, lambda: "1 event" in app.text and "14 events" not in app.text)
        assert "a new one was made" in app.text


@pytest.mark.asyncio
async def test_a_daemon_that_says_nothing_is_told_of():
    view = Events(source_of())
    async with on_stage(view) as (app, pilot):
        view.show(snapshot_of(silent=14.0, now=scenes.NOW + 14))
        await pilot.pause()
        assert "! no new ones: no word from the daemon for 14 s · 14 events" in app.text


@pytest.mark.asyncio
async def test_no_events_at_all():
    async with on_stage(Events(Prepared())) as (app, pilot):
        assert "no events yet" in app.text
        await pilot.press("down", "up", "p", "o", "right_square_bracket", "end")
        assert "no events yet" in app.text


@pytest.mark.asyncio
async def test_while_another_view_is_shown_nothing_is_asked_and_then_it_goes_on():
    source = source_of()
    view = Events(source)
    async with on_stage(view) as (app, pilot):
        view.closed()
        await pilot.pause()
        source.event_queue.put_nowait(event(15, 1, "trouble", "serving", "unheard"))
        await pilot.pause(0.1)
        assert not source.event_queue.empty()
        view.opened()
        await until(pilot, lambda: "unheard" in app.text)


@pytest.mark.asyncio
async def test_what_may_be_copied():
    view = Events(source_of())
    async with on_stage(view, snapshot=snapshot_of(scenes.busy())) as (_, pilot):
        await pilot.press(*["down"] * 5)
        found = dict(view.copyable())
        assert found["reason"] == "no answer within 30 s: the backend hangs"
        assert found["cause"] == "hang"
        assert found["what to do"].startswith("`arcops events` names the folder")
        assert found["launch"] == scenes.LAUNCH


def test_nothing_may_be_copied_of_nothing():
    assert Events(Prepared()).copyable() == ()
