"""The witness of the matrix is worth something only if it sees what is against the laws."""

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from arcops.machine import spawn
from tests.faults.witness import Witness
from tests.helpers import eventually, free_port

pytestmark = pytest.mark.processes


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.lock"
    path.touch()
    return path


@pytest.fixture
def witness(tmp_path: Path, lock: Path) -> Witness:
    """One that looks when it is told to."""
    return Witness(tmp_path / "state", tmp_path / "run", lock, free_port())


@contextmanager
def launch(folder: Path, name: str, *argv: str) -> Generator[int]:
    """A keeper with one process below it; gives the keeper's pid, and ends both."""
    status = folder / "run" / f"{name}.json"
    status.parent.mkdir(exist_ok=True)
    command = spawn.keeper_command(name, str(status), argv or ("sleep", "60"), None)
    keeper = subprocess.Popen(command)
    try:
        eventually(lambda: status.exists() and below(keeper.pid), why="the keeper has not started its process")
        yield keeper.pid
    finally:
        for pid in (*below(keeper.pid), keeper.pid):
            os.kill(pid, signal.SIGKILL)
        keeper.wait()


def below(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def hold(lock: Path) -> int:
    descriptor = os.open(lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_two_launches_at_one_moment_are_seen(tmp_path: Path, lock: Path, witness: Witness) -> None:
    with ExitStack() as stack:
        stack.callback(os.close, hold(lock))
        stack.enter_context(launch(tmp_path, "one"))
        witness.sample()
        assert witness.breaches == []
        assert witness.launches() == {"one"}
        stack.enter_context(launch(tmp_path, "two"))
        witness.sample()
        assert any("two launches" in words for words in witness.breaches)
    assert witness.most == 2
    eventually(lambda: not witness.launches(), why="what was killed is still seen to live")


def test_a_process_that_lives_while_nobody_has_the_lock_is_seen(tmp_path: Path, lock: Path, witness: Witness) -> None:
    with launch(tmp_path, "one"):
        witness.sample()
    assert any("nobody held the lock" in words for words in witness.breaches)


def test_a_process_whose_keeper_was_killed_is_not_lost_from_sight(tmp_path: Path, lock: Path, witness: Witness) -> None:
    keeper: int | None = None
    with ExitStack() as stack:
        stack.callback(os.close, hold(lock))
        status = tmp_path / "run" / "one.json"
        status.parent.mkdir()
        process = subprocess.Popen(spawn.keeper_command("one", str(status), ("sleep", "60"), None))
        stack.callback(process.wait)
        keeper = process.pid
        children = eventually(lambda: below(process.pid), why="no process below the keeper")
        stack.callback(os.kill, children[0], signal.SIGKILL)
        witness.sample()
        os.kill(keeper, signal.SIGKILL)
        process.wait()
        assert [one.pid for one in witness.living()] == children


def test_a_foreign_listener_is_seen_and_ours_is_not_foreign(tmp_path: Path, lock: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        witness = Witness(tmp_path / "state", tmp_path / "run", lock, int(stranger.getsockname()[1]))
        witness.sample()
    assert witness.foreign_listeners == {os.getpid()}
    port = free_port()
    serves = f"import socket,time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    own = Witness(tmp_path / "state", tmp_path / "run", lock, port)
    with launch(tmp_path, "one", "/usr/bin/env", "python3", "-c", serves):
        eventually(lambda: listens(port), why="it does not listen")
        own.sample()
    assert own.foreign_listeners == set()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
