"""What is done about failures: what stands in (`on_failure`), for how long, and what is offered and latched."""

import os
import signal
import sqlite3
from contextlib import closing

import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def guarded(rig: Rig, *, fail_with: str = "tool_parser", on_failure: str = "target-only") -> None:
    """The profile `guarded`, whose every start fails, and what takes its place."""
    rig.profile(
        "guarded",
        extends="mtp",
        on_failure=on_failure,
        runtime={"env": {"FAKE_VLLM_FAIL_WITH": fail_with}} if fail_with else {},
    )


def stood_in(rig: Rig) -> wire.Status:
    """A daemon whose order to run `guarded` has failed, so that target-only runs in its place."""
    guarded(rig)
    rig.start()
    assert rig.arcops("switch", "guarded").code == 7
    return serving_instead(rig)


def serving_instead(rig: Rig) -> wire.Status:
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert (status.backend.profile, status.order.profile, status.order.standing_in) == (
        "target-only",
        "guarded",
        "target-only",
    )
    return status


def pid_of(status: wire.Status) -> int:
    assert status.backend is not None
    assert status.backend.pid is not None
    return status.backend.pid


def reasons(rig: Rig, kind: str) -> list[str]:
    with rig.client() as client:
        return [event.reason for event in client.events(after=-100).events if event.kind == kind]


# -- once, and visibly ------------------------------------------------------------------------------------------------
def test_a_profile_that_fails_for_good_is_replaced_once_and_visibly(rig: Rig) -> None:
    guarded(rig)
    rig.start()
    switched = rig.arcops("switch", "guarded")
    assert switched.code == 7
    assert "target-only is started in its place (on_failure)" in switched.err
    status = serving_instead(rig)
    assert "in place of guarded" in status.reason
    assert status.order.standing_in_because == "there is no tool call parser nosuch"
    assert (status.failure, rig.starts()) == (None, 2)
    trouble = [line for line in status.trouble if "target-only stands in for guarded" in line]
    assert len(trouble) == 1
    assert "until `arcops restart` or a reboot" in trouble[0]
    told = reasons(rig, "stand_in")
    assert len(told) == 1
    assert "target-only takes its place, as its on_failure says" in told[0]
    shown = rig.arcops("status")
    assert shown.code == 0
    assert "run guarded; target-only stands in for it" in shown.out
    assert rig.complete()["usage"]


def test_a_draft_that_is_to_blame_is_done_without(rig: Rig) -> None:
    guarded(rig, fail_with="no_mtp_head")
    rig.start()
    switched = rig.arcops("switch", "guarded")
    assert switched.code == 7
    assert "`arcops switch target-only` is the same launch without the draft" in switched.err
    status = serving_instead(rig)
    assert status.backend is not None
    assert not status.backend.speculates


def test_a_switch_that_has_a_way_back_takes_that(rig: Rig) -> None:
    guarded(rig, on_failure="mtp")
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    assert rig.arcops("switch", "guarded").code == 7
    status = rig.wait_for("serving")
    assert (status.order.profile, status.order.standing_in, rig.starts()) == ("target-only", None, 3)


def written(rig: Rig, phase: str) -> bool:
    """The history's newest change of phase is to this one."""
    with rig.client() as client:
        phases = [event.phase for event in client.events(after=-20, limit=20).events if event.kind == "phase"]
    return phases[-1:] == [phase]


def test_a_stand_in_that_fails_too_leaves_both_reasons_over_supervisors_until_a_restart(rig: Rig) -> None:
    rig.misbehaving("worse", fail_with="max_len")
    guarded(rig, on_failure="worse")
    rig.start()
    assert rig.arcops("switch", "guarded").code == 7
    first = rig.wait_for("failed")
    assert "100000" in first.reason
    assert "it stood in for guarded, which had failed before: there is no tool call parser nosuch" in first.reason
    assert not any("stands in" in line for line in first.trouble)
    # The latch is written down by a thread of its own: a supervisor that dies before is followed by one more attempt.
    eventually(lambda: written(rig, "failed"), why="the latch does not come to the disk")
    rig.kill_daemon()
    rig.start()
    again = rig.wait_for("failed")
    assert (again.reason, again.order.standing_in, rig.starts()) == (first.reason, "worse", 2)
    guarded(rig, fail_with="", on_failure="worse")
    assert rig.arcops("restart").code == 0
    mended = rig.wait_for("serving")
    assert (mended.order.profile, mended.order.standing_in, mended.trouble) == ("guarded", None, ())
    assert rig.starts() == 3


def test_a_profile_whose_stand_in_cannot_be_launched_is_refused_before_anything_is_touched(rig: Rig) -> None:
    rig.profile("unfit", extends="target-only", model={"path": "nowhere"})
    guarded(rig, on_failure="unfit")
    rig.start()
    refused = rig.arcops("switch", "guarded")
    assert refused.code == 6
    assert "profile guarded: on_failure: " in refused.err
    assert (rig.phase(), rig.starts()) == ("stopped", 0)


