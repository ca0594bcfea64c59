"""Plans beside the loop: whatever goes wrong with one refuses nothing, and what cannot fit is refused in numbers."""

import os
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.budget.plan import MIB, Basis, Fit
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.launch import Launch
from arcops.daemon.plans import Planned, Plans, forced, judged
from arcops.machine import footprints
from arcops.machine.footprints import Footprint
from arcops.machine.gpu.base import Roots
from arcops.planning import Subject, Subjects, runtime_of
from tests.core.simulated import launch
from tests.daemon.carded import CARD, CardedRig
from tests.planning.tiny import TOKEN, tiny

PID = 4_100_000
"""Larger than any pid of this machine."""
CARD_MIB = 32_768


@pytest.fixture
def card(tmp_path: Path) -> Generator[CardedRig]:
    """One of 32 GiB, of which 300 MiB are in use; no daemon runs."""
    with CardedRig(tmp_path / "rig") as rig:
        rig.with_card()
        rig.memory_in_use(300)
        yield rig


def plans(
    rig: CardedRig,
    ours: Callable[[], frozenset[int]] = frozenset,
    within: float = 60.0,
    subjects: Subjects | None = None,
) -> Plans:
    roots = Roots(str(rig.folder / "proc"), str(rig.folder / "sys"), str(rig.folder / "dev"))
    return Plans(str(rig.root / "footprints"), ours, roots, within, subjects)


def wanting(folder: Path, pool_mib: int | None, *flags: str) -> Launch:
    """A launch of the tiny model with so large a pool."""
    model = folder / "tiny"
    if not model.exists():
        tiny(model)
    pool = () if pool_mib is None else ("--kv-cache-memory-bytes", str(pool_mib * MIB))
    return launch("wanting", argv=("vllm", "serve", str(model), *pool, *flags), cards=(CARD,))


async def planned(made: Plans, one: Launch) -> Planned:
    found = await made.plan(one)
    assert isinstance(found, Planned), found
    return found


