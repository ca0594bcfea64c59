"""Real processes for the tests of the machine: started, talked to, and ended whatever the test did."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from arcops.machine import keeper_status, proc
from arcops.machine.keeper_status import KeeperStatus
from arcops.machine.spawn import keeper_command, spawn
from tests.helpers import cannot_run_here, eventually

REPOSITORY = Path(__file__).parents[2]
_NOBODY = 65534


@contextmanager
def python(code: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A Python process that runs `code`, with pipes to talk to it; killed in the end."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    with started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def session_members(sid: int) -> tuple[int, ...]:
    """The living processes of a session, by pid."""
    return tuple(sorted(one.pid for one in proc.every_stat() if one.session == sid and not one.ended))


def descendants(pid: int) -> tuple[int, ...]:
    """The living descendants of a process, itself excepted, by pid."""
    every = tuple(proc.every_stat())
    below = proc.below(pid, every)
    return tuple(sorted(one.pid for one in every if one.pid in below and not one.ended))


def say(to: "subprocess.Popen[str]", line: str) -> None:
    assert to.stdin is not None
    to.stdin.write(line + "\n")
    to.stdin.flush()


def hear(from_: "subprocess.Popen[str]") -> str:
    """The next line; an ended process says nothing, which is an error here."""
    assert from_.stdout is not None
    line = from_.stdout.readline()
    assert line, f"it ended with {from_.wait()}"
    return line.rstrip("\n")


@contextmanager
def kept(
    folder: Path,
    argv: Sequence[str],
    *,
    launch_id: str = "L1",
    env: Mapping[str, str] = os.environ,
    pass_fds: Sequence[int] = (),
    cgroup: Path | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """A keeper with its backend; every process of it is killed in the end."""
    status = str(folder / "status.json")
    command = keeper_command(launch_id, status, argv, cgroup)
    keeper = spawn(command, env, str(folder), str(folder / "backend.log"), pass_fds)
    try:
        yield keeper
    finally:
        for pid in descendants(keeper.pid):
            _kill(pid)
        keeper.kill()
        keeper.wait()
        # Without a keeper the rest of the session has another parent by now.
        for pid in session_members(keeper.pid):
            _kill(pid)


def status_of(folder: Path, *, ended: bool = False) -> KeeperStatus:
    """What the keeper wrote, once it has written it (and, if asked for, the exit code as well)."""

    def written() -> KeeperStatus | None:
        found = keeper_status.read(str(folder / "status.json"))
        return found if found is not None and (found.exit is not None or not ended) else None

    found = eventually(written, why="the keeper writes its status")
    assert found is not None
    return found


def log_of(folder: Path) -> str:
    return (folder / "backend.log").read_text()


def as_nobody(function: Callable[[], str]) -> str:
    """What `function` returns in a forked process of a user who owns nothing."""
    if os.getuid() != 0:
        cannot_run_here("needs root to become another user")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            # It must not hold what this process holds: locks and sockets come with a fork.
            os.closerange(3, write)
            os.closerange(write + 1, os.sysconf("SC_OPEN_MAX"))
            os.write(write, function().encode())
        finally:
            # Whatever happened, the fork must not go on as a second test run.
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
