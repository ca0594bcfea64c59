"""A program beside the screen: what it prints is heard in the screen's loop, and it never keeps the operator."""

import asyncio
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE

from arcops import wire


class Child:
    """A program, and a thread that reads what it prints."""

    def __init__(self, who: str, command: Sequence[str], tell: Callable[[bytes | int], None]) -> None:
        """`who` for a person. `tell` hears of each line and at last of the exit code, in that thread."""
        self._who, self._command, self._tell = who, command, tell
        self._guard = threading.Lock()
        self._over = False
        self._process: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._run, name=who, daemon=True).start()

    def end(self) -> None:
        """Kill it where it still runs; nobody waits."""
        with self._guard:
            self._over = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        with self._guard:
            if self._over:
                return
            try:
                self._process = subprocess.Popen(self._command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
            except OSError as error:
                self._tell(wire.encode(wire.ErrorInfo(message=f"{self._who} cannot be run: {error.strerror}")))
                self._tell(-1)
                return
        with self._process as process:
            for line in process.stdout or ():
                self._tell(line)
        self._tell(process.returncode)


def tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Nobody listens any more where the screen has ended meanwhile."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