# -- orders -----------------------------------------------------------------------------------------------------------
def test_a_restart_tries_what_was_ordered_and_goes_back_to_the_stand_in_if_that_fails(rig: Rig) -> None:
    stood_in(rig)
    again = rig.arcops("restart")
    assert again.code == 7
    assert "back to target-only" in again.err
    serving_instead(rig)
    assert rig.starts() == 4
    guarded(rig, fail_with="")
    assert rig.arcops("restart").code == 0
    mended = rig.wait_for("serving")
    assert (mended.order.profile, mended.order.standing_in) == ("guarded", None)


def test_ordering_what_stands_in_makes_it_the_order_and_leaves_it_alone(rig: Rig) -> None:
    pid = pid_of(stood_in(rig))
    assert rig.arcops("switch", "target-only").code == 0
    status = rig.wait_for("serving")
    assert (pid_of(status), status.order.profile, status.order.standing_in) == (pid, "target-only", None)
    assert (status.trouble, rig.starts()) == ((), 2)
    rig.kill_daemon()
    rig.start()
    adopted = rig.wait_for("serving")
    assert (pid_of(adopted), adopted.order.profile) == (pid, "target-only")


# -- the next supervisor, the next boot -------------------------------------------------------------------------------
def test_the_next_supervisor_adopts_what_stands_in_and_starts_it_again_when_it_dies(rig: Rig) -> None:
    pid = pid_of(stood_in(rig))
    rig.kill_daemon()
    rig.start()
    adopted = serving_instead(rig)
    assert adopted.backend is not None
    assert (pid_of(adopted), adopted.backend.adopted, rig.starts()) == (pid, True, 2)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: rig.starts() == 3, within=20, why=f"nothing was started again: {rig.daemon_log()}")
    assert pid_of(serving_instead(rig)) != pid


def test_after_an_orderly_end_the_stand_in_comes_back_and_after_a_reboot_what_was_ordered_is_tried(rig: Rig) -> None:
    stood_in(rig)
    assert rig.end_daemon() == 0
    rig.start()
    serving_instead(rig)
    assert rig.starts() == 3
    assert rig.end_daemon() == 0
    with closing(sqlite3.connect(rig.paths.database)) as store:
        rewritten = "UPDATE meta SET value = json_set(value, '$.boot_id', 'earlier') WHERE key = 'own:attempts'"
        assert store.execute(rewritten).rowcount == 1
        store.commit()
    rig.start()
    serving_instead(rig)
    assert rig.starts() == 5
    assert len(reasons(rig, "stand_in")) == 2


def test_what_could_not_stand_in_any_more_is_told_before_it_is_needed(rig: Rig) -> None:
    guarded(rig, fail_with="", on_failure="spare")
    rig.profile("spare", extends="target-only")
    rig.start()
    assert rig.arcops("switch", "guarded").code == 0
    assert rig.status().trouble == ()
    rig.kill_daemon()
    rig.profile("spare", extends="target-only", model={"path": "nowhere"})
    rig.start()
    rig.wait_for("serving")
    says = "on_failure of guarded cannot stand in: "
    eventually(lambda: [one for one in rig.status().trouble if one.startswith(says)], why="nobody is told")
    assert [one for one in reasons(rig, "trouble") if one.startswith(says)]
    assert rig.starts() == 1
    rig.profile("spare", extends="target-only")
    assert rig.arcops("restart").code == 0
    assert rig.status().trouble == ()


# -- what is offered where nothing stands in --------------------------------------------------------------------------
def test_a_standing_order_whose_draft_is_to_blame_offers_the_way_out_in_status_and_events(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "mtp").code == 0
    assert rig.end_daemon() == 0
    rig.profile(
        "mtp",
        extends="target-only",
        speculation={"method": "mtp", "num_tokens": 2},
        runtime={"env": {"FAKE_VLLM_FAIL_WITH": "no_mtp_head"}},
    )
    rig.start()
    offer = "`arcops switch target-only` is the same launch without the draft"
    status = rig.wait_for("failed", "backoff")
    assert status.failure is not None
    assert offer in status.failure.hint
    assert offer in status.reason
    assert offer in reasons(rig, "phase")[-1]
    assert offer in rig.arcops("status").out


def test_a_reload_leaves_what_stands_in_as_it_is_whatever_on_failure_says_now(rig: Rig) -> None:
    pid = pid_of(stood_in(rig))
    guarded(rig, on_failure="dflash2")
    assert rig.arcops("reload").code == 0
    rig.profile("guarded", extends="mtp")
    assert rig.arcops("reload").code == 0
    assert pid_of(serving_instead(rig)) == pid
    rig.kill_daemon()
    rig.start()
    assert pid_of(serving_instead(rig)) == pid
