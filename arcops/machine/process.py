"""Processes by identity: found, described, signalled, and never confused with a later one of the same pid."""

import os
import signal as signals
from collections.abc import Iterable
from itertools import pairwise

from arcops.core.world import ProcessId
from arcops.machine import proc

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def boot_id() -> str:
    """The kernel's name for this boot. Raises OSError without /proc, where nothing here works."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessId | None:
    """The identity of a living process, or None when there is none (a zombie is none)."""
    found = proc.stat(pid)
    return None if found is None or found.ended else ProcessId(pid, found.start)


def alive(process: ProcessId) -> bool:
    """This very process still runs: same start time, and not a zombie."""
    return identify(process.pid) == process


def describe(pid: int) -> tuple[str | None, str | None]:
    """Command (comm) and user of a process; None for what could not be read."""
    return proc.describe(pid)


def open_pidfd(process: ProcessId) -> int | None:
    """A descriptor of this very process, readable once it has ended; None when it has already gone.

    The start time is checked *after* the descriptor is open: from then on a reused pid cannot be meant.
    Raises OSError for anything but "no such process" (out of descriptors, for one).
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if alive(process):
        return descriptor
    os.close(descriptor)
    return None


def signal(process: ProcessId, sig: signals.Signals) -> bool:
    """Send `sig` to this very process; False when it has gone. Raises PermissionError when it is not ours to signal."""
    descriptor = open_pidfd(process)
    if descriptor is None:
        return False
    try:
        signals.pidfd_send_signal(descriptor, sig)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time that the living ones of `pids` have used so far, in seconds (resolution 0.01 s)."""
    found = (proc.stat(pid) for pid in pids)
    return sum(one.ticks for one in found if one is not None) / _TICKS_PER_SECOND


def find_script(name: str, argument: str) -> tuple[ProcessId, ...]:
    """Every living process that runs a script called `name` with `argument` as the script's first argument, by pid.

    In whatever folder the script lies: another version of arcops may have started it. A process that only mentions
    `argument` (somebody who reads that launch's log) is not meant, and neither is a child that one of them has forked
    and that has not become another program yet.
    """
    script, first = os.fsencode(f"/{name}"), os.fsencode(argument)
    running = {pid for pid in proc.pids() if _runs(_arguments(pid), script, first)}
    seen = (proc.stat(pid) for pid in sorted(running))
    return tuple(
        ProcessId(one.pid, one.start) for one in seen if one is not None and not one.ended and one.parent not in running
    )


def _runs(arguments: list[bytes], script: bytes, first: bytes) -> bool:
    return any(one.endswith(script) and after == first for one, after in pairwise(arguments))


def _arguments(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError as error:
        if error.errno in proc.OWN_LACK:
            raise
        return []
