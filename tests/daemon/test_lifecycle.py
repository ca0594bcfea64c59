"""From an order to a serving backend, and back to nothing."""

import json
import os
import signal
import threading
from pathlib import Path

import httpx
import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.daemon.streams import read_stream
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def test_a_new_daemon_runs_nothing_until_it_is_ordered_to(rig: Rig) -> None:
    rig.start()
    assert rig.phase() == "stopped"
    assert rig.arcops("status").code == 3
    assert rig.backend_pids() == []


def test_a_switch_brings_up_the_profile_and_says_so(rig: Rig) -> None:
    rig.start()
    switched = rig.arcops("switch", "target-only")
    assert switched.code == 0, switched.err
    status = rig.status()
    assert status.phase == "serving"
    assert status.backend is not None
    assert status.backend.served_name == "tiny"
    assert status.order.committed
    assert rig.arcops("status").code == 0
    assert rig.complete()["usage"]


def test_switching_replaces_the_backend_and_leaves_nothing_of_the_old_one(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    old = rig.status().backend
    before = set(rig.backend_pids())
    assert rig.arcops("switch", "dflash2").code == 0
    status = rig.status()
    assert old is not None
    assert status.backend is not None
    assert status.backend.launch_id != old.launch_id
    assert status.backend.speculates
    assert status.backend.max_running == 4
    assert before.isdisjoint(rig.backend_pids())


def test_stop_ends_every_process_and_frees_port_and_lock(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    assert rig.arcops("stop").code == 0
    assert rig.phase() == "stopped"
    assert rig.backend_pids() == []
    assert rig.status().locks == ()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{rig.url}/health", trust_env=False)


def test_stopping_what_is_stopped_is_no_error(rig: Rig) -> None:
    rig.start()
    stopped = rig.arcops("stop")
    assert (stopped.code, "already stopped" in stopped.err) == (0, True)


def test_switching_to_what_serves_changes_nothing(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    again = rig.arcops("switch", "target-only")
    assert (again.code, "serves already" in again.err) == (0, True)
    assert rig.status().backend == launch


def test_a_profile_that_was_edited_is_launched_anew_by_a_switch(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    rig.profile("target-only", scheduling={"max_num_seqs": 2})
    assert rig.arcops("switch", "target-only").code == 0
    status = rig.status()
    assert launch is not None
    assert status.backend is not None
    assert status.backend.launch_id != launch.launch_id


def test_restart_brings_the_same_profile_up_anew(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("restart").code == 3
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    assert rig.arcops("restart").code == 0
    status = rig.status()
    assert launch is not None
    assert status.backend is not None
    assert (status.backend.launch_id != launch.launch_id, status.backend.profile) == (True, "target-only")


def test_a_failing_switch_returns_to_the_previous_profile_and_says_why(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.misbehaving("broken", fail_with="oom")
    failed = rig.arcops("switch", "broken")
    assert failed.code == 7
    assert "memory" in failed.err
    assert "back to target-only" in failed.err
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert status.backend.profile == "target-only"
    assert rig.complete()["usage"]


def test_without_rollback_a_failing_switch_stays_failed(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.misbehaving("broken", fail_with="oom")
    assert rig.arcops("switch", "broken", "--no-rollback").code == 7
    status = rig.wait_for("failed")
    assert rig.backend_pids() == []
    assert status.failure is not None
    assert "memory" in status.failure.summary


def test_an_invalid_profile_is_refused_before_the_running_backend_is_touched(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    (rig.root / "config" / "profiles" / "typo.yaml").write_text(
        "extends: target-only\nschedulling:\n  max_num_seqs: 1\n"
    )
    refused = rig.arcops("switch", "typo")
    assert refused.code == 6
    assert "typo.yaml:2" in refused.err
    assert "scheduling" in refused.err
    assert rig.arcops("switch", "no-such-profile").code == 6
    assert rig.status().backend == launch


def test_a_dry_run_says_what_would_be_done_and_does_nothing(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    plan = rig.arcops("switch", "dflash2", "--dry-run")
    assert plan.code == 0
    assert "stop target-only" in plan.out
    assert "start dflash2" in plan.out
    assert rig.status().backend == launch


def test_a_second_order_is_refused_while_one_is_under_way_unless_it_replaces_it(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=30)
    rig.start()
    assert rig.arcops("switch", "slow", "--no-wait").code == 0
    rig.wait_for("starting")
    busy = rig.arcops("switch", "target-only")
    assert busy.code == 4
    assert "slow" in busy.err
    assert rig.arcops("switch", "target-only", "--replace").code == 0
    assert rig.status().order.profile == "target-only"


def test_stop_cuts_across_a_start_that_is_under_way(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=30)
    rig.start()
    rig.arcops("switch", "slow", "--no-wait")
    rig.wait_for("starting")
    assert rig.arcops("stop").code == 0
    assert rig.backend_pids() == []


def test_open_requests_finish_before_a_switch_takes_the_backend_down(rig: Rig) -> None:
    rig.profile("target-only", limits={"drain": "20s", "shutdown_timeout": "1s"})
    rig.start()
    rig.arcops("switch", "target-only")
    answers: list[dict[str, object]] = []
    client = threading.Thread(target=lambda: answers.append(rig.complete(tokens=800)))
    client.start()
    eventually(lambda: (rig.status().rates.running or 0) > 0, why="the request does not run")
    assert rig.arcops("switch", "dflash2").code == 0
    client.join()
    usage = answers[0]["usage"]
    assert isinstance(usage, dict)
    assert usage["completion_tokens"] == 800


def test_a_request_that_came_a_moment_ago_is_finished_too(rig: Rig) -> None:
    rig.profile("target-only", limits={"drain": "60s", "shutdown_timeout": "0s"})
    rig.start()
    rig.arcops("switch", "target-only")
    idle_since = rig.status().rates.at
    eventually(lambda: rig.status().rates.at != idle_since, why="it is not scraped")
    lines: list[str] = []
    reader = threading.Thread(target=read_stream, args=(rig, lines, 400))
    reader.start()
    eventually(lambda: lines, every=0.005, why="the stream has not begun")
    with rig.client() as client:
        client.stop(wire.StopRequest())
    rig.wait_for("stopped", within=90)
    reader.join()
    assert json.loads(lines[-2])["choices"][0]["finish_reason"] == "length"


def test_a_backend_that_dies_is_started_again(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    first = rig.status().backend
    assert first is not None
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    rig.wait_for("stopping", "clearing", "backoff", "starting", within=3)
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert status.backend.launch_id != first.launch_id
    reasons = [event.reason for event in _events(rig)]
    assert any("SIGKILL" in reason or "killed" in reason for reason in reasons), reasons


def test_an_engine_that_dies_with_exit_code_0_is_a_failure_all_the_same(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    first = rig.status().backend
    rig.misbehave(kill_engine=True)
    assert first is not None
    eventually(lambda: (now := rig.status().backend) is not None and now.launch_id != first.launch_id, within=15)
    rig.wait_for("serving")


def test_a_deterministic_failure_is_not_tried_again(rig: Rig) -> None:
    rig.misbehaving("broken", fail_with="tool_parser")
    rig.start()
    assert rig.arcops("switch", "broken").code == 7
    rig.wait_for("failed")
    rig.arcops("stop")
    assert rig.phase() == "stopped"
    assert rig.starts() == 1


def test_an_orderly_end_of_the_daemon_takes_the_backend_down_and_keeps_the_order(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    assert rig.end_daemon() == 0
    assert rig.backend_pids() == []
    assert not rig.paths.socket.exists()
    rig.start()
    status = rig.wait_for("serving")
    assert status.order.profile == "target-only"


def test_a_stop_order_survives_too(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.arcops("stop")
    rig.end_daemon()
    rig.start()
    assert rig.phase() == "stopped"
    assert rig.starts() == 1


def test_a_backend_never_has_what_is_the_supervisors_own(tmp_path: Path) -> None:
    with Rig(tmp_path, environment={"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1"}) as rig:
        rig.start()
        rig.arcops("switch", "target-only")
        backend = rig.status().backend
        assert backend is not None
        environment = Path(f"/proc/{backend.pid}/environ").read_bytes().split(b"\0")
        names = {entry.partition(b"=")[0] for entry in environment}
        assert names.isdisjoint({b"NOTIFY_SOCKET", b"WATCHDOG_USEC", b"LISTEN_FDS"})


def _events(rig: Rig) -> tuple[wire.Event, ...]:
    with rig.client() as client:
        return client.events().events
