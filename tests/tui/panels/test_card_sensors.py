"""What a card's sensors say."""

from arcops import wire
from arcops.tui.ink import Ink, Lines
from arcops.tui.panels.card_facts import CardFacts
from arcops.tui.panels.card_sensors import sensors
from tests.tui import scenes
from tests.tui.card_scenes import B70, card, cards, dumb, measure
from tests.tui.views.stage import snapshot_of


def drawn(known: wire.Cards, width: int = 78, later: float = 0.0) -> Lines:
    return sensors(CardFacts(snapshot_of(now=scenes.NOW + later), (), "", "", (), "", known), width)


def text(known: wire.Cards, width: int = 78, later: float = 0.0) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in drawn(known, width, later)]


def test_each_part_stands_with_its_limit_and_what_is_unknown_with_its_reason():
    assert text(cards()) == [
        "── Sensors ───────────────────────────────────────────────────────────────────",
        "temperature    pkg 61 °C   vram 72 °C",
        "power          187 of 230 W",
        "clock          gt0 2,400 of 2,800 MHz   gt1 1,200 of 2,800 MHz",
        "busy           gt0 93.4 %   gt1 0.0 %",
        "throttled      no",
        "job timeout    5 s",
        "link           x16 at 32 GT/s",
        "unknown        fan (not in this driver); memory errors (needs CAP_PERFMON)",
    ]


def test_a_small_screen_has_the_parts_below_each_other():
    assert [line for line in text(cards(), 48) if "gt" in line][:2] == [
        "clock          gt0 2,400 of 2,800 MHz",
        "               gt1 1,200 of 2,800 MHz",
    ]


def test_absences_are_gathered_by_their_reason():
    lines = text(cards(dumb()))
    assert len(lines) == 4
    assert " ".join(" ".join(lines[1:]).split()) == (
        "unknown temperature, clock, busy, throttling, fan, job timeout, memory errors, link (not in this driver); "
        "power (the first of two looks)"
    )


def test_a_fan_that_a_card_does_not_have_is_nothing_unknown():
    lines = text(cards(card(measures=(measure("fan", None, absent="this card has no fan of its own"),))))
    assert "fan            none: this card has no fan of its own" in lines
    assert not any("fan (" in line for line in lines)


def test_throttling_names_its_reasons_and_is_no_nought_where_it_is_unknown():
    slow = card(throttling=("power limit", "thermal"))
    assert "! throttled    power limit, thermal" in text(cards(slow))
    blind = text(cards(card(throttling=None, throttling_absent="needs root")))
    assert any("throttling (needs root)" in line for line in blind)
    assert not any(line.startswith("throttled") for line in blind)


def test_a_limit_without_a_value_and_half_a_link_are_told():
    half = card(measures=(measure("power_limit", 230.0), measure("link_width", 8.0)))
    assert "power          at most 230 W" in text(cards(half))
    assert "link           x8 at speed unknown" in text(cards(half))


def test_old_readings_say_so():
    assert "· read 1 min 01 s ago ─" in text(cards(), later=60.0)[0]
    assert all(ink is Ink.QUIET for line in drawn(cards(), later=60.0)[1:] for _, ink in line)


def test_a_card_that_nobody_has_read_yet_has_no_age():
    assert "ago" not in text(cards(card(at=0.0)))[0]


def test_what_a_driver_says_is_never_markup_nor_an_escape():
    odd = card(measures=(*B70, measure("temperature", 1.0, "[b]\x1b[31mmem")))
    assert any("[b]mem 1 °C" in line for line in text(cards(odd)))
