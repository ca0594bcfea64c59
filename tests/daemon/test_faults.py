"""What goes wrong around a launch: no key, no interpreter, a slow script, a stranger on another port, lost keepers."""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from arcops import wire
from arcops.machine import lock
from tests.daemon.rig import Rig
from tests.helpers import cannot_run_here, eventually, free_port

pytestmark = pytest.mark.processes


def record_of(rig: Rig) -> dict[str, dict[str, int]]:
    return dict(json.loads(rig.paths.record.read_text()))


def main_of(rig: Rig) -> int:
    backend = rig.status().backend
    assert backend is not None
    assert backend.pid is not None
    return backend.pid


def listening(port: int) -> socket.socket:
    stranger = socket.socket()
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stranger.bind(("127.0.0.1", port))
    stranger.listen()
    return stranger


# -- the API key ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", ["removed", "empty", "open to all"])
def test_an_exposed_backend_is_never_started_again_without_its_key(rig: Rig, fault: str) -> None:
    key = rig.root / "key"
    key.write_text("sesame\n")
    key.chmod(0o600)
    rig.profile("guarded", extends="target-only", server={"api_key_file": str(key)})
    rig.start()
    assert rig.arcops("switch", "guarded").code == 0
    first = main_of(rig)
    match fault:
        case "removed":
            key.unlink()
        case "empty":
            key.write_text("\n")
        case _:
            key.chmod(0o644)
    os.kill(first, signal.SIGKILL)
    status = rig.wait_for("backoff")
    eventually(lambda: "could not be started: no API key" in rig.status().reason, why=status.reason)
    assert rig.starts() == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{rig.url}/v1/models", trust_env=False)
    key.write_text("sesame\n")
    key.chmod(0o600)
    rig.wait_for("serving")
    assert b"VLLM_API_KEY=sesame" in Path(f"/proc/{main_of(rig)}/environ").read_bytes()


# -- what cannot be started -------------------------------------------------------------------------------------------
def test_a_dead_interpreter_is_said_in_words_and_not_tried_again(rig: Rig) -> None:
    program = rig.root / "vllm"
    program.write_text("#!/nonexistent/venv/bin/python\n")
    program.chmod(0o755)
    rig.profile("dead", extends="target-only", runtime={"vllm": str(program)})
    rig.start()
    switched = rig.arcops("switch", "dead")
    assert switched.code == 7
    assert "dead could not be started: No such file or directory" in switched.err
    assert "interpreter" in switched.err
    failure = rig.status().failure
    assert failure is not None
    assert failure.cause == "spawn_failed"


def test_a_log_folder_that_is_gone_is_said_in_words_and_not_tried_again(rig: Rig) -> None:
    rig.start()
    rig.paths.log_dir.rmdir()
    rig.paths.log_dir.write_text("")
    switched = rig.arcops("switch", "target-only")
    assert switched.code == 7
    assert "could not be started" in switched.err
    assert str(rig.paths.log_dir) in switched.err
    assert rig.phase() == "failed"


# -- looks ------------------------------------------------------------------------------------------------------------
def test_a_switch_to_another_port_is_judged_by_a_look_at_that_port(rig: Rig) -> None:
    """A stranger takes the port of the new profile while the old backend is being stopped."""
    other = free_port()
    rig.misbehaving("slow_to_go", stop_seconds=1.0)
    rig.profile("elsewhere", extends="target-only", server={"port": other})
    rig.start()
    assert rig.arcops("switch", "slow_to_go").code == 0
    with rig.client() as client:
        order = client.switch(wire.SwitchRequest(profile="elsewhere", drain=0.0)).order_id
    rig.wait_for("stopping")
    with listening(other):
        outcome = eventually(lambda: next((one for one in rig.status().settled if one.order_id == order), None))
    assert outcome is not None
    assert outcome.exit_code == 5
    assert f"pid {os.getpid()} " in outcome.summary
    assert str(other) in outcome.summary
    rig.wait_for("serving")
    assert rig.starts() == 2, "the old one twice, the other never"


