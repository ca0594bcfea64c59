"""The kernel's log since a moment: from /dev/kmsg, or where that may not be read from the journal.

/dev/kmsg is memory of the kernel: some thousand records take some milliseconds, and nothing waits. journalctl takes
what it takes, is given a deadline, and is to be called in a thread.
"""

import os
import subprocess

from arcops.core.diagnosis.kernel import KernelLine, parse_journal, parse_record
from arcops.core.quantity import Known, Reading, Unknown

KMSG = "/dev/kmsg"
RECORD = 8192
"""Bytes of the largest record (PRINTKRB_RECORD_MAX is 2048, its escapes included some more)."""
MAX_RECORDS = 50_000
"""Records that are read at most, at some microseconds each; the kernel's buffer holds a few thousand."""
JOURNAL = ("journalctl", "--dmesg", "--boot", "--output=short-monotonic", "--no-pager", "--quiet", "--lines=4000")
"""Lines have at most a kilobyte or so, as the kernel's have."""
JOURNAL_WITHIN = 2.0
"""Seconds that journalctl is given."""
DRIFT = 5e-5
"""The log's clock is not slewed to true time like the monotonic one, and drifts from it: seconds a second of uptime."""
SLACK = 2.0
"""Seconds that the two clocks may be apart from the beginning."""
REMEDY = "an administrator can allow it: kernel.dmesg_restrict=0, or the user in the group adm or systemd-journal"
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO in include/linux/proc_ns.h: the namespace whose pids the kernel's log names."""


def read(since: float, now: float, path: str = KMSG) -> Reading[tuple[KernelLine, ...]]:
    """What the kernel has said from `since` to `now` (seconds, monotonic), by /dev/kmsg. Takes milliseconds."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Unknown(f"the kernel's log cannot be read: {path}: {error.strerror}; {REMEDY}", now)
    try:
        return _read(descriptor, moment(since, now), now)
    except OSError as error:
        return Unknown(f"the kernel's log cannot be read: {path}: {error.strerror}; {REMEDY}", now)
    finally:
        os.close(descriptor)


def _read(descriptor: int, since: float, now: float) -> Reading[tuple[KernelLine, ...]]:
    """Raises OSError."""
    found: list[KernelLine] = []
    for _ in range(MAX_RECORDS):
        try:
            record = os.read(descriptor, RECORD)
        except BlockingIOError:
            return Known(tuple(found), now)
        except BrokenPipeError:
            # Overrun: the oldest were overwritten meanwhile, and the next read goes on with what is there.
            continue
        if not record:
            return Known(tuple(found), now)
        if _stamp(record) < since:
            continue
        line = parse_record(record.decode("utf-8", "replace"))
        if line is not None and line.at >= since:
            found.append(line)
    # The newest count most, and they were not reached: half of it must not pass for all.
    return Unknown(f"the kernel's log has more than the {MAX_RECORDS:,} records that are read of it", now)


def _stamp(record: bytes) -> float:
    """The time of a record in seconds: most are old, and are not worth taking apart. 0 for what is none."""
    fields = record.split(b",", 3)
    return int(fields[2]) / 1e6 if len(fields) > 3 and fields[2].isdigit() else 0.0


def read_journal(since: float, now: float, command: tuple[str, ...] = JOURNAL) -> Reading[tuple[KernelLine, ...]]:
    """The same by journalctl: takes up to `JOURNAL_WITHIN`, so call it in a thread."""
    try:
        text = _output(command)
    except (OSError, subprocess.SubprocessError) as error:
        words = error.strerror if isinstance(error, OSError) else f"no end within {JOURNAL_WITHIN:.0f} s"
        return Unknown(f"the kernel's log cannot be read: {command[0]}: {words}; {REMEDY}", now)
    lines = [line for line in map(parse_journal, text.splitlines()) if line is not None]
    if not lines:
        # Every boot has its lines: none at all means that this user may not see them, or that none are kept.
        return Unknown(f"the journal shows this user nothing of the kernel's log; {REMEDY}", now)
    return Known(tuple(line for line in lines if line.at >= moment(since, now)), now)


def _output(command: tuple[str, ...]) -> str:
    """What a command prints. Raises OSError, SubprocessError."""
    run = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_plain(),
        timeout=JOURNAL_WITHIN,
        check=False,
    )
    return run.stdout.decode("utf-8", "replace")


def _plain() -> dict[str, str]:
    """The environment, with words and numbers as they are parsed here."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}


def moment(at: float, now: float) -> float:
    """The earliest that a moment of the monotonic clock can be on the log's clock, seen from `now`; both in seconds."""
    return at - SLACK - DRIFT * now


def names_our_pids() -> bool:
    """Whether the pids in the kernel's log are those that this process sees; not so in most containers."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False
