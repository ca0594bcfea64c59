"""A machine that takes away what the daemon stands on: the backend goes on, nothing acknowledged is lost, it heals."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.machine import lock
from tests.daemon.crashing import PATIENCE, CrashingRig
from tests.daemon.rig import Rig, connects
from tests.helpers import cannot_run_here, eventually

pytestmark = pytest.mark.processes

ALL_WELL = ()


@contextmanager
def small_disk(at: Path) -> Generator[Path]:
    """A file system of its own, of half a megabyte."""
    at.mkdir(parents=True, exist_ok=True)
    at.chmod(0o700)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "arcops-test", str(at)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        cannot_run_here(f"no file system can be mounted: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(disk: Path) -> Path:
    """Leave not one byte."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def serving(rig: Rig, profile: str = "target-only") -> wire.BackendInfo:
    rig.start()
    assert rig.arcops("switch", profile).code == 0
    return backend_of(rig)


def backend_of(rig: Rig) -> wire.BackendInfo:
    backend = rig.status().backend
    assert backend is not None
    return backend


def assert_goes_on(rig: Rig, before: wire.BackendInfo) -> None:
    """The very same backend, and it answers."""
    assert backend_of(rig).pid == before.pid
    assert rig.complete(tokens=1)


def troubled(rig: Rig, words: str) -> str:
    """Wait for a trouble with these words."""
    return eventually(
        lambda: next((one for one in rig.status().trouble if words in one), None),
        within=PATIENCE,
        why=f"no trouble says {words!r}: {rig.daemon_log()[-1500:]}",
    )


def well(rig: Rig) -> None:
    eventually(lambda: rig.status().trouble == ALL_WELL, within=PATIENCE, why=f"trouble stays: {rig.status().trouble}")


def reasons(rig: Rig) -> list[str]:
    with rig.client() as client:
        return [event.reason for event in client.events(limit=10_000).events]


def orders(rig: Rig) -> list[tuple[str, str | None, str]]:
    with closing(sqlite3.connect(rig.paths.database)) as connection:
        return list(connection.execute("SELECT goal, profile, state FROM orders ORDER BY id"))


def back_after_a_crash(rig: Rig, profile: str) -> wire.Status:
    """What was acknowledged is what the next supervisor goes on with."""
    rig.kill_daemon()
    rig.start()
    status = rig.wait_for("serving", within=PATIENCE)
    assert (status.order.profile, status.order.committed) == (profile, True)
    return status


# -- disks -------------------------------------------------------------------------------------------------------------
def test_a_full_state_disk_refuses_an_order_and_costs_nothing_else(rig: Rig) -> None:
    with small_disk(rig.paths.state_dir) as disk:
        before = serving(rig)
        ballast = fill(disk)
        refused = rig.arcops("switch", "mtp")
        assert refused.code == 1
        assert len(refused.err.strip().splitlines()) <= 2, refused.err
        assert "full" in refused.err
        assert_goes_on(rig, before)
        assert rig.status().order.profile == "target-only"
        ballast.unlink()
        well(rig)
        assert rig.arcops("switch", "mtp").code == 0
        back_after_a_crash(rig, "mtp")
        rig.arcops("stop")
        rig.end_daemon()


def test_a_full_runtime_disk_is_told_and_the_standing_order_goes_ahead_when_there_is_room(rig: Rig) -> None:
    with small_disk(rig.paths.runtime_dir) as disk:
        before = serving(rig)
        ballast = fill(disk)
        assert_goes_on(rig, before)
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)

        def refused() -> bool:
            # The end of the backend frees what its launch record took: that has to go, too.
            fill(disk)
            return any("launch record cannot be written" in trouble for trouble in rig.status().trouble)

        eventually(refused, within=PATIENCE, every=0.001, why="it was written all the same")
        assert rig.backend_pids() == []

        def told() -> bool:
            fill(disk)
            with rig.client() as client:
                reasons = [event.reason for event in client.events(0).events]
            assert not any("nothing came of the launch" in reason for reason in reasons), "it was waited for"
            return any("could not be started: the launch record cannot be written" in reason for reason in reasons)

        eventually(told, within=PATIENCE, every=0.001, why="it is not told why")
        ballast.unlink()
        rig.wait_for("serving", within=PATIENCE)
        well(rig)
        rig.arcops("stop")
        rig.end_daemon()


