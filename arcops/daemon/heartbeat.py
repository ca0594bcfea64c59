"""WATCHDOG=1 for systemd: sent while the loop turns, and only then.

A thread watches the loop's count of turns. So neither a loop that hangs in an action, nor an event loop that hangs
altogether, nor a thread that never lets go of the interpreter is taken for well: no sign goes out in any of these, and
systemd aborts and restarts the supervisor. Its backend lives elsewhere and is adopted.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from arcops.machine import proc, systemd

_BEATS_WITHIN = 3.0
"""Signs of life within systemd's limit, so that one that is late or lost costs nothing."""
_LOOKS_A_BEAT = 4.0
"""Looks at the count between two signs: a turn that comes a little late delays the sign by a quarter, not by one."""
DISK_PATIENCE = 300.0
"""Seconds for which a loop that waits for a disk counts as well: a restart would only wait for the same disk."""


class Heartbeat:
    """Judges when a sign of life is due. Times in seconds on one monotonic clock."""

    def __init__(self, limit: float, turns: int, now: float) -> None:
        self._interval = limit / _BEATS_WITHIN
        self._turns = turns
        self._told = now
        self._turned = now

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return self._interval / _LOOKS_A_BEAT

    def is_due(self, turns: int, now: float, *, waits_for_disk: bool) -> bool:
        """Whether to send a sign now. The loop has turned since the last one, or the kernel holds it up at a disk."""
        turned = turns != self._turns
        if turned:
            self._turned = now
        if now - self._told < self._interval:
            return False
        if not turned and not (waits_for_disk and now - self._turned < DISK_PATIENCE):
            return False
        self._turns, self._told = turns, now
        return True


@contextmanager
def beating(turns: Callable[[], int]) -> Generator[None]:
    """Within this, systemd hears of the loop whose turns `turns` counts, if it asked for that."""
    limit = systemd.watchdog_limit(os.environ, os.getpid())
    if limit is None:
        yield
        return
    # The abort of a supervisor that hangs leaves in the journal where each of its threads was.
    faulthandler.enable()
    ended = threading.Event()
    heart = Heartbeat(limit, turns(), time.monotonic())
    thread = threading.Thread(target=_beat, args=(heart, turns, ended), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _beat(heart: Heartbeat, turns: Callable[[], int], ended: threading.Event) -> None:
    """On a thread of its own, until `ended`."""
    while not ended.wait(heart.pause):
        if heart.is_due(turns(), time.monotonic(), waits_for_disk=waits_for_disk(os.getpid())):
            systemd.notify("WATCHDOG=1")


def waits_for_disk(pid: int) -> bool:
    """Whether the main thread of a process is in the kernel and cannot be woken: D in /proc/PID/stat.

    Nothing else that it does for long looks so; a SIGKILL would wait for the same end. What cannot be looked at (this
    process is out of descriptors) is no excuse for a loop that does not turn, and no end of the thread that asks.
    """
    try:
        seen = proc.stat(pid)
    except OSError:
        return False
    return seen is not None and seen.state == "D"
