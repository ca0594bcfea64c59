"""A daemon and its card: in the status, the metrics, the history and `arcops gpu`, all from one reading."""

import time
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from arcops import wire
from tests.daemon.carded import CARD, CardedRig
from tests.helpers import eventually

CLOCK = 2_400


@pytest.fixture
def rig(tmp_path: Path) -> Generator[CardedRig]:
    with CardedRig(tmp_path) as one:
        gt = one.with_card().folder / "sys/bus/pci/devices" / CARD / "tile0/gt0/freq0"
        gt.mkdir(parents=True)
        (gt / "act_freq").write_text(f"{CLOCK}\n")
        yield one.start()


@pytest.mark.processes
def test_a_backends_card_is_told_wherever_somebody_looks(rig: CardedRig) -> None:
    began = time.time()
    assert rig.status().cards == (), "nothing is ordered"
    switched = rig.arcops("switch", "carded")
    assert switched.code == 0, switched.err
    (glance,) = eventually(lambda: [one for one in rig.status().cards if one.clock], why="its card is never read")
    assert (glance.address, glance.clock, glance.memory_used) == (CARD, float(CLOCK), None)
    assert "renderD128" in glance.absent["memory_used"], "unknown says why"
    card = eventually(lambda: looked_at(rig), why="nobody looks at everybody in time")
    assert (card.mask, card.lock_holder) == ("ZE_AFFINITY_MASK=0", "this supervisor and its backend")
    shown = rig.arcops("gpu")
    assert (shown.code, shown.err) == (0, "")
    assert "gt0 2,400 MHz" in shown.out
    assert f"card         {CARD} (Intel Arc Pro B70)" in rig.arcops("status").out
    assert metrics(rig)["arcops_card_clock_hertz"] == CLOCK * 1e6
    with rig.client() as client:
        points = eventually(
            lambda: [one for page in client.all_samples(began, None, 1.0) for one in page.points if one.card_clock],
            why="the history has no clock of the card",
        )
    assert points[-1].card_clock == wire.Spread(mean=CLOCK, low=CLOCK, high=CLOCK)
    assert points[-1].card_memory is None
    assert rig.arcops("stop").code == 0


def looked_at(rig: CardedRig) -> wire.CardInfo | None:
    """The card as `arcops gpu` tells it, once every process was looked into."""
    (card,) = msgspec.json.decode(rig.arcops("gpu", CARD, "--json").out, type=wire.Cards).cards
    return card if card.census is not None and card.census.everybody else None


def metrics(rig: CardedRig) -> dict[str, float]:
    """What `/metrics` has of the card."""
    with rig.client() as client:
        families = list(text_string_to_metric_families(client.metrics()))
    return {one.name: one.value for family in families for one in family.samples if one.labels.get("card") == CARD}