# -- the database ------------------------------------------------------------------------------------------------------
def test_a_locked_database_refuses_an_order_with_one_clear_error_and_takes_the_next(rig: Rig) -> None:
    before = serving(rig)
    with closing(sqlite3.connect(rig.paths.database, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")
        refused = rig.arcops("switch", "mtp")
        assert refused.code == 1
        assert "locked" in refused.err
        assert_goes_on(rig, before)
        copying.execute("ROLLBACK")
    assert rig.arcops("switch", "mtp").code == 0
    well(rig)
    back_after_a_crash(rig, "mtp")


def test_a_database_that_is_corrupted_while_it_is_used_is_made_anew_and_keeps_the_order(rig: Rig) -> None:
    before = serving(rig)
    for path in (rig.paths.database, rig.paths.database.with_name("arcops.db-wal")):
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.write(b"not a database " * (size // 15 + 1))
    assert rig.arcops("switch", "mtp").code == 0
    assert backend_of(rig).pid != before.pid
    well(rig)
    status = back_after_a_crash(rig, "mtp")
    assert status.backend is not None
    assert ("run", "mtp", "committed") in orders(rig)
    assert list(rig.paths.state_dir.glob("arcops.db.corrupt-*"))
    assert any("broke while it was in use" in reason for reason in reasons(rig)) or any(
        "corrupt" in reason for reason in reasons(rig)
    )


def test_a_state_directory_that_is_removed_is_made_anew_with_all_that_was_in_the_database(rig: Rig) -> None:
    before = serving(rig)
    history = reasons(rig)
    shutil.rmtree(rig.paths.state_dir)
    eventually(rig.paths.database.exists, within=PATIENCE, why="there is no database again")
    assert "the log of launch" in troubled(rig, "was removed")
    assert_goes_on(rig, before)
    assert reasons(rig)[: len(history)] == history
    assert orders(rig) == [("run", "target-only", "committed")]
    second = refused_daemon(rig)
    assert second.returncode == 4, second.stderr
    assert rig.arcops("switch", "mtp").code == 0
    well(rig)
    back_after_a_crash(rig, "mtp")


# -- the runtime directory ---------------------------------------------------------------------------------------------
def refused_daemon(rig: Rig) -> "subprocess.CompletedProcess[str]":
    """A second daemon beside the first."""
    return subprocess.run(
        [sys.executable, "-m", "arcops.daemon.main"],
        env=rig.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_runtime_directory_that_is_removed_is_made_anew_and_keeps_a_second_daemon_out(rig: Rig) -> None:
    before = serving(rig)
    assert rig.daemon is not None
    shutil.rmtree(rig.paths.runtime_dir)
    eventually(lambda: connects(rig.paths.socket), within=PATIENCE, why="there is no control socket again")
    eventually(rig.paths.record.exists, within=PATIENCE, why="there is no launch record again")
    assert_goes_on(rig, before)
    well(rig)
    assert rig.paths.runtime_dir.stat().st_mode & 0o777 == 0o700
    eventually(
        lambda: rig.daemon and lock.holds(str(rig.paths.daemon_lock), [rig.daemon.pid]),
        within=PATIENCE,
        why="the lock is free",
    )
    eventually(
        lambda: rig.daemon and lock.holds(str(rig.paths.cpu_lock), [rig.daemon.pid]),
        within=PATIENCE,
        why="the card is free",
    )
    second = refused_daemon(rig)
    assert second.returncode == 4
    assert str(rig.daemon.pid) in second.stderr
    assert any("removed by somebody" in reason for reason in reasons(rig))
    status = back_after_a_crash(rig, "target-only")
    assert status.backend is not None
    assert (status.backend.pid, status.backend.adopted) == (before.pid, True)
    assert status.locks == (str(rig.paths.cpu_lock),)
    assert rig.starts() == 1
    assert rig.arcops("switch", "mtp").code == 0


def test_a_control_socket_that_is_removed_is_there_again_and_open_streams_go_on(rig: Rig) -> None:
    serving(rig)
    with rig.client() as client:
        following = client.follow_status()
        next(following)
        rig.paths.socket.unlink()
        eventually(lambda: connects(rig.paths.socket), within=PATIENCE, why="there is no control socket again")
        assert next(following).phase == "serving"
    assert rig.paths.socket.stat().st_mode & 0o777 == 0o600
    assert rig.end_daemon() == 0
    assert not rig.paths.socket.exists()


def test_two_instances_never_share_the_cpu_though_its_lock_file_was_removed(rig: Rig, tmp_path: Path) -> None:
    serving(rig)
    assert rig.daemon is not None
    rig.paths.cpu_lock.unlink()
    eventually(
        lambda: rig.daemon and lock.holds(str(rig.paths.cpu_lock), [rig.daemon.pid]), within=PATIENCE, why="it is free"
    )
    (tmp_path / "two").mkdir()
    with Rig(tmp_path / "two", instance="two", runtime=rig.runtime) as two:
        two.start()
        assert two.arcops("switch", "target-only").code == 5


# -- logs --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_a_log_that_is_removed_is_told_and_the_next_launch_has_one(rig: Rig, folder: bool) -> None:
    before = serving(rig)
    if folder:
        shutil.rmtree(rig.paths.log_dir)
    else:
        Path(before.log_path).unlink()
    troubled(rig, f"the log of launch {before.launch_id} was removed")
    assert_goes_on(rig, before)
    assert rig.arcops("logs").code in (0, 1)
    eventually(rig.paths.log_dir.is_dir, within=PATIENCE, why="there is no folder again")
    assert rig.arcops("restart").code == 0
    assert Path(backend_of(rig).log_path).stat().st_size > 0
    well(rig)


# -- time --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_moves_no_duration_and_no_limit(tmp_path: Path, step: float) -> None:
    with CrashingRig(tmp_path) as rig:
        before = serving(rig)
        began = rig.status()
        rig.step_clock(step)
        stepped = eventually(lambda: now if abs((now := rig.status()).at - began.at - step) < 60 else None)
        assert stepped.phase == "serving"
        assert abs((stepped.at - stepped.since) - (began.at - began.since)) < 60
        assert stepped.backend is not None
        assert abs((stepped.at - stepped.backend.spawned_at) - (began.at - before.spawned_at)) < 60
        assert stepped.backend.ready_at is not None
        assert before.ready_at is not None
        assert abs((stepped.at - stepped.backend.ready_at) - (began.at - before.ready_at)) < 60
        assert_goes_on(rig, before)
        assert rig.arcops("switch", "mtp").code == 0
        with rig.client() as client:
            events = client.events().events
        assert [one.id for one in events] == sorted(one.id for one in events)
        assert abs(events[-1].at - began.at - step) < 120
        rig.step_clock(0.0)
        back_after_a_crash(rig, "mtp")


# -- what the kernel gives ---------------------------------------------------------------------------------------------
def test_a_daemon_out_of_descriptors_keeps_its_backend_and_heals(rig: Rig) -> None:
    before = serving(rig)
    assert rig.daemon is not None
    pid = rig.daemon.pid
    had = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # Below what it has open: not one more can be had.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, had[1]))
    try:
        assert httpx.get(f"{rig.url}/health", trust_env=False).status_code == 200
        eventually(lambda: "Too many open files" in rig.daemon_log(), within=PATIENCE, why="nothing is said")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, had)
    assert rig.wait_for("serving").order.profile == "target-only"
    well(rig)
    assert_goes_on(rig, before)
    assert rig.daemon.pid == pid
    assert rig.arcops("switch", "mtp").code == 0


def test_a_fork_that_is_refused_is_a_failed_start_in_words_and_is_tried_again(tmp_path: Path) -> None:
    with CrashingRig(tmp_path) as rig:
        rig.start()
        rig.refuse_forks(True)
        refused = rig.arcops("switch", "target-only")
        assert refused.code == 7
        assert "Resource temporarily unavailable" in refused.err
        rig.refuse_forks(False)
        before = serving_again(rig)
        rig.refuse_forks(True)
        assert before.pid is not None
        os.kill(before.pid, 9)
        rig.wait_for("backoff")
        rig.refuse_forks(False)
        rig.until(lambda: rig.phase() == "serving", "it serves again")
        well(rig)


def serving_again(rig: Rig) -> wire.BackendInfo:
    assert rig.arcops("switch", "target-only").code == 0
    return backend_of(rig)


def test_an_order_that_cannot_be_written_is_not_in_force_after_a_crash(rig: Rig) -> None:
    before = serving(rig)
    with closing(sqlite3.connect(rig.paths.database, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")
        with pytest.raises(ArcopsError), rig.client() as client:
            client.switch(wire.SwitchRequest(profile="mtp"))
        rig.kill_daemon()
        copying.execute("ROLLBACK")
    rig.start()
    status = rig.wait_for("serving")
    assert status.order.profile == "target-only"
    assert status.backend is not None
    assert status.backend.pid == before.pid