def test_an_order_is_not_refused_for_a_holder_of_the_port_of_the_order_before(rig: Rig) -> None:
    rig.profile("elsewhere", extends="target-only", server={"port": free_port()})
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.end_daemon()
    with listening(rig.port):
        rig.start()
        rig.wait_for("blocked")
        for _ in range(3):
            switched = rig.arcops("switch", "elsewhere")
            assert switched.code == 0, switched.err
            assert rig.arcops("stop").code == 0


def test_a_port_that_is_bound_by_somebody_who_does_not_listen_yet_is_refused_before_anything_is_touched(
    rig: Rig,
) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    served = main_of(rig)
    with socket.socket() as loading:
        loading.bind(("127.0.0.1", 0))
        rig.profile("elsewhere", extends="target-only", server={"port": int(loading.getsockname()[1])})
        refused = rig.arcops("switch", "elsewhere")
    assert refused.code == 5, refused.err
    assert main_of(rig) == served


def test_a_start_of_our_own_does_not_stand_in_the_way_of_what_replaces_it(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=30)
    rig.start()
    rig.arcops("switch", "slow", "--no-wait")
    eventually(lambda: rig.starts() == 1, why="the backend has not begun")
    replaced = rig.arcops("switch", "target-only", "--replace", "--now")
    assert replaced.code == 0, replaced.err


# -- a setup script that takes its time --------------------------------------------------------------------------------
def test_a_stop_does_not_wait_for_a_setup_script(rig: Rig) -> None:
    setup = rig.root / "setup.sh"
    setup.write_text("export SET_UP=yes\n")
    rig.profile("target-only", runtime={"setup": str(setup)})
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    first = main_of(rig)
    rig.kill_daemon()
    (rig.root / "config" / "profiles" / "target-only.yaml").write_text("broken: [")
    gate, ended = rig.root / "gate", rig.root / "ended"
    setup.write_text(f"while [ ! -e {gate} ]; do sleep 0.1; done\ntouch {ended}\nexport SET_UP=later\n")
    rig.start()
    rig.wait_for("serving")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "running the setup script" in rig.status().reason, why="the script is not run")
    assert rig.arcops("stop").code == 0
    assert not ended.exists(), "the stop came after the script's end"
    gate.touch()
    eventually(ended.exists, why="the script does not end")
    assert rig.phase() == "stopped"
    assert rig.starts() == 1


