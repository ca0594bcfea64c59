"""What the supervisor tells systemd about itself, and asks it about its own unit."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from arcops.core.quantity import Known, Reading, Unknown

_ANSWERS_WITHIN = 5.0
"""Seconds for a look at the jobs, which takes some 10 ms: the end of a unit must not hang on it."""
_TAKEN_WITHIN = 1.0
"""Seconds for a manager whose queue is full: the loop must not hang with it."""


def notify(state: str) -> None:
    """Send `READY=1`, `STATUS=...`, `WATCHDOG=1` or `STOPPING=1`; silent where systemd did not ask, and never fails.

    Several lines may be sent at once. Source: sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    where = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(_TAKEN_WITHIN)
        manager.sendto(state.encode(errors="replace"), where)


def notify_reloading() -> None:
    """Say that a reload has begun; `READY=1` says that it is over. Source: sd_notify(3)."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def watchdog_limit(env: Mapping[str, str], pid: int) -> float | None:
    """Seconds of silence after which systemd ends this process; None where it does not watch it.

    Source: sd_watchdog_enabled(3).
    """
    limit = env.get("WATCHDOG_USEC", "")
    if not limit.isdecimal() or int(limit) == 0 or env.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(limit) / 1e6


def job_of(unit: str, env: Mapping[str, str]) -> Reading[str | None]:
    """What systemd is about to do with a unit of its own: `stop`, `restart`, `start`, or nothing (None).

    `env` is the environment of one of the unit's processes: it says whether the user's manager or the system's owns it.
    """
    # Only the user's manager tells its services its own pid, systemd.exec(5).
    which = ("--user",) if "MANAGERPID" in env else ("--system",)
    command = ("systemctl", *which, "--no-pager", "--no-legend", "--plain", "--full", "list-jobs", unit)
    try:
        done = subprocess.run(
            command,
            env={**env, "SYSTEMD_COLORS": "0", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        return Unknown(f"systemd does not say what it does with {unit}: {error}", time.monotonic())
    jobs = [line.split() for line in done.stdout.splitlines()]
    kind = next((fields[2] for fields in jobs if len(fields) >= 4 and fields[1] == unit), None)
    return Known(kind, time.monotonic())