@pytest.mark.asyncio
async def test_what_fits_is_said_to(card: CardedRig, tmp_path: Path) -> None:
    one = wanting(tmp_path, 64)
    found = await planned(plans(card), one)
    assert (found.plan.fit, found.plan.tokens, found.estimated) == (Fit.FITS, 64 * MIB // TOKEN, False)
    (line,) = judged(one, found, force=False)
    assert line.startswith("memory: fits: it needs ")
    assert f"the card has {CARD_MIB:,} MiB" in line
    assert forced(one, found) is None


@pytest.mark.asyncio
async def test_what_cannot_fit_is_refused_with_the_numbers_and_the_nearest_setting(
    card: CardedRig, tmp_path: Path
) -> None:
    one = wanting(tmp_path, 40_960)
    found = await planned(plans(card), one)
    with pytest.raises(ArcopsError) as refused:
        judged(one, found, force=False)
    assert refused.value.exit_code is ExitCode.BLOCKED
    assert refused.value.message.startswith("wanting does not fit: it needs 40,9")
    assert f"and the card has {CARD_MIB:,} MiB" in refused.value.message
    assert refused.value.hint.startswith("cache.kv_cache_memory: ")
    assert refused.value.hint.endswith("; --force starts it all the same")


@pytest.mark.asyncio
async def test_force_lets_it_pass_and_says_so(card: CardedRig, tmp_path: Path) -> None:
    one = wanting(tmp_path, 40_960)
    found = await planned(plans(card), one)
    (line,) = judged(one, found, force=True)
    assert line.startswith("memory: does not fit, and is forced: it needs 40,9")
    words = forced(one, found)
    assert words is not None
    assert "--force" in words


@pytest.mark.asyncio
async def test_what_others_hold_is_taken_and_what_our_backend_holds_is_free(card: CardedRig, tmp_path: Path) -> None:
    one = wanting(tmp_path, 16_384)
    card.holder_comes(PID, "VLLM::EngineCor", 20_000)
    card.memory_in_use(20_300)
    theirs = await planned(plans(card), one)
    assert (theirs.plan.fit, theirs.plan.room.foreign) == (Fit.DOES_NOT, 20_300 * MIB)
    own = await planned(plans(card, lambda: frozenset({PID})), one)
    assert (own.plan.fit, own.plan.room.foreign) == (Fit.FITS, 300 * MIB), "what nobody is named for is not ours"


@pytest.mark.asyncio
async def test_what_an_earlier_launch_took_stands_in_the_place_of_estimates(card: CardedRig, tmp_path: Path) -> None:
    one, made = wanting(tmp_path, None), plans(card)
    assert (await planned(made, one)).estimated
    took = Footprint(runtime_of(one.argv), "launch-1", 1e9, weights=1_000 * MIB, pool=2_000 * MIB, peak=3_500 * MIB)
    footprints.keep(str(card.root / "footprints"), one.profile, took)
    found = await planned(made, one)
    assert [item.size for item in found.plan.items if item.basis is Basis.MEASURED] == [1_000 * MIB, 500 * MIB]
    assert not found.estimated


def unknown_shape(folder: Path) -> Launch:
    one = wanting(folder, 64)
    (folder / "tiny" / "config.json").write_text("{}")
    return one


def no_such_folder(folder: Path) -> Launch:
    return replace(wanting(folder, 64), argv=("vllm", "serve", str(folder / "nowhere")))


def cut_off(folder: Path) -> Launch:
    one = wanting(folder, 64)
    os.truncate(folder / "tiny" / "model.safetensors", 100)
    return one


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (unknown_shape, "it does not say num_attention_heads"),
        (no_such_folder, "cannot be read"),
        (cut_off, "cut off"),
    ],
)
@pytest.mark.asyncio
async def test_a_plan_that_cannot_be_made_refuses_nothing_and_says_why(
    card: CardedRig, tmp_path: Path, make: Callable[[Path], Launch], why: str
) -> None:
    one = make(tmp_path)
    found = await plans(card).plan(one)
    assert isinstance(found, str)
    assert why in found
    assert judged(one, found, force=False) == (f"memory: not planned: {found}",)
    assert forced(one, found) is None


@pytest.mark.asyncio
async def test_a_card_that_is_not_there_or_does_not_say_how_much_it_has_refuses_nothing(
    card: CardedRig, tmp_path: Path
) -> None:
    one = wanting(tmp_path, 40_960)
    gone = await planned(plans(card), replace(one, cards=("0000:99:00.0",)))
    assert gone.plan.fit is Fit.UNKNOWN
    assert judged(one, gone, force=False)[0].endswith("(there is no card 0000:99:00.0)")
    (card.folder / "sys/kernel/debug/dri" / CARD / "vram0_mm").unlink()
    silent = await planned(plans(card), one)
    assert silent.plan.fit is Fit.UNKNOWN
    assert judged(one, silent, force=False)[0].startswith("memory: unknown: how much memory the card has is not known")


@pytest.mark.asyncio
async def test_a_disk_that_hangs_refuses_nothing_and_the_plan_after_it_is_made(card: CardedRig, tmp_path: Path) -> None:
    one, let_go = wanting(tmp_path, 64), threading.Event()

    def hangs(_: Launch) -> Subject:
        let_go.wait(60.0)
        raise OSError(5, "Input/output error")

    found = await plans(card, within=0.05, subjects=Subjects(hangs)).plan(one)
    let_go.set()
    assert isinstance(found, str)
    assert found.startswith("no answer within")
    patient = plans(card, subjects=Subjects(hangs))
    assert await patient.plan(one) == "the cards cannot be looked at: Input/output error"


@pytest.mark.asyncio
async def test_a_fault_of_ours_refuses_nothing(card: CardedRig, tmp_path: Path) -> None:
    def faulty(_: Launch) -> Subject:
        raise ZeroDivisionError("division by zero")

    found = await plans(card, subjects=Subjects(faulty)).plan(wanting(tmp_path, 64))
    assert found == "ZeroDivisionError division by zero"
