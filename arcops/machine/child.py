"""One question to a process of its own: it is started, fed, heard to its end, and killed when its time is up."""

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

KILLED_WITHIN = 5.0
"""Seconds that a child may take to end after its last word, or SIGKILL; what hangs in the kernel does so for good."""
_CHUNK = 64 * 1024
_LAST_WORDS = 2000
"""Bytes of its stderr that are looked at."""


class ChildError(Exception):
    """It gave no answer; the words say why."""


class Child:
    """Asks, one question at a time; from any thread. What outlives SIGKILL is left, and nothing is asked until it has
    gone: the next would hang as well."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._left: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    def ask(self, command: Sequence[str], question: bytes, *, within: float, most: int) -> bytes:
        """What it says on its stdout, once it has ended well, within so many seconds and bytes.

        Raises ChildError where it does not; OSError where this machine lacks what it takes to start a process.
        """
        with self._asking:
            self._ended.clear()
            if self._left is not None and self._left.poll() is None:
                raise ChildError(f"an earlier reader hangs in the kernel (process {self._left.pid})")
            self._left = None
            with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as err:
                # A file, not a pipe: who does not read it holds up nobody.
                said.write(question)
                said.seek(0)
                child = self._child = _start(command, said, err)
                try:
                    answer = self._hear(child, within, most)
                finally:
                    self._child = None
                    self._bury(child)
                if child.returncode != 0:
                    raise ChildError(_last_line(err) or f"the reader ended with exit code {child.returncode}")
                return answer

    def end(self) -> None:
        """Kill what is at work, for whoever does not wait for its answer any more."""
        self._ended.set()
        child = self._child
        if child is not None:
            _kill(child)

    def _hear(self, child: "subprocess.Popen[bytes]", within: float, most: int) -> bytes:
        """All that it says, to its end. Raises ChildError, and it is killed then."""
        pipe = child.stdout
        if pipe is None:
            raise ValueError("a child without a pipe says nothing")
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        answer, deadline = bytearray(), time.monotonic() + within
        while True:
            if self._ended.is_set():
                raise ChildError("nobody waits for the answer any more")
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise ChildError(f"the reader was not done within {within:.0f} s")
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                break
            answer += chunk
            if len(answer) > most:
                raise ChildError(f"the reader says more than {most:,} bytes")
        with suppress(subprocess.TimeoutExpired):
            child.wait(KILLED_WITHIN)
        return bytes(answer)

    def _bury(self, child: "subprocess.Popen[bytes]") -> None:
        """Nothing of it lives afterwards, or it is left where it hangs."""
        if child.stdout is not None:
            child.stdout.close()
        if child.poll() is None:
            _kill(child)
            try:
                child.wait(KILLED_WITHIN)
            except subprocess.TimeoutExpired:
                self._left = child


def _start(command: Sequence[str], said: IO[bytes], err: IO[bytes]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(command), stdin=said, stdout=subprocess.PIPE, stderr=err, cwd="/", start_new_session=True
    )


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """It is its own group's leader, so that what it started goes with it."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _last_line(err: IO[bytes]) -> str:
    size = err.seek(0, os.SEEK_END)
    err.seek(max(0, size - _LAST_WORDS))
    lines = [line.strip() for line in err.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
