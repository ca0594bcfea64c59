"""The cards without a daemon: read here and now on a made-up machine, in time, and with what cannot be seen."""

import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.cards import own
from arcops.cards.look import Sight, lock_path, measure
from arcops.cards.own import OwnLook
from arcops.config.paths import Paths
from arcops.core.cards.measures import CardReading
from arcops.machine.gpu.base import Roots
from arcops.machine.lock import Locks
from tests.trees import sysfs


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    env = {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path / "state")}
    return Paths.of("test", env)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """Two cards of one model."""
    return sysfs.lay(tmp_path / "machine", sysfs.b70("0000:03:00.0"), sysfs.b70("0000:04:00.0", minor=1))


def test_every_card_is_told_with_its_number_and_what_its_driver_says(paths: Paths, roots: Roots) -> None:
    first, second = OwnLook(paths, roots, kmsg="/nowhere").look().cards
    assert (first.address, first.driver, first.mask) == ("0000:03:00.0", "xe", "ZE_AFFINITY_MASK=0")
    assert (second.address, second.mask) == ("0000:04:00.0", "ZE_AFFINITY_MASK=1")
    known = {one.quantity for one in first.measures if one.value is not None}
    assert {"clock", "temperature", "power", "busy"} <= known, "power and use come of two looks"
    assert (first.baseline, first.resets, first.lock_holder, first.lock_absent) == (None, None, None, "")


def test_who_has_a_cards_lock_is_named(paths: Paths, roots: Roots) -> None:
    locks = Locks()
    assert locks.take([lock_path("0000:04:00.0", roots)]) == ()
    try:
        first, second = OwnLook(paths, roots, kmsg="/nowhere").look().cards
    finally:
        locks.release()
    assert first.lock_holder is None
    assert second.lock_holder is not None
    assert "(pytest)" in second.lock_holder or "(python" in second.lock_holder


def test_resets_are_counted_from_the_kernels_log_or_it_is_said_why_not(
    paths: Paths, roots: Roots, tmp_path: Path
) -> None:
    log = tmp_path / "kmsg"
    log.write_text("3,1,5000000,-;xe 0000:03:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs\n")
    told = OwnLook(paths, roots, kmsg=str(log)).look()
    assert [one.resets for one in told.cards] == [1, 0]
    assert [one.kind for one in told.cards[0].incidents] == ["reset"]
    assert "nobody watches now" in told.watching
    unread = OwnLook(paths, roots, kmsg=str(tmp_path / "none")).look()
    assert [one.resets for one in unread.cards] == [None, None]
    assert unread.watching.startswith("cannot watch, because the kernel's log cannot be read")


@pytest.fixture
def hung() -> Generator[threading.Event]:
    """What a driver that hangs waits for."""
    event = threading.Event()
    yield event
    event.set()


def test_a_driver_that_hangs_costs_its_own_card_alone(
    paths: Paths, roots: Roots, monkeypatch: pytest.MonkeyPatch, hung: threading.Event
) -> None:
    def hangs(address: str, earlier: CardReading | None, at: float, where: Roots) -> Sight:
        if address == "0000:03:00.0":
            hung.wait(60.0)
        return measure(address, earlier, at, where)

    monkeypatch.setattr(own, "measure", hangs)
    monkeypatch.setattr(own, "READ_WITHIN", 3.0)
    first, second = OwnLook(paths, roots, kmsg="/nowhere").look().cards
    assert {one.absent for one in first.measures} == {"its driver has not come back for 3 s"}
    assert any(one.value is not None for one in second.measures)


def test_a_machine_without_cards_has_none(paths: Paths, tmp_path: Path) -> None:
    assert OwnLook(paths, sysfs.lay(tmp_path / "machine"), kmsg="/nowhere").look().cards == ()
    assert OwnLook(paths, Roots(sys=str(tmp_path / "none")), kmsg="/nowhere").look().cards == ()
