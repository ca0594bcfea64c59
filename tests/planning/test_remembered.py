"""What earlier launches took, as plans go by it."""

from dataclasses import replace
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.budget.demand import Remembered
from arcops.core.budget.plan import MIB, Basis, Room
from arcops.machine import footprints
from arcops.machine.footprints import Footprint
from arcops.planning import plan_for, recall, runtime_of
from arcops.planning.remembered import remembered_of
from arcops.planning.told import PLAIN, Question, told
from tests.core.simulated import launch
from tests.planning.tiny import tiny

NOON = 1_795_867_200.0
"""2026-11-28, at noon in Greenwich."""
ONE = Footprint("r", "launch-1", NOON, weights=20 * MIB, pool=30 * MIB, peak=57 * MIB)


def test_what_is_beside_weights_and_cache_is_the_rest_of_the_peak() -> None:
    assert remembered_of(ONE) == Remembered(weights=20 * MIB, beside=7 * MIB, when="2026-11-28")


@pytest.mark.parametrize(
    ("footprint", "known"),
    [
        (None, Remembered()),
        (replace(ONE, peak=None), Remembered(weights=20 * MIB, when="2026-11-28")),
        (replace(ONE, pool=None), Remembered(weights=20 * MIB, when="2026-11-28")),
        (replace(ONE, weights=None), Remembered(when="2026-11-28")),
        (replace(ONE, weights=0), Remembered(beside=27 * MIB, when="2026-11-28")),
        (replace(ONE, peak=40 * MIB), Remembered(weights=20 * MIB, when="2026-11-28")),
        (replace(ONE, peak=50 * MIB), Remembered(weights=20 * MIB, when="2026-11-28")),
    ],
    ids=["nothing", "no peak", "no pool", "no weights", "weights of nothing", "a peak too low", "a rest of nothing"],
)
def test_what_is_not_known_stays_unknown_and_is_never_less_than_nothing(
    footprint: Footprint | None, known: Remembered
) -> None:
    assert remembered_of(footprint) == known


ARGV = ("/opt/vllm", "serve", "model", "--host", "127.0.0.1", "--port", "8000", "--max-model-len", "4096")


@pytest.mark.parametrize(
    ("argv", "same"),
    [
        (("/opt/vllm", "serve", "model", "--port=9", "--host=0.0.0.0", "--max-model-len", "4096"), True),
        (("/opt/vllm", "serve", "model", "--max-model-len", "4096"), True),
        (("/opt/vllm", "serve", "model", "--max-model-len", "8192"), False),
        (("/usr/vllm", "serve", "model", "--max-model-len", "4096"), False),
        (("/opt/vllm", "serve", "model", "--max-model-len", "4096", "--port"), True),
        (("/opt/vllm", "serve", "model --max-model-len", "4096"), False),
    ],
)
def test_an_address_makes_no_other_runtime_and_everything_else_does(argv: tuple[str, ...], same: bool) -> None:
    assert (runtime_of(argv) == runtime_of(ARGV)) is same


def test_a_plan_goes_by_what_the_last_launch_took_and_says_when_that_was(tmp_path: Path) -> None:
    argv = ("vllm", "serve", str(tiny(tmp_path / "model")), "--kv-cache-memory-bytes", str(64 * MIB))
    one = launch(argv=argv)
    footprints.keep(str(tmp_path), one.profile, replace(ONE, runtime=runtime_of(argv), peak=57 * MIB))
    plan = plan_for(one, Room(1024 * MIB, 0), recall(str(tmp_path), one))
    assert [(item.size, item.basis) for item in plan.items[:-1]] == [
        (20 * MIB, Basis.MEASURED),
        (7 * MIB, Basis.MEASURED),
    ]
    assert all("2026-11-28" in item.words for item in plan.items[:-1])
    other = launch(argv=(*argv, "--enforce-eager"))
    assert recall(str(tmp_path), other) == Remembered(), "with other flags it is another launch"


def test_whoever_asks_for_a_plan_is_told_what_was_measured_unless_other_cards_or_drafts_are_asked_about(
    tmp_path: Path,
) -> None:
    paths = Paths.of("t", {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    argv = ("vllm", "serve", str(tiny(tmp_path / "model")), "--kv-cache-memory-bytes", str(64 * MIB))
    one = launch(argv=argv, cards=())
    footprints.keep(str(paths.footprints), one.profile, replace(ONE, runtime=runtime_of(argv)))

    def bases(question: Question) -> set[str]:
        return {item.basis for item in told(one, paths, question).items}

    assert bases(PLAIN) == {"measured", "exact"}
    assert bases(Question(context=2048)) == {"measured", "exact"}
    assert "measured" not in bases(Question(cards=2))
