"""The plan on the screen: every width, everything unknown, and no colour needed to read it."""

import msgspec
import pytest

from arcops import wire
from arcops.tui.ink import Ink, Lines, cells
from arcops.tui.panels.plan import Answer, table, verdict
from tests.tui.profile_scenes import FITS, MIB, TOO_MUCH

HOLDS = FITS.cache
assert HOLDS is not None
CPU = msgspec.structs.replace(
    FITS,
    cards=(),
    place="the CPU",
    room=wire.PlanRoom(total=None, foreign=None, absent="the machine's own"),
    fit="unknown",
    reason="the machine's own",
    ceilings=(),
)
NOTHING = msgspec.structs.replace(
    CPU,
    cards=FITS.cards,
    items=tuple(msgspec.structs.replace(item, bytes=None) for item in FITS.items),
    total=None,
    pool=None,
    cache=msgspec.structs.replace(HOLDS, tokens=None, longest_context=None, most_sequences=None),
)


def text(lines: Lines) -> str:
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


def test_while_it_is_read_it_says_so_and_where_there_is_none_why() -> None:
    assert text(verdict(Answer(), 80)) == "memory: reading the checkpoint…"
    assert text(verdict(Answer(problem="it was cut off"), 80)) == "memory: unknown: it was cut off"
    assert text(verdict(Answer(problem="\x1b[31mred"), 80)) == "memory: unknown: red"


@pytest.mark.parametrize(
    ("plan", "said", "ink"),
    [(FITS, " fits", Ink.GOOD), (TOO_MUCH, " does not fit", Ink.BAD), (CPU, " not planned", Ink.PLAIN)],
)
def test_the_verdict_stands_out_and_its_reason_does_not(plan: wire.PlanInfo, said: str, ink: Ink) -> None:
    first = verdict(Answer(plan), 200)[0]
    assert first[1] == (said, ink)
    assert first[2] == (f"; {plan.reason}", Ink.PLAIN)


@pytest.mark.parametrize("width", [24, 40, 58, 78, 120])
@pytest.mark.parametrize("plan", [FITS, TOO_MUCH, CPU, NOTHING], ids=["fits", "too much", "cpu", "nothing known"])
def test_it_is_told_at_any_width(plan: wire.PlanInfo, width: int) -> None:
    found = [*verdict(Answer(plan), width), *table(plan, width)]
    assert found
    if width >= 58:
        assert max(sum(cells(piece) for piece, _ in line) for line in found) <= width


def test_what_is_unknown_is_said_and_never_zero() -> None:
    said = text(table(NOTHING, 78))
    assert said.count("unknown") >= len(NOTHING.items) + 3
    assert " 0 MiB" not in said
    assert "█" not in said, "there is no bar of what is not known"


def test_what_lies_beyond_the_card_is_marked() -> None:
    said = text(table(TOO_MUCH, 78))
    assert "the card ends here ▲" in said
    assert "lacking" in said
    assert "would help: end what else holds memory" in said
    assert "ends here" not in text(table(FITS, 78))


def test_a_cache_that_holds_several_contexts_says_how_many() -> None:
    held = FITS.cache
    assert held is not None
    several = msgspec.structs.replace(FITS, cache=msgspec.structs.replace(held, most_sequences=3))
    assert "3 whole contexts at once" in text(table(several, 78))
    assert "1 whole context\n" in text(table(FITS, 78))
    small = msgspec.structs.replace(FITS, room=wire.PlanRoom(total=32_656 * MIB, foreign=0, absent=""))
    assert "others hold now" not in text(table(small, 78))
