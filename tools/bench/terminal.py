"""A program on a pseudo-terminal of 160x48, with somebody who reads what it paints."""

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

COLUMNS, ROWS = 160, 48
KEPT = 1_000_000
"""Bytes of what was painted last that are kept."""


class Terminal:
    """Starts the program; keeps when it first painted something; ends it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._began = time.monotonic()
        self.first_paint: float | None = None
        self.painted = 0
        self._recent = bytearray()
        self._more = threading.Condition()
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], list(argv), {**env, "TERM": "xterm-256color"})  # noqa: S606 - the child of the fork
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            self.painted += len(data)
            with self._more:
                self._recent += data
                del self._recent[:-KEPT]
                self._more.notify_all()
            # Terminal queries come first; the first screen is a good deal longer.
            if self.first_paint is None and self.painted > 2000:
                self.first_paint = time.monotonic() - self._began

    def effect_of(self, key: bytes, text: str, within: float = 10.0) -> float:
        """Seconds from pressing the key until that text has been painted, all of it in one piece. SystemExit if it is
        not."""
        wanted = text.encode()
        with self._more:
            self._recent.clear()
            pressed = time.monotonic()
            os.write(self._master, key)
            if not self._more.wait_for(lambda: wanted in self._recent, within):
                raise SystemExit(f"key {key!r} has not painted {text!r} within {within:g} s")
            return time.monotonic() - pressed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)
