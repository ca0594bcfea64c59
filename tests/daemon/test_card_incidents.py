"""What befalls a card under a running backend, through the whole daemon: told, asked about, latched where needed."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops import wire
from tests.daemon.carded import CARD, CardedRig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

SAMPLES = Path(__file__).parents[1] / "data" / "kmsg"
RECORDED = "0000:3d:00.0"
"""The card of the recorded lines."""


@pytest.fixture
def rig(tmp_path: Path) -> Generator[CardedRig]:
    with CardedRig(tmp_path) as one:
        one.with_card()
        one.profile(
            "carded",
            extends="target-only",
            device={"kind": "xpu", "cards": [CARD]},
            limits={"probe": "3s", "shutdown_timeout": "1s", "stop_grace": "5s", "clear": "10s"},
        )
        one.start()
        switched = one.arcops("switch", "carded")
        assert switched.code == 0, switched.err
        yield one


def says(rig: CardedRig, name: str, *, only: int | None = None) -> None:
    """The kernel says what it said when a sample was recorded, of the rig's card."""
    for line in (SAMPLES / name).read_text().splitlines()[:only]:
        rig.kernel_says(line[max(0, line.find("xe ")) :].replace(RECORDED, CARD))


def told(rig: CardedRig) -> list[wire.Event]:
    with rig.client() as client:
        return [
            event for event in client.events(limit=10_000).events if event.kind == "kernel" and CARD in event.reason
        ]


def test_recorded_lines_become_events_once_and_a_backend_that_answers_serves_on(rig: CardedRig) -> None:
    says(rig, "xe_b70_engine_reset.txt", only=2)
    eventually(lambda: told(rig), within=60.0)
    shown = rig.arcops("events")
    assert f"card {CARD}: the driver reset the card or one of its engines (engine ccs, python [2693])" in shown.out
    assert rig.phase() == "serving", "a reset that a backend survives is no reason to doubt it"
    with rig.client() as client:
        (card,) = [one for one in client.cards().cards if one.address == CARD]
    assert (card.resets, [one.kind for one in card.incidents]) == (1, ["reset"])
    says(rig, "xe_wedged_llama_server.txt")
    eventually(lambda: any(event.phase == "suspect" for event in phases(rig)), within=60.0)
    rig.wait_for("serving")
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    assert [event.cause for event in told(rig)] == ["reset", "wedged"]
    assert {event.launch_id for event in told(rig)} == {wire_launch(rig)}
    assert rig.starts() == 1


def test_a_backend_that_hangs_on_a_wedged_card_is_taken_down_and_the_card_is_latched(rig: CardedRig) -> None:
    rig.misbehave(hang=True)
    says(rig, "xe_wedged_llama_server.txt")
    status = rig.wait_for("wedged", within=90.0)
    assert status.failure is not None
    assert status.failure.cause == "gpu_wedged"
    for part in (
        f"card {CARD} is wedged",
        "no answer to the probe",
        "a rebind of its driver, a reset or a reboot helps",
        "tried",
    ):
        assert part in status.reason
    assert f"echo {CARD} > /sys/bus/pci/drivers/xe/unbind" in status.failure.hint
    assert [event.phase for event in phases(rig)][-4:] == ["suspect", "stopping", "clearing", "wedged"]
    assert rig.arcops("status").code == 9
    assert rig.starts() == 1


def phases(rig: CardedRig) -> list[wire.Event]:
    with rig.client() as client:
        return [event for event in client.events(limit=10_000).events if event.kind == "phase"]


def wire_launch(rig: CardedRig) -> str:
    backend = rig.status().backend
    assert backend is not None
    return backend.launch_id
