"""What is known of the card."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops import wire
from arcops.core.cards.measures import Quantity
from arcops.core.phase import Phase
from arcops.tui.panels.base import Room
from arcops.tui.panels.card import SECTIONS, cards, lines
from arcops.tui.panels.card_facts import CardFacts
from arcops.tui.panels.card_line import CardsPanel
from arcops.tui.panels.card_past import is_about_card
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import card_scenes, scenes
from tests.tui.views.happenings import FINDINGS, NIGHT, event
from tests.tui.views.stage import snapshot_of

LOCK = "/sys/bus/pci/devices/0000:03:00.0"


def serving(**changes: object) -> wire.Status:
    return msgspec.structs.replace(scenes.busy(), locks=(LOCK,), **changes)


def facts_of(snapshot: Snapshot | None = None, **changes: object) -> CardFacts:
    made = CardFacts(snapshot or snapshot_of(serving()), FINDINGS, "looked 3 s ago", "", (), "")
    return replace(made, **changes)


def text_of(facts: CardFacts, width: int = 78) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines(facts, width))


def test_the_lock_is_told_with_its_card_and_its_holder():
    text = text_of(facts_of())
    assert f"locks     card 0000:03:00.0  {LOCK}" in text
    assert f"held by   arcopsd (pid 1201) for launch {scenes.LAUNCH}" in text
    assert "dflash2: pid 4242, processes 3" in text


def test_two_cards_and_a_lock_that_is_a_file():
    assert cards((LOCK, "/sys/bus/pci/devices/0000:04:00.0")) == ("0000:03:00.0", "0000:04:00.0")
    assert cards(("/run/user/1000/arcops/cpu.lock",)) == ()
    text = text_of(facts_of(snapshot_of(msgspec.structs.replace(scenes.busy(), locks=("/run/user/1000/cpu.lock",)))))
    assert "no card, a file  /run/user/1000/cpu.lock" in text


def test_what_is_unknown_of_the_backend_is_not_told_as_nought():
    bare = serving(backend=scenes.backend(pid=None, processes=None))
    assert "pid unknown, processes unknown" in text_of(facts_of(snapshot_of(bare)))


def test_whoever_blocks_is_named():
    text = text_of(facts_of(snapshot_of(scenes.blocked())))
    assert "none is held while it is blocked" in text
    assert "blocked   pid 5150 (python3 train.py" in text


def test_why_nothing_is_known_of_the_cards_is_said_once():
    assert text_of(facts_of()).count("the daemon is asked…") == 1
    assert text_of(facts_of(cards_problem="no such path")).count("unknown: no such path") == 1
    none = card_scenes.cards()
    none = msgspec.structs.replace(none, cards=())
    assert text_of(facts_of(cards=none)).count("the daemon knows of no card in this machine") == 1


def test_no_section_is_empty():
    for section in SECTIONS:
        assert len(section(facts_of(cards=card_scenes.cards()), 78)) >= 2, section


def test_what_the_daemon_said_long_ago_is_not_told_as_live():
    silent = snapshot_of(serving(), silent=14.0)
    assert "as the daemon said 14 s ago" in text_of(facts_of(silent))
    gone = replace(snapshot_of(), status=None, link=Link.BROKEN, problem="no daemon answers on main.sock")
    text = text_of(facts_of(gone))
    assert "no word from the daemon: no daemon answers on main.sock" in text
    assert "card 0000:03:00.0 (Arc Pro B70) has the driver xe" in text


def test_the_doctor_tells_the_worst_first():
    text = text_of(facts_of())
    assert text.index("✖ problem") < text.index("! warning") < text.index("? unknown") < text.index("✓ ok")


def test_resets_and_losses_are_told_the_newest_first():
    lost = [
        event(20 + n, 100 - n, "phase", "stopping", f"the driver lost the device, time {n}", cause="device_lost")
        for n in range(8)
    ]
    assert all(is_about_card(one) for one in lost)
    text = text_of(facts_of(events=lost))
    assert text.index("time 7") < text.index("time 3")
    assert "time 2" not in text
    assert "and 3 before them" in text


def test_only_what_is_about_the_card_counts():
    assert [one.id for one in NIGHT if is_about_card(one)] == []
    assert is_about_card(event(30, 1, "phase", Phase.WEDGED.value, "the card needs a reboot"))
    assert is_about_card(event(33, 1, "card", "clearing", "card 0000:03:00.0 computes: healthy"))
    assert is_about_card(event(31, 1, "kernel", "serving", "xe 0000:03:00.0: GT0: Engine reset"))
    assert not is_about_card(event(32, 1, "outcome", "wedged", "order 9: stopped"))


def test_incidents_stand_among_what_the_history_tells_and_nothing_stands_twice():
    told = [
        event(1, 9_000, "kernel", "serving", "an old line of the kernel's"),
        event(2, 2_900, "kernel", "serving", "the same reset, as an event"),
        event(4, 2_850, "card", "clearing", "card 0000:03:00.0 computes"),
        event(3, 2_800, "phase", "stopping", "the driver lost the device", cause="device_lost"),
    ]
    text = text_of(facts_of(events=told, cards=card_scenes.cards()))
    assert "── Resets and losses · 1 reset since boot ─" in text
    assert text.index("device_lost") < text.index("job timeout of ccs, python [2693]") < text.index("an old line")
    assert "as an event" not in text
    assert "card: card 0000:03:00.0 computes" in text
    assert "noticed by     kernel log (/dev/kmsg), uevents" in text


def test_resets_that_nobody_could_watch_are_unknown_and_not_none():
    blind = card_scenes.cards(
        card_scenes.card(resets=None, incidents=()), watching="cannot watch, because the kernel's log may not be read"
    )
    text = text_of(facts_of(cards=blind))
    assert "resets since boot: unknown" in text
    assert "noticed by     cannot watch, because the kernel's log may not be read" in text


def test_a_card_says_what_it_is_counted_as_and_who_has_its_lock():
    text = text_of(facts_of(cards=card_scenes.cards(card_scenes.card(), card_scenes.dumb())))
    assert "driver         xe; firmware GuC 70.49.4" in text
    assert "number         0: a launch on it sets ZE_AFFINITY_MASK=0" in text
    assert "lock           held by arcopsd (pid 1201)" in text
    assert "number         none: no runtime that vLLM uses counts this card as it is" in text
    assert "lock           nobody holds it" in text
    unsure = card_scenes.cards(card_scenes.card(lock_holder=None, lock_absent="/proc/locks cannot be read"))
    assert "lock           unknown: /proc/locks cannot be read" in text_of(facts_of(cards=unsure))


def test_a_wide_screen_has_two_columns_that_do_not_run_into_each_other():
    wide = [line for line in text_of(facts_of(cards=card_scenes.cards()), 160).splitlines() if line[78:].strip()]
    assert any("── Memory" in line and "── Sensors" in line for line in wide)
    assert all(line[78:81] == "   " for line in wide)


_TEXT = st.text(max_size=12)
_MAYBE = st.none() | _TEXT
_NUMBERS = st.none() | st.floats(-1e18, 1e18) | st.just(0.0)
_MEASURES = st.builds(
    card_scenes.measure,
    st.sampled_from([quantity.label for quantity in Quantity]) | _TEXT,
    _NUMBERS,
    st.sampled_from(["", "gt0", "vram"]) | _TEXT,
    _TEXT,
)
_INCIDENTS = st.builds(
    wire.CardIncident,
    at=st.floats(-1e18, 1e18),
    kind=_TEXT,
    text=_TEXT,
    engine=_MAYBE,
    pid=st.none() | st.integers(),
    command=_MAYBE,
    source=_TEXT,
)
_CARDS = st.builds(
    card_scenes.card,
    measures=st.lists(_MEASURES, max_size=12).map(tuple),
    incidents=st.lists(_INCIDENTS, max_size=3).map(tuple),
    throttling=st.none() | st.lists(_TEXT, max_size=3).map(tuple),
    census=st.sampled_from([None, card_scenes.SHARED, card_scenes.ALONE]),
    at=st.floats(-1e18, 1e18),
    baseline=st.none() | st.integers(0, 2**63),
    resets=st.none() | st.integers(0, 2**31),
    name=_MAYBE,
    lock_holder=_MAYBE,
)
_GLANCES = st.builds(
    card_scenes.glance,
    at=st.floats(-1e18, 1e18),
    memory_used=_NUMBERS,
    memory_total=_NUMBERS,
    power=_NUMBERS,
    clock=_NUMBERS,
    busy=_NUMBERS,
    throttling=st.none() | st.lists(_TEXT, max_size=3).map(tuple),
    resets=st.none() | st.integers(0, 2**31),
    absent=st.dictionaries(_TEXT, _TEXT, max_size=3),
)


@given(st.lists(_CARDS, max_size=3), st.integers(20, 220))
def test_whatever_a_card_says_the_view_is_drawn_in_printable_lines(known: list[wire.CardInfo], width: int):
    told = msgspec.structs.replace(card_scenes.cards(), cards=tuple(known))
    assert all(line.isprintable() for line in text_of(facts_of(cards=told), width).splitlines())


@given(st.lists(_GLANCES, max_size=4), st.integers(20, 220))
def test_whatever_a_glance_says_the_overview_is_drawn_in_printable_lines(known: list[wire.CardGlance], width: int):
    status = serving(cards=tuple(known))
    drawn = CardsPanel().lines(snapshot_of(status), Room(width, 0, tall=True))
    assert len(drawn) == len(known)
    assert all(text.isprintable() for line in drawn for text, _ in line)


@pytest.mark.parametrize("used", [None, 0.0])
def test_what_is_not_known_never_reads_as_free(used: float | None):
    measures = (
        card_scenes.measure("memory_used", used, absent="needs CAP_PERFMON"),
        card_scenes.measure("memory_total", 1e9),
    )
    text = text_of(facts_of(cards=card_scenes.cards(card_scenes.card(measures=measures, census=None))))
    assert ("0 of 954 MiB" in text) is (used is not None)
    assert ("in use         unknown: needs CAP_PERFMON" in text) is (used is None)
