"""A lock whose file was taken away, and a lock that is shared with a process of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arcops.core.errors import BlockedError, BusyError
from arcops.machine import lock
from arcops.machine.lock import DaemonLock, Locks
from tests.helpers import cannot_run_here, eventually

pytestmark = pytest.mark.processes


def test_a_lock_file_that_was_removed_is_locked_anew(tmp_path: Path) -> None:
    path = tmp_path / "cpu.lock"
    locks = Locks()
    locks.take([str(path)])
    assert locks.renew() == ()
    path.unlink()
    assert locks.renew() == (str(path),)
    assert lock.holds(str(path), [os.getpid()])
    assert Locks().try_take([str(path)]) == str(path)
    locks.release()
    assert Locks().try_take([str(path)]) is None


def test_whoever_was_faster_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cpu.lock"
    locks, other = Locks(), Locks()
    locks.take([str(path)])
    path.unlink()
    other.take([str(path)])
    with pytest.raises(BlockedError, match=f"pid {os.getpid()} "):
        locks.renew()
    other.release()
    assert locks.renew() == (str(path),)
    locks.release()


def test_a_daemons_lock_is_taken_again_and_never_let_go_for_it(tmp_path: Path) -> None:
    path = tmp_path / "main.lock"
    mine, second = DaemonLock(), DaemonLock()
    mine.acquire(str(path))
    assert not mine.renew(str(path))
    path.unlink()
    assert mine.renew(str(path))
    with pytest.raises(BusyError):
        second.acquire(str(path))
    path.unlink()
    second.acquire(str(path))
    with pytest.raises(BusyError):
        mine.renew(str(path))
    second.release()
    assert mine.renew(str(path))
    mine.release()


def test_a_lock_is_shared_with_a_process_that_inherited_it_and_outlives_it(tmp_path: Path) -> None:
    path = str(tmp_path / "cpu.lock")
    first, successor = Locks(), Locks()
    first.take([path])
    keeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=first.descriptors())
    try:
        first.release()
        assert successor.try_take([path]) == path
        if not successor.inherit([path], keeper.pid):
            cannot_run_here("this process may not share the descriptors of its child")
        assert successor.held == (path,)
    finally:
        keeper.kill()
        keeper.communicate()
    assert Locks().try_take([path]) == path, "free, though the successor has it"
    successor.release()
    eventually(lambda: Locks().try_take([path]) is None, why="nobody has it any more")


def test_what_a_process_does_not_hold_is_not_shared(tmp_path: Path) -> None:
    path = str(tmp_path / "cpu.lock")
    assert not Locks().inherit([path], os.getpid())
    Path(path).touch()
    assert not Locks().inherit([path], os.getpid())
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not Locks().inherit([path], gone.pid)
