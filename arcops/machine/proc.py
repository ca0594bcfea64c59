"""The formats of /proc, read in one place: entries vanish while they are read, and that is never an error here.

Source: proc(5). The other modules of the machine share these words and nothing else.
"""

import errno
import os
import pwd
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ROOT = "/proc"
OWN_LACK = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of a reader that has run out of descriptors or memory itself."""
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of /proc/PID/stat (include/linux/sched.h)."""


_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says. Times in clock ticks; `start` counts from boot."""

    pid: int
    command: str
    state: str
    parent: int
    session: int
    flags: int
    ticks: int
    """User and system time of the process, its ended children excepted."""
    threads: int
    start: int

    @property
    def ended(self) -> bool:
        """A zombie. One whose other threads still run is not: it goes on holding memory and descriptors."""
        return self.state in "ZXx" and self.threads <= 1

    @property
    def kernel_thread(self) -> bool:
        return bool(self.flags & _KERNEL_THREAD)


def pids(root: str = ROOT) -> tuple[int, ...]:
    """Every process that this user may see, in no order. Raises OSError when /proc itself cannot be read."""
    return tuple(int(name) for name in os.listdir(root) if name.isdigit())


def stat(pid: int, root: str = ROOT) -> Stat | None:
    """The process as it is now, or None when it has gone (or was never there).

    Raises OSError where it is us who lack something, a descriptor or memory: that says nothing about the process.
    """
    try:
        with open(f"{root}/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        _raise_own_lack(error)
        return None
    return parse_stat(text)


def parse_stat(text: str) -> Stat | None:
    """Parse one line of /proc/PID/stat; the command may itself contain spaces and brackets. None for anything else."""
    before, opening, rest = text.partition("(")
    command, closing, after = rest.rpartition(")")
    fields = after.split()
    # `fields` begins with the third field of proc(5), the state.
    if not opening or not closing or len(fields) < 20:
        return None
    try:
        return Stat(
            pid=int(before),
            command=command,
            state=fields[0],
            parent=int(fields[1]),
            session=int(fields[3]),
            flags=int(fields[6]),
            ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            start=int(fields[19]),
        )
    except ValueError:
        return None


def every_stat(root: str = ROOT) -> Iterator[Stat]:
    """Every process that could be read."""
    for pid in pids(root):
        found = stat(pid, root)
        if found is not None:
            yield found


def below(pid: int, every: Iterable[Stat]) -> set[int]:
    """Pids of the descendants of a process, itself excepted, in one picture of all processes."""
    children: dict[int, list[int]] = {}
    for one in every:
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        # Never the same one twice: the picture was not taken in an instant, and may show a circle.
        new = set(children.get(waiting.pop(), ())) - found - {pid}
        found |= new
        waiting += new
    return found


def cgroup_mount(root: str = ROOT) -> str | None:
    """Where cgroup2 is mounted: /sys/fs/cgroup, or .../unified on hosts that keep the old hierarchies beside it.

    None where it is nowhere, or the mounts cannot be read.
    """
    try:
        return next((place for place, kind in _mounts(root) if kind == "cgroup2"), None)
    except OSError:
        return None


def mounts(root: str = ROOT) -> tuple[str, ...]:
    """Where this process sees file systems mounted. Raises OSError."""
    return tuple(place for place, _ in _mounts(root))


def _mounts(root: str) -> list[tuple[str, str]]:
    """Place and kind of each. Blanks and backslashes are written in octal."""
    with open(f"{root}/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        fields = [line.split(" ") for line in file]
    return [(_OCTAL.sub(lambda found: chr(int(found[1], 8)), each[1]), each[2]) for each in fields if len(each) > 2]


def user_name(uid: int) -> str:
    """The login name, or the number where the machine knows no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def describe(pid: int, root: str = ROOT) -> tuple[str | None, str | None]:
    """Command (comm, at most 15 characters) and user of a process; None for what could not be read."""
    command: str | None = None
    user: str | None = None
    try:
        with open(f"{root}/{pid}/status", "rb") as file:
            for raw in file:
                key, _, value = raw.decode("utf-8", "replace").partition(":")
                if key == "Name":
                    command = value.strip()
                elif key == "Uid":
                    user = user_name(int(value.split()[0]))
                    break
    except (OSError, ValueError, IndexError):
        return command, user
    return command, user


def cgroup_of(pid: int, root: str = ROOT) -> str | None:
    """Path of a process in the unified hierarchy, as this process sees it; None where it is in none, or has gone."""
    try:
        with open(f"{root}/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        _raise_own_lack(error)
        return None
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)


def descriptors(pid: int, root: str = ROOT) -> tuple[tuple[str, str], ...]:
    """Open descriptors of a process as (number, target of the link); empty when the process has gone.

    Links are read, never followed: a `stat` through one could hang on a dead network mount.
    Raises PermissionError when this user may not look: that is "unknown", never "none".
    """
    folder = f"{root}/{pid}/fd"
    found: list[tuple[str, str]] = []
    try:
        for number in os.listdir(folder):
            try:
                found.append((number, os.readlink(f"{folder}/{number}")))
            except PermissionError:
                raise
            except OSError:
                continue
    except PermissionError:
        raise
    except OSError as error:
        _raise_own_lack(error)
    return tuple(found)


def descriptor_info(pid: int, number: str, root: str = ROOT) -> str | None:
    """The text of /proc/PID/fdinfo/N, or None when it has gone. Raises PermissionError like `descriptors`."""
    try:
        with open(f"{root}/{pid}/fdinfo/{number}", "rb") as file:
            return file.read().decode("utf-8", "replace")
    except PermissionError:
        raise
    except OSError as error:
        _raise_own_lack(error)
        return None


def mappings(pid: int, root: str = ROOT) -> frozenset[tuple[int, str]]:
    """The files that a process maps, as (inode, path); empty when it has gone.

    A path is the one that the file was first mapped by: a named semaphore is mapped before it gets its own name, and is
    for ever shown by the first, as deleted. Waits for the lock on the memory of the process, which one that hangs in
    the kernel may keep. Raises PermissionError like `descriptors`.
    """
    found: set[tuple[int, str]] = set()
    try:
        with open(f"{root}/{pid}/maps", "rb") as file:
            for raw in file:
                # Address, permissions, offset, device, inode: the rest is the path, which may contain spaces.
                fields = raw.decode("utf-8", "replace").rstrip("\n").split(None, 5)
                if len(fields) == 6:
                    found.add((int(fields[4]), fields[5]))
    except PermissionError:
        raise
    except OSError as error:
        _raise_own_lack(error)
    return frozenset(found)


def unix_sockets(root: str = ROOT) -> frozenset[str]:
    """The paths that Unix sockets are bound to, of every process. Raises OSError."""
    with open(f"{root}/net/unix", "rb") as file:
        lines = [raw.decode("utf-8", "replace").rstrip("\n").split(None, 7) for raw in file]
    return frozenset(fields[7] for fields in lines[1:] if len(fields) == 8)


def _raise_own_lack(error: OSError) -> None:
    """Raise what is no word about the process that was to be read: "we cannot look" is not "it has gone"."""
    if error.errno in OWN_LACK:
        raise error
