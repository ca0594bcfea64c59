"""The processes of the fake: EngineCore and its workers, children that escape, and titles in place of command lines."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from fake_vllm_lib.log import Log

DEAF_ON, DEAF_OFF = signal.SIGUSR1, signal.SIGUSR2
"""How the API server tells EngineCore to stop, or to begin again, hearing SIGTERM."""
GROW = signal.SIGURG
"""How a test has EngineCore take memory, which it otherwise never does."""
GROWTH = 64 * 1024 * 1024
"""Bytes that it takes then, and writes to."""


def set_name(name: str) -> None:
    """Set the process's short name (comm), which the kernel cuts to 15 characters."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)


def set_title(title: str) -> None:
    """Put `title` in place of the command line and wipe the environment, as the real one's children do.

    Both are memory of this process, whose bounds are fields 48 to 51 of /proc/self/stat. Where the kernel forbids it
    the command line simply stays.
    """
    set_name(title)
    try:
        with open("/proc/self/stat") as stat:
            values = [int(word) for word in stat.read().rpartition(")")[2].split()[45:49]]
        arguments, end, environment, end_of_environment = values
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(arguments)
            memory.write(title.encode()[: end - arguments - 1].ljust(end - arguments, b"\0"))
            memory.seek(environment)
            memory.write(bytes(end_of_environment - environment))
    except (OSError, ValueError):
        return


def state_of(pid: int) -> str:
    """The kernel's one-letter state of a process; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def fork(body: Callable[[], None]) -> int:
    """Run `body` in a child that then ends with code 0, and return its pid. Only while there are no threads yet."""
    pid = os.fork()
    if pid:
        return pid
    try:
        body()
    finally:
        os._exit(0)


def engine_core(stop_seconds: float, workers: int, deaf: bool, segv_hangs: bool = False) -> int:
    """Start EngineCore: idle, alive when its parent is killed, and with no descriptor of its parent but the log.

    The real one is spawned afresh, so it holds neither the listening socket nor a lock that its parent inherited.
    """

    def body() -> None:
        os.closerange(3, 4096)
        for _ in range(workers):
            fork(_worker)
        set_title("VLLM::EngineCore")
        log = Log("EngineCore")
        taken: list[bytes] = []

        def stop(*_: object) -> None:
            log.line("core.py:1350", "[shutdown] EngineCore: trigger received signal=SIGTERM")
            time.sleep(stop_seconds)
            os._exit(0)

        def grow(*_: object) -> None:
            taken.append(b"x" * GROWTH)

        def be_deaf(*_: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        def hear(*_: object) -> None:
            signal.signal(signal.SIGTERM, stop)

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if segv_hangs:
            signal.signal(signal.SIGSEGV, _never_come_back)
        signal.signal(DEAF_ON, be_deaf)
        signal.signal(DEAF_OFF, hear)
        signal.signal(GROW, grow)
        (be_deaf if deaf else hear)()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        _wait_for_signals()

    # A signal that comes before the child has its own handlers waits until it has them.
    held = {signal.SIGTERM, DEAF_ON, DEAF_OFF}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        return fork(body)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)


def _never_come_back(*_: object) -> None:
    """A handler that deadlocks: the process is there, sleeps, and hears nothing but SIGKILL."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(3600)


def lost_in_handler(pid: int) -> bool:
    """Whether a process is in `_never_come_back`: it blocks the signal that nobody else here ever does."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("SigBlk:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGSEGV - 1) & 1)
    return False


def _worker() -> None:
    """A worker ends with EngineCore, as the real one does."""
    parent = os.getppid()
    set_title("VLLM::Worker")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.getppid() == parent:
        time.sleep(0.05)
    Log("Worker").line("multiproc_executor.py:836", "Parent process exited, terminating worker queues")


def burn(seconds: float) -> int:
    """A child that takes processor time and says nothing, as a compilation does."""

    def body() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(range(2000))
            time.sleep(0.005)

    return fork(body)


def escape(keep_out: int, seconds: float) -> None:
    """Leave a grandchild in a session of its own that ignores SIGTERM for `seconds`."""

    def grandchild() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        set_title("VLLM::Escaped")
        time.sleep(seconds)

    def child() -> None:
        os.close(keep_out)
        os.setsid()
        fork(grandchild)

    os.waitpid(fork(child), 0)


def hold(seconds: float) -> int:
    """A child that keeps every descriptor of its parent, the listening socket among them, and ignores SIGTERM."""

    def body() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        set_title("VLLM::PortHolder")
        time.sleep(seconds)

    return fork(body)


def _wait_for_signals() -> NoReturn:
    while True:
        signal.pause()


def end_by_signal(number: int) -> NoReturn:
    """End this process by a signal, so that its parent sees exit code -number."""
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
