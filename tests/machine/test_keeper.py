import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from arcops.core.world import ProcessId
from arcops.machine import keeper_status, process
from arcops.machine.lock import Locks, holders_of, holds
from arcops.machine.spawn import spawn
from tests.helpers import eventually
from tests.machine.processes import descendants, kept, log_of, session_members, status_of

pytestmark = pytest.mark.processes

DEAF = "trap '' TERM; echo ready; while :; do sleep 60; done"
# os.write: two processes write to one file, and print may write a line in pieces.
STRAY = """
import os, sys, time, signal
if os.fork():
    os.wait()
    os.write(1, b"main\\n")
    time.sleep(600)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"stray %d\\n" % os.getpid())
time.sleep(600)
"""


@pytest.fixture
def lock(tmp_path: Path) -> str:
    return str(tmp_path / "cpu.lock")


def test_the_main_process_is_written_down_and_then_its_exit_code(tmp_path: Path) -> None:
    with kept(tmp_path, ["sh", "-c", "echo hello; echo problem >&2; read x; exit 3"]) as keeper:
        status = status_of(tmp_path, ended=True)
        assert status.launch == "L1"
        assert status.boot_id == process.boot_id()
        assert status.keeper.pid == keeper.pid
        assert status.main is not None
        assert status.exit == 3
        assert status.error is None
        assert keeper.wait(5) == 0
    assert log_of(tmp_path) == "hello\nproblem\n"
    assert stat.S_IMODE((tmp_path / "backend.log").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.glob("*.tmp")] == []


def test_a_main_process_that_is_killed_has_a_negative_code(tmp_path: Path) -> None:
    with kept(tmp_path, ["sleep", "60"]):
        main = status_of(tmp_path).main
        assert main is not None
        assert process.signal(main, signal.SIGKILL)
        assert status_of(tmp_path, ended=True).exit == -signal.SIGKILL


def test_a_program_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with kept(tmp_path, ["/nowhere/vllm"]) as keeper:
        status = status_of(tmp_path, ended=True)
        assert (status.exit, status.error) == (127, "No such file or directory: /nowhere/vllm")
        assert status.errno == errno.ENOENT
        assert keeper.wait(5) == 0


def test_a_cgroup_that_is_not_there_is_an_error_and_nothing_runs(tmp_path: Path) -> None:
    with kept(tmp_path, ["touch", str(tmp_path / "ran")], cgroup=tmp_path / "no-cgroup") as keeper:
        status = status_of(tmp_path, ended=True)
        assert status.exit == 127
        assert "no-cgroup" in (status.error or "")
        assert keeper.wait(5) == 0
    assert not (tmp_path / "ran").exists()


