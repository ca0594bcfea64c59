"""The kernel's log as it grows, from its oldest record on: by /dev/kmsg, or by a journalctl that follows it.

Both run on the loop and wait for nothing. What is there at the beginning is the past, and told as such. A flood costs
`A_TURN` lines for each turn of the loop, and no memory: the kernel and the pipe keep what is not read yet.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arcops.core.diagnosis.kernel import KernelLine, parse_journal, parse_record

KMSG = "/dev/kmsg"
RECORD = 8192
"""Bytes of the largest record, and of a read."""
A_TURN = 256
"""Records that are read before the loop gets its turn: some milliseconds."""
JOURNAL = ("journalctl", "--dmesg", "--boot", "--follow", "--output=short-monotonic", "--quiet", "--lines=4000")
"""The last lines of this boot, then what comes."""
PAST_ENDS = 1.0
"""Seconds of silence after which what journalctl printed first, which comes in one rush, is over."""
_DIES_WITH_US = os.path.join(os.path.dirname(__file__), "dies_with_parent.py")
_LONGEST = 65_536
"""Bytes of a line whose end is waited for; a longer one is dropped."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was read in one turn."""

    lines: tuple[KernelLine, ...]
    past: bool
    """It was there before anybody watched."""
    lost: bool = False
    """Records were overwritten before they could be read."""


Hear = Callable[[Said], None]


class Watch(Protocol):
    """Somebody who follows the log. Both are made by a `begin` that raises OSError where it cannot."""

    source: str
    """What it reads, for a person."""

    @property
    def ended(self) -> str | None:
        """Why nothing comes any more, in words; None while it watches."""
        ...

    def close(self) -> None: ...


class Lines:
    """Whole lines from pieces that end anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> list[str]:
        *whole, rest = (self._rest + piece).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST else b""
        return [line.decode("utf-8", "replace") for line in whole]


class KmsgWatch:
    """Follows /dev/kmsg: memory of the kernel, a record a read, EAGAIN at its end and EPIPE where it was overrun."""

    def __init__(self, hear: Hear, path: str = KMSG) -> None:
        """Raises OSError where it may not be read."""
        self.source = path
        self._hear = hear
        self._lines = Lines()
        self._past = True
        self._ended: str | None = None
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._loop.add_reader(self._descriptor, self._read)
        except OSError:
            os.close(self._descriptor)
            raise
        # Where there is no past yet, nothing would tell that it has ended.
        self._loop.call_soon(self._read)

    @property
    def ended(self) -> str | None:
        return self._ended

    def _read(self) -> None:
        """One turn's records."""
        found, lost, empty, lines = list[KernelLine](), False, False, 0
        while lines < A_TURN and self._descriptor >= 0:
            lines += 1
            try:
                piece = os.read(self._descriptor, RECORD)
            except BlockingIOError:
                empty = True
                break
            except BrokenPipeError:
                lost = True
                continue
            except OSError as error:
                self._end(f"{self.source}: {error.strerror}")
                break
            if not piece:
                self._end(f"{self.source} has ended")
                break
            whole = self._lines.of(piece)
            lines += len(whole)
            found += (line for line in map(parse_record, whole) if line is not None)
        past, self._past = self._past, self._past and not empty
        if found or lost:
            self._hear(Said(tuple(found), past, lost))

    def _end(self, why: str) -> None:
        self._ended = why
        self.close()
        self._hear(Said((), past=False))

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


class JournalWatch:
    """Follows a `journalctl --follow`, a child that ends with us: where /dev/kmsg may not be read, the journal may.

    What it says is not known to be about our boot's clock before it has said something: a user who may see nothing of
    the kernel's log hears nothing for ever, and nobody tells him.
    """

    def __init__(
        self, hear: Hear, command: Sequence[str] = JOURNAL, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises OSError where no process can be started, or there is no such command."""
        self.source = "journalctl"
        self._hear = hear
        self._monotonic = monotonic
        self._lines = Lines()
        self._heard_at: float | None = None
        self._past = True
        self._ended: str | None = None
        self._loop = asyncio.get_running_loop()
        self._descriptor, write = os.pipe()
        os.set_blocking(self._descriptor, False)
        try:
            self._child = subprocess.Popen(
                (sys.executable, "-I", "-S", _DIES_WITH_US, str(os.getpid()), *command),
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
            )
        except OSError:
            os.close(self._descriptor)
            raise
        finally:
            os.close(write)
        self._loop.add_reader(self._descriptor, self._read)

    @property
    def ended(self) -> str | None:
        if self._ended is None and self._heard_at is None:
            return "the journal has shown this user nothing of the kernel's log"
        return self._ended

    def _read(self) -> None:
        """One turn's lines: a read of a pipe has some hundred at most."""
        try:
            piece = os.read(self._descriptor, RECORD)
        except BlockingIOError:
            return
        if not piece:
            self._end()
            return
        found = tuple(line for line in map(parse_journal, self._lines.of(piece)) if line is not None)
        if not found:
            return
        now = self._monotonic()
        if self._heard_at is not None and now - self._heard_at > PAST_ENDS:
            self._past = False
        self._heard_at = now
        self._hear(Said(found, self._past))

    def _end(self) -> None:
        self._ended = "journalctl has ended, or could not be started"
        self.close()
        self._hear(Said((), past=False))

    def close(self) -> None:
        """End the child; a thread reaps it, for one that hangs at a disk outlives a SIGKILL."""
        if self._descriptor < 0:
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        if self._child.poll() is None:
            self._child.kill()
            threading.Thread(target=self._child.wait, name="reap", daemon=True).start()
