"""The state on the disk: lost, locked, shared or refusing, it costs neither a healthy backend nor an order."""

import os
import socket
import sqlite3
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from arcops import wire
from tests.daemon.rig import Rig, connects
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def reasons(rig: Rig) -> list[str]:
    with rig.client() as client:
        return [event.reason for event in client.events().events]


def orders(rig: Rig) -> list[tuple[int, str, str, str]]:
    with closing(sqlite3.connect(rig.paths.database)) as connection:
        return list(connection.execute("SELECT id, goal, profile, state FROM orders"))


def test_a_backend_that_lives_outlasts_the_loss_of_the_database(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    first = rig.status().backend
    assert first is not None
    rig.kill_daemon()
    for path in rig.paths.state_dir.glob("arcops.db*"):
        path.unlink()
    rig.paths.database.write_bytes(b"no database" * 1000)
    rig.start()
    status = rig.wait_for("serving")
    assert status.backend is not None
    assert status.backend.launch_id == first.launch_id
    assert (status.order.goal, status.order.profile, status.order.committed) == ("run", "target-only", True)
    assert orders(rig) == [(1, "run", "target-only", "committed")]
    assert any("corrupt" in reason for reason in reasons(rig))
    assert any("order 1: run target-only (no order is on record" in reason for reason in reasons(rig))
    assert rig.arcops("stop").code == 0


def test_a_second_daemon_with_another_runtime_directory_is_refused_by_name(rig: Rig, tmp_path: Path) -> None:
    rig.start()
    assert rig.daemon is not None
    with Rig(tmp_path, instance=rig.instance) as elsewhere:
        assert elsewhere.launch_daemon().wait(20) == 4
        assert f"pid {rig.daemon.pid}" in elsewhere.daemon_log()
    assert rig.phase() == "stopped"


def test_a_locked_database_holds_up_no_turn_and_loses_no_outcome(rig: Rig) -> None:
    rig.start()
    with rig.client() as client:
        client.switch(wire.SwitchRequest(profile="target-only"))
    slowest = 0.0
    with closing(sqlite3.connect(rig.paths.database, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")

        def serves() -> bool:
            nonlocal slowest
            began = time.monotonic()
            status = rig.status()
            slowest = max(slowest, time.monotonic() - began)
            return status.phase == "serving" and bool(status.trouble)

        eventually(serves, within=20, why=f"it does not serve, or is content: {rig.daemon_log()}")
        assert "cannot be written" in rig.status().trouble[0]
        assert "order 1: target-only serves" in reasons(rig)
        copying.execute("ROLLBACK")
    assert slowest < 1.0
    eventually(lambda: not rig.status().trouble, why="the trouble stays")
    assert orders(rig) == [(1, "run", "target-only", "committed")]


def test_a_launch_record_that_cannot_be_removed_is_no_end_of_the_daemon(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    record = rig.paths.record
    record.rename(record.with_suffix(".aside"))
    record.mkdir()
    rig.arcops("stop", "--no-wait", "--now")
    eventually(
        lambda: any("could not remove the launch record" in trouble for trouble in rig.status().trouble),
        within=60,
        why="there is no trouble",
    )
    record.rmdir()
    assert rig.wait_for("stopped").trouble == ()


def test_a_latched_failure_outlasts_an_orderly_end(rig: Rig) -> None:
    rig.misbehaving("broken", fail_with="tool_parser")
    rig.start()
    assert rig.arcops("switch", "broken").code == 7
    assert rig.end_daemon() == 0
    rig.start()
    rig.wait_for("failed")
    assert rig.starts() == 1


def test_systemd_hears_of_readiness_when_the_socket_can_be_used(tmp_path: Path) -> None:
    with ExitStack() as stack:
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="arcops-"))
        notified = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notified.bind(os.path.join(short, "notify"))
        notified.settimeout(20)
        rig = stack.enter_context(Rig(tmp_path, environment={"NOTIFY_SOCKET": os.path.join(short, "notify")}))
        rig.launch_daemon()
        while b"READY=1" not in notified.recv(4096):
            pass
        assert connects(rig.paths.socket)