def test_without_a_place_for_the_status_nothing_runs(tmp_path: Path) -> None:
    command = (sys.executable, "-I", "-S", "arcops/machine/keeper.py", "L1", str(tmp_path / "no" / "status"), "--")
    done = subprocess.run([*command, "touch", str(tmp_path / "ran")], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"cannot write" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments", [[], ["L1"], ["L1", "S", "--"], ["L1", "--", "true"]])
def test_a_senseless_command_line_is_refused(arguments: list[str]) -> None:
    command = [sys.executable, "-I", "-S", "arcops/machine/keeper.py", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage:")


def test_the_keeper_is_deaf_and_its_backend_is_not(tmp_path: Path) -> None:
    with kept(tmp_path, ["sleep", "60"]) as keeper:
        main = status_of(tmp_path).main
        assert main is not None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            keeper.send_signal(number)
        assert process.signal(main, signal.SIGTERM)
        assert status_of(tmp_path, ended=True).exit == -signal.SIGTERM


def test_the_backend_starts_with_default_signals_and_its_own_session(tmp_path: Path) -> None:
    with kept(tmp_path, ["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"]) as keeper:
        assert status_of(tmp_path, ended=True).exit == 0
        keeper.wait(5)
    masks = {line.split()[0]: int(line.split()[1], 16) for line in log_of(tmp_path).splitlines()}
    # Signals 32 and 33 are the C library's own: whoever ignored them, no program can ask for it or undo it.
    settable = sum(1 << (number - 1) for number in signal.valid_signals())
    assert {name: mask & settable for name, mask in masks.items()} == {"SigIgn:": 0, "SigBlk:": 0}
    with kept(tmp_path, ["sleep", "60"], launch_id="L2") as keeper:
        eventually(lambda: status_of(tmp_path).launch == "L2")
        assert os.getsid(keeper.pid) == keeper.pid
        assert len(session_members(keeper.pid)) == 2


def test_a_deaf_backend_is_still_there_after_sigterm(tmp_path: Path) -> None:
    with kept(tmp_path, ["sh", "-c", DEAF]) as keeper:
        main = status_of(tmp_path).main
        assert main is not None
        eventually(lambda: "ready" in log_of(tmp_path))
        assert process.signal(main, signal.SIGTERM)
        assert process.alive(main)
        for pid in descendants(keeper.pid):
            os.kill(pid, signal.SIGKILL)
        assert keeper.wait(5) == 0


def test_the_lock_is_held_until_the_last_descendant_has_ended(tmp_path: Path, lock: str) -> None:
    locks = Locks()
    assert locks.take([lock]) == ()
    with kept(tmp_path, ["sh", "-c", "sleep 61 & sleep 60"], pass_fds=locks.descriptors()) as keeper:
        main = status_of(tmp_path).main
        assert main is not None
        eventually(lambda: len(descendants(keeper.pid)) == 3)
        locks.release()
        assert holds(lock, [main.pid])
        assert process.signal(main, signal.SIGKILL)
        assert status_of(tmp_path, ended=True).exit == -signal.SIGKILL
        orphans = descendants(keeper.pid)
        assert len(orphans) == 2
        assert Locks().take([lock]) != ()
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        assert keeper.wait(5) == 0
    assert locks.take([lock]) == ()
    locks.release()


def test_a_stray_that_escaped_its_session_stays_under_the_keeper_and_the_lock_with_it(
    tmp_path: Path, lock: str
) -> None:
    locks = Locks()
    locks.take([lock])
    with kept(tmp_path, [sys.executable, "-c", STRAY], pass_fds=locks.descriptors()) as keeper:
        main = status_of(tmp_path).main
        assert main is not None
        eventually(lambda: "main" in log_of(tmp_path))
        stray = int(eventually(lambda: re.search(r"stray (\d+)\n", log_of(tmp_path)))[1])
        locks.release()
        assert process.signal(main, signal.SIGKILL)
        status_of(tmp_path, ended=True)
        assert descendants(keeper.pid) == (stray,)
        assert stray not in session_members(keeper.pid)
        # The stray closed nothing, but a child that did would change nothing either: the keeper holds the lock.
        assert holds(lock, [keeper.pid])
        os.kill(stray, signal.SIGTERM)
        assert Locks().take([lock]) != ()
        os.kill(stray, signal.SIGKILL)
        assert keeper.wait(5) == 0
    assert holders_of(lock) == ()


def test_a_killed_keeper_takes_nobody_with_it_and_the_backend_holds_the_lock(tmp_path: Path, lock: str) -> None:
    locks = Locks()
    locks.take([lock])
    with kept(tmp_path, ["sleep", "60"], pass_fds=locks.descriptors()) as keeper:
        main = status_of(tmp_path).main
        assert main is not None
        # Until it is `sleep`, the child has not closed what it does not inherit.
        eventually(lambda: process.describe(main.pid)[0] == "sleep")
        locks.release()
        keeper.kill()
        keeper.wait()
        assert process.alive(main)
        assert [one.pid for one in holders_of(lock)] == [main.pid]
        assert status_of(tmp_path).exit is None


SUPERVISOR = """
import os, sys
from arcops.machine.lock import Locks
from arcops.machine.spawn import keeper_command, spawn
folder = sys.argv[1]
locks = Locks()
locks.take([folder + "/cpu.lock"])
command = keeper_command("L7", folder + "/status.json", ["sleep", "60"])
print(spawn(command, os.environ, folder, folder + "/backend.log", locks.descriptors()).pid, flush=True)
sys.stdin.read()
"""


def test_a_new_supervisor_finds_everything_of_one_that_was_killed(tmp_path: Path, lock: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    first = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    with first:
        assert first.stdout is not None
        keeper = int(first.stdout.readline())
        status = status_of(tmp_path)
        first.kill()
    try:
        main = status.main
        assert main is not None
        assert process.alive(status.keeper)
        assert process.alive(main)
        assert [one.pid for one in process.find_script("keeper.py", "L7")] == [keeper]
        eventually(lambda: {one.pid for one in holders_of(lock)} == {keeper, main.pid})
        assert Locks().take([lock]) != ()
        assert process.signal(main, signal.SIGTERM)
        assert status_of(tmp_path, ended=True).exit == -signal.SIGTERM
        eventually(lambda: not process.alive(status.keeper))
        assert holders_of(lock) == ()
    finally:
        process.signal(status.keeper, signal.SIGKILL)


def test_spawn_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        spawn(["/nowhere/program"], {}, str(tmp_path), str(tmp_path / "log"), ())
    with pytest.raises(OSError, match="folder"):
        spawn(["true"], {}, str(tmp_path), str(tmp_path / "folder" / "log"), ())


def test_a_keeper_starts_within_a_tenth_of_a_second_of_processor_time_and_is_small(tmp_path: Path) -> None:
    with kept(tmp_path, ["sleep", "60"]) as keeper:
        status_of(tmp_path)
        assert process.cpu_seconds([keeper.pid]) <= 0.1
        pages = int(Path(f"/proc/{keeper.pid}/statm").read_text().split()[1])
        assert pages * os.sysconf("SC_PAGE_SIZE") < 20e6


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"launch": 1}',
        json.dumps({"launch": "L", "boot_id": "b", "keeper": 3}).encode(),
    ],
)
def test_a_torn_or_foreign_status_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "status").write_bytes(content)
    assert keeper_status.read(str(tmp_path / "status")) is None
    assert keeper_status.read(str(tmp_path / "missing")) is None


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = '{"launch": "L", "boot_id": "b", "keeper": {"pid": 1, "start": 2}, "main": null, "exit": 127, "error": "no"}'
    (tmp_path / "status").write_text(text)
    found = keeper_status.read(str(tmp_path / "status"))
    assert found == keeper_status.KeeperStatus("L", "b", ProcessId(1, 2), None, 127, "no")
