"""The view of the card."""

import msgspec
import pytest

from arcops.core.errors import ArcopsError
from arcops.tui.panels.card import CHECKS
from arcops.tui.views import card
from arcops.tui.views.card import Card
from tests.tui import card_scenes, scenes
from tests.tui.on_demand import Prepared
from tests.tui.screen_text import check
from tests.tui.views.happenings import FINDINGS, NIGHT, event
from tests.tui.views.stage import SIZES, SMALL, on_stage, snapshot_of, until, wheel

LOCK = "/sys/bus/pci/devices/0000:03:00.0"
LOST = event(15, 100, "phase", "stopping", "the driver lost the device (UR_ERROR_DEVICE_LOST)", cause="device_lost")
SERVING = msgspec.structs.replace(
    scenes.busy(),
    locks=(LOCK,),
    notes=("11 processes of other users may not be looked into: they might hold memory of the card",),
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken stream is tried again soon."""
    monkeypatch.setattr(card, "RETRY", 0.01)
    monkeypatch.setattr(card, "EVERY", 0.01)


def source_of(**more: object) -> Prepared:
    return Prepared(**{"history": (*NIGHT, LOST), "findings": FINDINGS, "card": card_scenes.cards(), **more})  # pyright: ignore[reportArgumentType] - a test's own words


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [SMALL, *SIZES, (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_what_is_known(size: tuple[int, int]):
    source = source_of()
    async with on_stage(Card(source, clock=lambda: 100.0), size, snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: "looked 0 s ago" in app.text or (size[1] < 30 and "examine" in str(source.asked)))
        await until(pilot, lambda: "in use" in app.text)
        await pilot.pause()
        check(f"card-{size[0]}x{size[1]}", app.text)


@pytest.mark.asyncio
async def test_a_small_terminal_scrolls_to_the_rest():
    async with on_stage(Card(source_of()), SMALL, snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: "more lines" in app.text and "in use" in app.text)
        assert all(len(line) <= SMALL[0] for line in app.text.splitlines())
        await pilot.press("end")
        assert "✓ ok" in app.text
        await pilot.press("home")
        assert "── Memory" in app.text
        await pilot.press("pagedown", "down")
        assert "── Memory" not in app.text
        await pilot.press("pageup", "up")
        assert "── Memory" in app.text
        await wheel(pilot, "#card-pane", up=False)
        assert "── Memory" not in app.text


@pytest.mark.asyncio
async def test_the_doctor_looks_when_it_is_shown_and_when_it_is_asked():
    source = source_of()
    view = Card(source)
    async with on_stage(view, (80, 60), snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: "Checks · looked" in app.text)
        assert source.asked.count(f"examine {' '.join(CHECKS)}") == 1
        view.closed()
        view.opened()
        await pilot.press("u")
        await until(pilot, lambda: source.asked.count(f"examine {' '.join(CHECKS)}") == 2)


@pytest.mark.asyncio
async def test_what_befalls_it_is_shown_when_it_happens():
    source = source_of()
    async with on_stage(Card(source), (80, 60), snapshot_of(SERVING)) as (app, pilot):
        source.event_queue.put_nowait(event(16, 0, "phase", "wedged", "the card needs a rebind or a reboot"))
        await until(pilot, lambda: "wedged: the card needs a rebind" in app.text)
        source.refusal = ArcopsError("no daemon answers")
        source.event_queue.put_nowait(None)
        await until(pilot, lambda: "no new ones: no daemon answers" in app.text)
        assert "wedged: the card needs a rebind" in app.text


@pytest.mark.asyncio
async def test_what_may_be_copied():
    view = Card(source_of())
    async with on_stage(view, (80, 60), snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: "Checks · looked" in app.text and "in use" in app.text)
        found = dict(view.copyable())
        assert found["card"] == "0000:03:00.0"
        assert found["mask"] == "ZE_AFFINITY_MASK=0"
        assert found["lock"] == LOCK
        assert found["what to do about card-holders"].startswith("ps -fp 5150")


@pytest.mark.asyncio
async def test_the_cards_are_asked_about_while_they_are_shown_and_not_otherwise():
    source = source_of()
    view = Card(source)
    async with on_stage(view, snapshot=snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: source.asked.count("cards") > 2)
        source.card = card_scenes.cards(card_scenes.card(census=card_scenes.ALONE))
        await until(pilot, lambda: "ours alone" in app.text)
        view.closed()
        await pilot.pause()
        told = source.asked.count("cards")
        for _ in range(5):
            await pilot.pause(0.02)
        assert source.asked.count("cards") == told
        view.opened()
        await until(pilot, lambda: source.asked.count("cards") > told)


@pytest.mark.asyncio
async def test_u_has_every_process_looked_at_once():
    source = source_of()
    async with on_stage(Card(source), snapshot=snapshot_of(SERVING)) as (_, pilot):
        await until(pilot, lambda: "cards" in source.asked)
        assert "cards of everybody" not in source.asked
        await pilot.press("u")
        await until(pilot, lambda: "cards of everybody" in source.asked)
        asked = source.asked.count("cards")
        await until(pilot, lambda: source.asked.count("cards") > asked + 1)
        assert source.asked.count("cards of everybody") == 1


@pytest.mark.asyncio
async def test_what_does_not_come_any_more_stays_with_its_reason():
    source = source_of()
    async with on_stage(Card(source), (80, 60), snapshot_of(SERVING)) as (app, pilot):
        await until(pilot, lambda: "in use" in app.text)
        source.card = None
        await until(pilot, lambda: "no new word: no such path" in app.text)
        assert "█ ours          26,624 MiB" in app.text
