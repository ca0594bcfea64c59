"""The supervisor may die at any instant: the next one goes on with a healthy backend, and ends a half-started one."""

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.daemon.rig import Rig
from tests.daemon.streams import read_stream
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def test_a_healthy_backend_is_adopted_without_cutting_an_open_stream(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    launch = rig.status().backend
    assert launch is not None
    lines: list[str] = []
    reader = threading.Thread(target=read_stream, args=(rig, lines, 1500))
    reader.start()
    eventually(lambda: len(lines) > 10, why="the stream has not begun")
    rig.kill_daemon()
    rig.start()
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert (status.backend.launch_id, status.backend.adopted) == (launch.launch_id, True)
    reader.join()
    assert lines[-1] == "[DONE]"
    assert '"finish_reason": "length"' in " ".join(lines) or '"finish_reason":"length"' in " ".join(lines)
    assert rig.starts() == 1


def test_a_healthy_backend_is_adopted_though_its_key_was_rotated_meanwhile(rig: Rig) -> None:
    key = rig.root / "key"
    key.write_text("sesame\n")
    key.chmod(0o600)
    rig.profile("keyed", extends="target-only", server={"api_key_file": str(key)}, limits={"start_stall": "4s"})
    rig.start()
    assert rig.arcops("switch", "keyed").code == 0
    rig.kill_daemon()
    key.write_text("rotated\n")
    rig.start()
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert status.backend.adopted
    assert "refuses our API key" in status.reason
    assert rig.starts() == 1


def test_a_key_in_the_daemons_own_environment_is_not_the_backends(tmp_path: Path) -> None:
    with Rig(tmp_path, environment={"VLLM_API_KEY": "operators"}) as rig:
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        rig.complete(tokens=1)


def test_an_adopted_backend_is_stopped_and_watched_like_any_other(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    assert rig.arcops("switch", "dflash2").code == 0
    assert rig.arcops("stop").code == 0
    assert rig.backend_pids() == []
    assert rig.status().locks == ()


def test_a_start_that_was_under_way_goes_on_under_the_next_supervisor(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=4)
    rig.start()
    rig.arcops("switch", "slow", "--no-wait")
    rig.wait_for("starting")
    eventually(lambda: rig.starts() == 1, why="the backend has not begun")
    rig.kill_daemon()
    rig.start()
    status = rig.wait_for("serving")
    assert status.order.committed
    assert rig.starts() == 1


def test_a_stop_that_was_under_way_is_finished_by_the_next_supervisor(rig: Rig) -> None:
    rig.misbehaving("deaf", sigterm_deaf=True)
    rig.start()
    assert rig.arcops("switch", "deaf").code == 0
    rig.arcops("stop", "--no-wait")
    rig.wait_for("stopping")
    rig.kill_daemon()
    rig.start()
    status = rig.wait_for("stopped", within=30)
    assert status.order.goal == "stop"
    assert rig.backend_pids() == []


def test_a_backend_that_died_while_nobody_watched_is_started_again(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    backend = rig.status().backend
    assert backend is not None
    assert backend.pid is not None
    rig.kill_daemon()
    os.kill(backend.pid, signal.SIGKILL)
    rig.end_strays()
    eventually(lambda: not rig.backend_pids(), why="the backend is still there")
    rig.start()
    rig.wait_for("serving")
    assert rig.starts() == 2


def test_a_torn_launch_record_is_not_believed(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.arcops("stop")
    rig.kill_daemon()
    rig.paths.record.write_text('{"launch_id": "2026')
    rig.start()
    assert rig.phase() == "stopped"
    with rig.client() as client:
        reasons = [event.reason for event in client.events().events]
    assert any("launch record" in reason for reason in reasons), reasons


def test_a_latched_failure_stays_latched_under_the_next_supervisor_and_restart_forgives(rig: Rig) -> None:
    rig.misbehaving("broken", fail_with="tool_parser")
    rig.start()
    assert rig.arcops("switch", "broken").code == 7
    rig.kill_daemon()
    rig.start()
    status = rig.wait_for("failed")
    assert rig.starts() == 1
    assert status.failure is not None
    assert "tool call parser" in status.failure.summary
    assert rig.arcops("restart").code == 7
    assert rig.starts() == 2


def test_the_next_supervisor_answers_at_once_however_long_a_setup_script_takes(rig: Rig) -> None:
    setup = rig.root / "setup.sh"
    setup.write_text("export SET_UP=yes\n")
    rig.profile("target-only", runtime={"env": {}, "setup": str(setup)})
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.end_daemon()
    gate = rig.root / "gate"
    setup.write_text(f"while [ ! -e {gate} ]; do sleep 0.1; done\nexport SET_UP=yes\n")
    rig.start()
    eventually(lambda: "running the setup script" in rig.status().reason, within=20, why="the script is not run")
    assert rig.phase() == "stopped"
    gate.touch()
    rig.wait_for("serving")


def test_a_backend_that_is_started_anew_after_an_adoption_gets_its_setup_script_too(rig: Rig) -> None:
    setup = rig.root / "setup.sh"
    setup.write_text("export SET_UP=yes\n")
    rig.profile("target-only", runtime={"env": {}, "setup": str(setup)})
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    first = rig.status().backend
    rig.kill_daemon()
    (rig.root / "config" / "profiles" / "target-only.yaml").write_text("broken: [")
    rig.start()
    rig.wait_for("serving")
    assert first is not None
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: (now := rig.status().backend) is not None and now.launch_id != first.launch_id, within=20)
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert b"SET_UP=yes" in Path(f"/proc/{status.backend.pid}/environ").read_bytes()
