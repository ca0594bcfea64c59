"""A clean card, through the whole daemon: who is in the way is named, and a stop waits until the memory is back."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops import wire
from tests.daemon.carded import CARD, CardedRig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

PID = 4_100_000
"""Larger than any pid of this machine."""
IDLE = 300


@pytest.fixture
def rig(tmp_path: Path) -> Generator[CardedRig]:
    with CardedRig(tmp_path) as one:
        one.with_card()
        one.memory_in_use(IDLE)
        one.profile("carded", extends="target-only", device={"kind": "xpu", "cards": [CARD]}, limits={"clear": "3s"})
        yield one.start()


def baseline(rig: CardedRig) -> int | None:
    """MiB that the card has when idle, as the daemon says."""
    with rig.client() as client:
        (card,) = [one for one in client.cards().cards if one.address == CARD]
    return None if card.baseline is None else card.baseline // 1024**2


def test_whoever_has_the_cards_memory_is_named_and_when_he_has_gone_it_goes_ahead(rig: CardedRig) -> None:
    rig.holder_comes(PID, "ollama", 2_658)
    rig.memory_in_use(IDLE + 2_658)
    refused = rig.arcops("switch", "carded")
    assert refused.code == 5
    assert f"pid {PID} (ollama) of user root holds 2,658 MiB of card {CARD}" in refused.err
    assert rig.starts() == 0
    rig.holder_goes(PID)
    rig.memory_in_use(IDLE)
    assert rig.arcops("switch", "carded").code == 0


def test_memory_that_nobody_is_named_for_is_in_the_way_as_well(rig: CardedRig) -> None:
    rig.memory_in_use(9_000)
    refused = rig.arcops("switch", "carded")
    assert refused.code == 5
    assert f"9,000 MiB of card {CARD} are in use, more than the 2,048 MiB that a driver may have" in refused.err
    assert "nobody can be named" in refused.err
    assert "sudo arcops doctor" in refused.err
    assert rig.starts() == 0


def test_a_stop_is_stuck_while_the_memory_does_not_come_back_and_what_the_card_has_when_idle_is_kept(
    rig: CardedRig,
) -> None:
    assert rig.arcops("switch", "carded").code == 0
    rig.memory_in_use(24_000)
    stopped = rig.arcops("stop")
    assert stopped.code == 1
    assert f"24,000 MiB of card {CARD} are in use" in stopped.err
    status: wire.Status = rig.wait_for("stuck")
    assert "nobody can be named" in status.reason
    rig.memory_in_use(IDLE)
    rig.wait_for("stopped")
    eventually(lambda: baseline(rig) == IDLE, why="it is not learnt")
    rig.kill_daemon()
    rig.start()
    assert baseline(rig) == IDLE
