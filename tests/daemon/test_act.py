"""What an action makes of the world, without a daemon around it."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from arcops.config.paths import Paths
from arcops.core.action import TakeLocks
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, Order, State
from arcops.daemon.act import Actor
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.looks import Looks
from arcops.daemon.observe import Observer
from arcops.daemon.scraper import Scraper
from tests.core.simulated import launch

NO_CARD = "/sys/bus/pci/devices/ffff:ff:1f.7"


@pytest.mark.asyncio
async def test_a_lock_that_cannot_even_be_tried_is_unknown_with_its_reason_and_held_by_nobody(tmp_path: Path) -> None:
    paths = Paths.of("test", {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    clock = Clock()
    scraper, looks = Scraper(clock, lambda: None), Looks(clock, lambda: None)
    actor = Actor(paths, clock, cast("Journal", SimpleNamespace()), scraper, looks, lambda: None)
    observer = Observer(clock, actor, scraper, looks)
    for path, ours in ((NO_CARD, None), (str(tmp_path / "cpu.lock"), True)):
        wanted = launch(locks=(path,))
        state = State(phase=Phase.STOPPED, order=Order(1, Goal.RUN, wanted.profile, wanted))
        await actor.perform(TakeLocks(wanted), state)
        match observer.look(state).lock:
            case Unknown(reason=reason):
                assert ours is None
                assert reason == f"there is no card ffff:ff:1f.7 on this machine ({NO_CARD})"
            case Known(value=lock):
                assert (lock.ours, lock.holders) == (ours, ())
    actor.locks.release()
