"""A card that the kernel says is wedged, through the whole daemon: latched, told with exit code 9, and forgiven."""

import errno
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from arcops import wire
from tests.daemon.carded import CARD, LOST, CardedRig

pytestmark = pytest.mark.processes

WEDGED = f"xe {CARD}: [drm] *ERROR* CRITICAL: Xe has declared device {CARD} as wedged."
RESET = f"xe {CARD}: [drm] GT1: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=14"


@pytest.fixture
def rig(tmp_path: Path) -> Generator[CardedRig]:
    with CardedRig(tmp_path) as one:
        yield one.with_card()


def serving(rig: CardedRig) -> wire.Status:
    rig.start()
    switched = rig.arcops("switch", "carded")
    assert switched.code == 0, switched.err
    return rig.status()


def loses_its_card(rig: CardedRig, status: wire.Status, said: str) -> None:
    """The kernel says what it says, vLLM that its device is lost, and ends."""
    assert status.backend is not None
    rig.kernel_says(said)
    with Path(status.backend.log_path).open("a") as log:
        log.write(f"(EngineCore pid=7) ERROR 11-30 12:00:00 [core.py:1374] {LOST}\n")
    with suppress(httpx.HTTPError):  # it ends without a word to whoever told it to
        rig.misbehave(exit_code=1)


def phases(rig: CardedRig) -> list[str]:
    with rig.client() as client:
        return [event.phase for event in client.events(limit=10_000).events if event.kind == "phase"]


def wedged(rig: CardedRig) -> wire.Status:
    loses_its_card(rig, serving(rig), WEDGED)
    return rig.wait_for("wedged")


def test_a_card_that_the_kernel_gives_up_latches_and_is_told_with_what_to_do(rig: CardedRig) -> None:
    status = wedged(rig)
    assert status.failure is not None
    assert (status.failure.cause, status.failure.evidence) == ("gpu_wedged", WEDGED)
    assert f"card {CARD} is wedged" in status.reason
    assert (status.order.profile, status.backend, status.locks) == ("carded", None, ())
    shown = rig.arcops("status")
    assert shown.code == 9
    assert f"card {CARD} is wedged" in shown.out
    assert f"`echo {CARD} > /sys/bus/pci/drivers/xe/unbind`" in shown.out
    assert "then `arcops restart`" in shown.out
    assert rig.arcops("status", "--json").code == 9


def test_nothing_is_launched_on_it_by_this_supervisor_or_the_next(rig: CardedRig) -> None:
    first = wedged(rig)
    rig.kill_daemon()
    rig.start()
    again = rig.wait_for("wedged")
    assert (again.reason, again.order.profile) == (first.reason, "carded")
    assert rig.arcops("status").code == 9
    assert rig.starts() == 1
    assert phases(rig)[-3:] == ["stopping", "clearing", "wedged"]


def test_a_restart_is_refused_while_the_card_does_not_answer_and_forgives_once_it_does(rig: CardedRig) -> None:
    wedged(rig)
    rig.card_answers(errno.ECANCELED)
    for order in (("restart",), ("switch", "carded"), ("switch", "carded", "--dry-run")):
        refused = rig.arcops(*order)
        assert refused.code == 9
        assert f"card {CARD} is wedged" in refused.err
    assert (rig.phase(), rig.starts()) == ("wedged", 1)
    rig.card_is_reset()
    assert rig.arcops("restart").code == 0
    mended = rig.wait_for("serving")
    assert (mended.order.profile, mended.failure, mended.trouble) == ("carded", None, ())
    assert (rig.arcops("status").code, rig.starts()) == (0, 2)


def test_a_first_switch_that_wedges_the_card_gives_nine(rig: CardedRig) -> None:
    rig.profile("worse", extends="carded", runtime={"env": {"FAKE_VLLM_FAIL_WITH": "oom"}})
    rig.start()
    rig.kernel_says(WEDGED)
    switched = rig.arcops("switch", "worse")
    assert switched.code == 9
    assert f"card {CARD} is wedged" in switched.err
    assert (rig.phase(), rig.starts()) == ("wedged", 1)


def test_a_card_that_was_only_reset_is_launched_on_again(rig: CardedRig) -> None:
    """The sibling: the same words of vLLM's, and the kernel says that the card goes on."""
    loses_its_card(rig, serving(rig), RESET)
    rig.wait_for("backoff", "starting", "checking")
    again = rig.wait_for("serving")
    assert (again.order.profile, rig.starts()) == ("carded", 2)
    with rig.client() as client:
        events = client.events(limit=10_000).events
    assert {event.cause for event in events if event.kind == "phase" and event.cause} == {"device_lost"}
    (waited,) = [event.reason for event in events if event.phase == "backoff" and event.kind == "phase"]
    assert "the driver reset the card" in waited, "both words: vLLM's and the kernel's"
    assert "the card is to blame and not the profile" in waited
    (tried,) = [event.reason for event in events if event.kind == "card"]
    assert tried == f"tried: healthy: card {CARD} computes (tried with torch 2.13)"
    last = [event.reason for event in events if event.kind == "phase" and event.phase == "starting"][-1]
    assert last == f"launching carded; card {CARD} computes (tried with torch 2.13)"


def test_a_card_that_does_not_compute_after_a_reset_latches_wedged_with_what_was_tried(rig: CardedRig) -> None:
    status = serving(rig)
    rig.trial_says("torch 2.13\ncards 1\ntry 0 a card\nraised 0 RuntimeError: UR_RESULT_ERROR_DEVICE_LOST\n")
    loses_its_card(rig, status, RESET)
    latched = rig.wait_for("wedged")
    assert latched.failure is not None
    assert latched.failure.cause == "gpu_wedged"
    assert latched.failure.summary.startswith(f"card {CARD} was lost over a small product: RuntimeError: UR_RESULT")
    assert "unbind" in latched.failure.hint
    assert "reboot" in latched.failure.hint
    with rig.client() as client:
        (tried,) = [event.reason for event in client.events(limit=10_000).events if event.kind == "card"]
    assert tried.startswith(f"tried: wedged: card {CARD} was lost over a small product")
    again = rig.arcops("restart")
    assert again.code == 9
    assert "was lost over a small product" in again.err
    rig.trial_says("torch 2.13\ncards 1\ntry 0 a card\nright 0 0.02\ndone\n")
    assert rig.arcops("restart").code == 0
    assert (rig.phase(), rig.starts()) == ("serving", 2)
