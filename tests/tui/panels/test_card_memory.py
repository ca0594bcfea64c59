"""Who has how much of a card's memory."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops import wire
from arcops.core.cards.measures import Quantity
from arcops.tui.ink import Ink, Lines
from arcops.tui.panels.card_facts import CardFacts
from arcops.tui.panels.card_memory import memory
from tests.tui import scenes
from tests.tui.card_scenes import ALONE, B70, FOREIGN, MIB, OURS, card, cards, census, dumb, holding, measure, user
from tests.tui.views.stage import snapshot_of


def drawn(known: wire.Cards | None, width: int = 78, *, later: float = 0.0, looking: bool = False) -> Lines:
    now = snapshot_of(now=scenes.NOW + later)
    return memory(CardFacts(now, (), "", "", (), "", known, looking=looking), width)


def text(known: wire.Cards | None, width: int = 78, *, later: float = 0.0, looking: bool = False) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in drawn(known, width, later=later, looking=looking)]


def held_by(*holdings: wire.CardHolding, **more: object) -> list[str]:
    return text(cards(card(census=census(*holdings, **more))))


def test_everybody_has_a_row_with_the_sign_of_the_part_of_the_bar():
    assert text(cards(), 100) == [
        "── Memory of 0000:03:00.0, Arc Pro B70 · every process ─────────────────────────────────────────────",
        "in use         28,572 of 32,624 MiB  87.6 %  █████████████████████████████████████████████▒▒▓░░░░░░░",
        "█ ours          26,624 MiB  pid 4311 (VLLM::EngineCore) of user op in /user.slice/arcops-main.scope",
        "▒ foreign        1,536 MiB  pid 5150 (python3 [b]train.py[/b]) of user anna, shared with pid 5151",
        "▓ allowed          112 MiB  pid 900 (gnome-shell) of user op",
        "▚ unattributed     300 MiB  that nobody can be named for",
        "? unreadable   11 processes may not be looked into, and might hold some",
        "· idle         open, and without memory: pid 4242 (vllm serve)",
        "  baseline          80 MiB  in use while nobody holds any",
        "! note         the driver says 28,572 MiB are in use, and its clients 28,272",
    ]


def test_nobody_is_only_said_where_everybody_was_looked_at():
    assert "held by        nobody" in held_by()
    assert "held by        nobody that may be looked into" in held_by(unreadable=1)
    assert "? unreadable   1 process may not be looked into, and might hold some" in held_by(unreadable=1)
    alone = " ".join(" ".join(held_by(everybody=False)).split())
    assert "held by nobody" not in alone
    assert "held by our backend holds none; others were not looked at: u looks at every process" in alone


def test_what_others_have_is_not_said_to_be_nobodys_where_they_were_not_looked_at():
    lines = text(cards(card(census=ALONE)))
    assert "▚ unattributed   1,948 MiB  of others, or nobody's: u looks at every process" in lines
    assert "· ours alone ─" in lines[0]


def test_a_size_that_the_driver_does_not_say_is_unknown_and_no_nought():
    lines = held_by(holding(1, None, user(7, "x")), unattributed=None, unattributed_absent="a holder's size is unknown")
    assert "▒ foreign          unknown  pid 7 (x) of user op" in lines
    assert "▚ unattributed unknown: a holder's size is unknown" in lines
    assert held_by(holding(1, 0.2, user(7, None, None)))[2] == "▒ foreign          < 1 MiB  pid 7 (command unknown)"
    assert held_by(holding(1, 5))[2] == "▒ foreign            5 MiB  no process that can be seen"


def test_a_card_that_tells_little_says_why():
    assert text(cards(dumb()))[1:] == [
        "in use         unknown: needs CAP_PERFMON; it has 12,288 MiB",
        "held by        unknown: nobody has looked yet; u looks at every process",
        "  baseline     unknown: it was not seen idle yet",
    ]
    only_used = card(measures=(measure("memory_used", 5.0 * MIB), measure("memory_total", None, absent="no ioctl")))
    assert text(cards(only_used))[1] == "in use         5 MiB; all: unknown: no ioctl"


def test_what_the_driver_keeps_is_told_apart():
    assert "  reserved         615 MiB  more, which the driver keeps for itself" in text(
        cards(card(measures=(*B70, measure("memory_reserved", 615.0 * MIB))))
    )


def test_many_holders_are_told_together_the_ones_that_matter_first():
    many = [holding(n, 10 + n, user(100 + n, "x"), allowed=True) for n in range(10)]
    lines = held_by(*many, FOREIGN, OURS)
    assert lines[2].startswith("█ ours")
    assert lines[3].startswith("▒ foreign")
    assert "  and          4 more, with 70 MiB" in lines
    unsure = held_by(*many, holding(99, None, allowed=True))
    assert "  and          3 more, with at least 37 MiB" in unsure


def test_two_cards_have_a_name_each():
    lines = text(cards(card(), dumb()))
    assert lines[0].startswith("── Memory ──")
    assert "0000:03:00.0  Arc Pro B70" in lines
    assert "0000:04:00.0  [8086:e223]" in lines


def test_what_is_old_says_its_age_and_does_not_look_live():
    assert "every process, 15 s ago" in text(cards(), later=14.0)[0]
    assert all(ink is Ink.QUIET for line in drawn(cards(), later=14.0)[1:] for _, ink in line)
    assert any(ink is Ink.WARN for line in drawn(cards()) for _, ink in line)


def test_a_look_that_goes_on_is_told():
    assert "looking at every process…" in text(cards(), looking=True)[0]


_SIZES = st.one_of(st.none(), st.floats(0, 60_000))
_HOLDINGS = st.lists(st.builds(holding, st.integers(0, 9), _SIZES, ours=st.booleans(), allowed=st.booleans()))


@given(_HOLDINGS, st.floats(0, 40_000), st.integers(20, 200))
def test_the_bar_keeps_to_the_line_whatever_the_sources_say(holdings: list[wire.CardHolding], used: float, width: int):
    measures = (measure("memory_used", used * MIB), measure("memory_total", 32_624.0 * MIB))
    line = text(cards(card(measures=measures, census=census(*holdings))), width)[1]
    bar = [cell for cell in line if cell in "█▒▓▚░"]
    assert len(line) <= max(width, 46)
    if bar:
        free = bar.count("░") / len(bar)
        assert free == pytest.approx(max(0.0, 1 - used / 32_624), abs=1.01 / len(bar))


def test_the_quantities_that_are_looked_for_are_the_contracts():
    known = {quantity.label for quantity in Quantity}
    assert {one.quantity for one in B70} <= known
    assert msgspec.structs.replace(card(), measures=()).measures == ()
