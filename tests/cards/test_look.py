"""One look at a card: found anew each time, and whatever stands in the way is an absence with its reason."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from arcops.cards import look
from arcops.cards.look import lock_holder, lock_path, measure
from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.base import Roots
from arcops.machine.lock import Locks
from tests.helpers import eventually
from tests.trees import sysfs

CARD = "0000:03:00.0"


def why(sight: look.Sight) -> str:
    assert isinstance(sight.reading, Unknown)
    return sight.reading.reason


def test_a_card_is_found_by_its_address_whatever_its_number_is_now(tmp_path: Path) -> None:
    card = sysfs.b70(CARD)
    first = measure(CARD, None, 1.0, sysfs.lay(tmp_path, card))
    assert first.identity is not None
    assert isinstance(first.reading, Known)
    assert first.cost > 0.0
    again = measure(CARD, first.reading.value, 2.0, sysfs.lay(tmp_path, card.renumbered(5)))
    assert again.identity is not None
    assert (first.identity.render_node, again.identity.render_node) == ("/dev/dri/renderD128", "/dev/dri/renderD133")
    assert isinstance(again.reading, Known)
    assert isinstance(again.reading.value.reading(Quantity.POWER), Known), "rates go on over a rebind"


def test_a_card_that_is_not_there_has_no_driver_or_a_strange_one_is_an_absence(tmp_path: Path) -> None:
    roots = sysfs.lay(tmp_path, sysfs.b70(CARD))
    gone = measure("0000:09:00.0", None, 1.0, roots)
    assert (gone.identity, why(gone)) == (None, "there is no such card in this machine (any more)")
    driver = Path(roots.sys, "bus/pci/devices", CARD, "driver")
    driver.unlink()
    assert why(measure(CARD, None, 1.0, roots)) == "no driver is bound to it"
    driver.symlink_to("../../../../bus/pci/drivers/vfio-pci")
    assert why(measure(CARD, None, 1.0, roots)) == "arcops does not read the driver vfio-pci"
    shutil.rmtree(roots.sys)
    assert measure(CARD, None, 1.0, roots).identity is None


def test_a_driver_that_cannot_be_asked_is_an_absence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def read(self, card: CardIdentity, at: float, roots: Roots) -> CardReading:
            raise OSError(5, os.strerror(5))

    monkeypatch.setattr(look, "reader_for", lambda _: Broken())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - in its place
    sight = measure(CARD, None, 1.0, sysfs.lay(tmp_path, sysfs.b70(CARD)))
    assert sight.identity is not None
    assert why(sight) == "its driver cannot be asked: Input/output error"


def test_who_has_a_lock_is_named_and_a_crowd_is_counted(tmp_path: Path) -> None:
    roots = sysfs.lay(tmp_path, sysfs.b70(CARD))
    assert lock_holder(CARD, roots) is None
    locks = Locks()
    assert locks.take([lock_path(CARD, roots)]) == ()
    heirs = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=locks.descriptors())
        for _ in range(4)
    ]
    try:
        found = eventually(lambda: lock_holder(CARD, roots))
    finally:
        for heir in heirs:
            heir.communicate(b"\n", timeout=60)
        locks.release()
    named = {int(pid) for pid in re.findall(r"pid ([0-9]+) \(", found)}
    assert len(named) == look.MOST_NAMED
    assert named < {os.getpid(), *(heir.pid for heir in heirs)}, "those with the lowest numbers, which begin anew"
    assert found.endswith(" and 2 more"), found
    assert lock_holder(CARD, roots) is None