# -- adoption ---------------------------------------------------------------------------------------------------------
def test_an_adopted_backend_is_watched_and_is_as_old_as_it_is(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    before = rig.status().backend
    assert before is not None
    assert before.ready_at is not None
    assert rig.daemon is not None
    supervisor = rig.daemon.pid
    eventually(lambda: pidfds(supervisor) == 2, why="keeper and server are not watched")
    rig.kill_daemon()
    rig.start()
    after = rig.wait_for("serving").backend
    assert after is not None
    assert after.ready_at == before.ready_at
    adopter = rig.daemon.pid
    eventually(lambda: pidfds(adopter) == 2, why="what was adopted is not watched like what was started")


def pidfds(pid: int) -> int:
    """How many processes it watches, of the descriptors that it keeps for the time of the count."""
    kept: list[str] = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            kept.append(os.readlink(one))
    return sum(target.startswith("anon_inode:[pidfd]") for target in kept)


def test_a_backend_that_is_starting_is_not_ready_since_the_one_before_was(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=30)
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.arcops("switch", "slow", "--now", "--no-wait")
    eventually(lambda: (now := rig.status().backend) is not None and now.profile == "slow", why="slow does not start")
    backend = rig.status().backend
    assert backend is not None
    assert backend.ready_at is None


def test_an_adopted_backend_that_has_to_be_killed_keeps_the_lock_to_its_end(rig: Rig) -> None:
    rig.misbehaving("deaf", sigterm_deaf=True)
    rig.start()
    assert rig.arcops("switch", "deaf").code == 0
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    assert rig.status().locks == (str(rig.paths.cpu_lock),)
    keeper = record_of(rig)["keeper"]["pid"]
    assert keeper in [one.pid for one in lock.holders_of(str(rig.paths.cpu_lock))]
    stopped = rig.arcops("stop", "--now")
    assert stopped.code == 0, stopped.err
    assert rig.backend_pids() == []
    assert rig.status().locks == ()


def test_a_backend_whose_keeper_was_killed_before_is_adopted_with_its_lock_all_the_same(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    os.kill(record_of(rig)["keeper"]["pid"], signal.SIGKILL)
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    assert rig.daemon is not None
    if not lock.holds(str(rig.paths.cpu_lock), [rig.daemon.pid]):
        cannot_run_here("no process may take a descriptor of another here (pidfd_getfd)")
    assert rig.starts() == 1


def test_an_adopted_backends_lock_outlives_its_keeper_and_its_server(rig: Rig) -> None:
    """EngineCore has no descriptor of the lock: while it lives on, the supervisor that adopted it holds the lock."""
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    assert rig.daemon is not None
    if not lock.holds(str(rig.paths.cpu_lock), [rig.daemon.pid]):
        cannot_run_here("a process may not share the descriptors of another (ptrace)")
    pids = rig.backend_pids()
    record = record_of(rig)
    engines = [pid for pid in pids if pid not in (record["keeper"]["pid"], record["main"]["pid"])]
    try:
        for pid in engines:
            os.kill(pid, signal.SIGSTOP)
        os.kill(record["keeper"]["pid"], signal.SIGKILL)
        os.kill(record["main"]["pid"], signal.SIGKILL)
        assert engines
        rig.wait_for("stopping", "clearing", "backoff", "starting", "checking", "serving")
        assert [one.pid for one in lock.holders_of(str(rig.paths.cpu_lock))]
        assert rig.status().locks == (str(rig.paths.cpu_lock),)
    finally:
        for pid in engines:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    rig.wait_for("serving", within=30)


# -- records ----------------------------------------------------------------------------------------------------------
def test_a_record_of_another_version_is_kept_and_the_start_refused_while_its_backend_lives(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.kill_daemon()
    own = rig.paths.record.read_text()
    main = record_of(rig)["main"]["pid"]
    rig.paths.record.write_text(json.dumps({**json.loads(own), "schema": 99, "launch": "another shape"}))
    rig.launch_daemon()
    assert rig.daemon is not None
    assert rig.daemon.wait(10) == 1
    assert "schema 99" in rig.daemon_log()
    assert f"pid {main}" in rig.daemon_log()
    assert rig.paths.record.exists()
    rig.paths.record.write_text(own)
    rig.start()
    assert rig.wait_for("serving").backend is not None
    assert main_of(rig) == main


def test_a_record_of_another_version_whose_backend_has_gone_is_no_obstacle(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    rig.kill_daemon()
    record = json.loads(rig.paths.record.read_text())
    rig.end_strays()
    rig.paths.record.write_text(json.dumps({**record, "schema": 99}))
    rig.start()
    rig.wait_for("serving")
    assert rig.starts() == 2


def test_a_starter_that_is_refused_is_a_failed_start_in_its_own_words(rig: Rig) -> None:
    """A user manager that answers, and then makes no scope."""
    tools = rig.root / "tools"
    tools.mkdir()
    for name, does in (("systemctl", "echo Version=252"), ("systemd-run", "echo Failed to start scope >&2; exit 1")):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    assert rig.runtime is not None
    (rig.runtime / "bus").touch()
    rig.environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    rig.start()
    switched = rig.arcops("switch", "target-only")
    assert switched.code == 7
    assert "Failed to start scope" in switched.err
    assert rig.phase() == "failed"
