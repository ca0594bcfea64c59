"""How the draft does: what the numbers are, and what they are not."""

import msgspec

from arcops.core.rates import Speculation
from arcops.tui.panels.base import Room
from arcops.tui.panels.speculation import SpeculationPanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes

FOUND = Speculation(drafts=12_345, acceptance=0.712, tokens_per_step=3.14, per_position=(0.91, 0.71, 0.52))


def lines(found: Speculation | None, width: int = 78, *, tall: bool = False, speculates: bool = True) -> list[str]:
    status = msgspec.structs.replace(
        scenes.busy(), backend=scenes.backend(speculates=speculates), rates=scenes.busy_rates(speculation=found)
    )
    snapshot = Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=status)
    return ["".join(text for text, _ in line) for line in SpeculationPanel().lines(snapshot, Room(width, 0, tall))]


def test_at_80_columns_acceptance_and_tokens_per_step_have_a_row():
    assert lines(FOUND)[1:] == [
        "acceptance   71.2 %   tokens per step 3.14 (without a draft 1)",
        "by position 1 ██████████░  91 %   2 ███████▊░░░  71 %   3 █████▊░░░░░  52 %",
    ]


def test_where_there_is_room_the_speed_up_says_that_it_was_not_timed():
    assert lines(FOUND, tall=True)[-1] == "speed-up    × 3.14 over one token a step; not measured against target-only"


def test_a_wide_screen_has_the_accepted_length_and_the_number_of_drafts():
    assert lines(FOUND, 110)[1].endswith("   accepted 2.14 a draft   drafts 12,345")


def test_a_narrow_one_keeps_the_tokens_per_step():
    assert lines(FOUND, 58)[1] == "acceptance   71.2 %   tokens per step 3.14"


def test_many_positions_become_columns():
    many = Speculation(drafts=9, acceptance=0.5, tokens_per_step=4.5, per_position=tuple(1 - n / 16 for n in range(16)))
    assert lines(many)[2] == "by position ██▇▆▆▆▅▄▄▄▃▂▂▂▂▂  1: 100 %, 16: 6 %"


def test_without_a_draft_there_is_nothing_and_an_idle_one_says_so():
    assert lines(None, speculates=False) == []
    assert lines(None)[1:] == ["unknown: nothing was drafted in the last 1 min"]
