"""The locks: flock on the cards themselves, on the CPU's lock file, and the daemon's own single-instance lock.

The kernel ties a flock to the open file description: it is held as long as *any* process has a descriptor of that
description open, whoever took it. So the taker named by /proc/locks may be long dead, and the truth about who holds a
lock is the `lock:` line of /proc/PID/fdinfo/FD, which the kernel prints for descriptors of the locked description only.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arcops.core.errors import BlockedError, BusyError
from arcops.core.world import Holder
from arcops.machine import proc

_LOCK_FILE = ".lock"
"""A path that ends so is a lock file of ours and is made as needed; any other is a card, and has to be there."""
_PIDFD_GETFD = 438
"""Number of the system call, the same on every architecture (asm-generic/unistd.h); Linux 5.6 and later."""
_LIBC = ctypes.CDLL(None)


class Locks:
    """The locks that this process holds, in the order taken. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    @property
    def held(self) -> tuple[str, ...]:
        """Paths of the locks that this process holds."""
        return tuple(self._held)

    def descriptors(self) -> tuple[int, ...]:
        """Descriptors to pass on to the backend, so that the locks outlive this process."""
        return tuple(self._held.values())

    def take(self, paths: Sequence[str]) -> tuple[Holder, ...]:
        """Lock every path, in the order given, or none: empty when all are held now, else who is in the way.

        Raises BlockedError like `try_take`.
        """
        path = self.try_take(paths)
        return () if path is None else name_holders(path)

    def try_take(self, paths: Sequence[str]) -> str | None:
        """Lock every path, in the order given, or none: None when all are held now, else the path that is taken.

        Cheap: who has it is for `name_holders` to say, which reads every process's descriptors. Those already held
        stay held and are not taken again. Never waits.
        Raises BlockedError when a path is not there or cannot be opened.
        """
        taken: list[str] = []
        try:
            for path in paths:
                if path in self._held:
                    continue
                descriptor = _lock(path)
                if descriptor is None:
                    self._drop(taken)
                    return path
                self._held[path] = descriptor
                taken.append(path)
        except BlockedError:
            self._drop(taken)
            raise
        return None

    def release(self, keep: Iterable[str] = ()) -> None:
        """Let go of every lock but those in `keep`. A lock whose descriptor was passed on stays held over there."""
        kept = set(keep)
        self._drop([path for path in self._held if path not in kept])

    def renew(self) -> tuple[str, ...]:
        """Lock anew where the lock file was removed, or another put in its place; the paths of those.

        The lock of a nameless file keeps nobody out. A backend that shares the old one goes on holding that.
        Raises BlockedError where it cannot be had again, or somebody was faster.
        """
        renewed: list[str] = []
        for path, descriptor in tuple(self._held.items()):
            if not path.endswith(_LOCK_FILE) or _is_still(descriptor, path):
                continue
            again = _lock(path)
            if again is None:
                raise BlockedError(f"{'; '.join(map(str, name_holders(path)))}, since its file was removed")
            os.close(descriptor)
            self._held[path] = again
            renewed.append(path)
        return tuple(renewed)

    def inherit(self, paths: Sequence[str], process: int) -> bool:
        """Share the locks of these paths with a process of ours that holds them; whether all of them are held now.

        The kernel ties a lock to the open file description, so a second descriptor of the very same keeps it whatever
        becomes of that process. It takes the right to trace it (pidfd_getfd(2)); without that nothing changes.
        """
        for path in paths:
            if path not in self._held and (shared := _shared_descriptor(path, process)) is not None:
                self._held[path] = shared
        return all(path in self._held for path in paths)

    def _drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            # Closing, not LOCK_UN: an explicit unlock would take the lock from the backend that shares the description.
            os.close(self._held.pop(path))


class DaemonLock:
    """One daemon per instance: an exclusive lock on a file that stays empty and is never removed."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def acquire(self, path: str) -> None:
        """Take the lock, or raise BusyError that names who has it. A file left by a dead daemon is no obstacle."""
        if self._descriptor is not None:
            return
        descriptor = _lock(path)
        if descriptor is None:
            others = [holder for holder in holders_of(path) if holder.pid is not None]
            raise BusyError(
                f"another daemon owns this instance: {_who(others)}",
                hint="use that one, or choose another instance with --instance",
            )
        self._descriptor = descriptor

    def renew(self, path: str) -> bool:
        """Take the lock again where its file was removed, or another put in its place; whether that was so.

        Raises BusyError where another daemon was faster, BlockedError where there can be no such file.
        """
        if self._descriptor is None or _is_still(self._descriptor, path):
            return False
        old, self._descriptor = self._descriptor, None
        try:
            self.acquire(path)
        except BlockedError:
            self._descriptor = old
            raise
        except BusyError:
            self._descriptor = old
            raise
        os.close(old)
        return True

    def release(self) -> None:
        """Let go; harmless when the lock is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holders_of(path: str) -> tuple[Holder, ...]:
    """Every process that holds the lock of `path`, this one included; empty when it is free or not there.

    Processes of other users cannot be looked into: then the taker that /proc/locks names is given instead, or a holder
    without a pid when the lock is held and nobody can be named.
    """
    file = _identity(path)
    if file is None:
        return ()
    holding: set[int] = set()
    hidden: set[int] = set()
    for pid in proc.pids():
        try:
            if _has_lock(pid, file):
                holding.add(pid)
        except PermissionError:
            hidden.add(pid)
    takers = _takers(file)
    holding |= takers & hidden
    if not holding and takers:
        return (_unreadable(path),)
    return tuple(_holder(pid, path) for pid in sorted(holding))


def name_holders(path: str) -> tuple[Holder, ...]:
    """Who has a lock that could not be taken; a holder without a pid where nobody can be named."""
    return holders_of(path) or (_unreadable(path),)


def holds(path: str, pids: Iterable[int]) -> bool:
    """One of these processes holds the lock of `path`. False as well for those that cannot be looked into."""
    file = _identity(path)
    if file is None:
        return False
    for pid in pids:
        try:
            if _has_lock(pid, file):
                return True
        except PermissionError:
            continue
    return False


@dataclass(frozen=True, slots=True)
class _File:
    """A file as the kernel names it in lock lines, and as links in /proc/PID/fd name it."""

    target: str
    device: str
    inode: str

    def is_named_by(self, lock: str, target: str) -> bool:
        """The lock line of a descriptor that points to `target` speaks of this file.

        Some file systems (btrfs, overlays) show another device number to stat than in lock lines: the path decides.
        """
        fields = lock.split()
        if "FLOCK" not in fields or "->" in fields:
            return False
        device, _, inode = next((field for field in fields if field.count(":") == 2), "::").rpartition(":")
        return inode == self.inode and (device == self.device or target == self.target)


def _identity(path: str) -> _File | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return _File(os.path.realpath(path), device, str(found.st_ino))


def _has_lock(pid: int, file: _File) -> bool:
    name = os.path.basename(file.target)
    for number, target in proc.descriptors(pid):
        if os.path.basename(target.removesuffix(" (deleted)")) != name:
            continue
        info = proc.descriptor_info(pid, number) or ""
        if any(file.is_named_by(line, target) for line in info.splitlines() if line.startswith("lock:")):
            return True
    return False


def _shared_descriptor(path: str, process: int) -> int | None:
    """A descriptor of ours for the locked description that a process has; None where it has none, or will not share."""
    file = _identity(path)
    if file is None:
        return None
    try:
        pidfd = os.pidfd_open(process)
    except OSError:
        return None
    try:
        for number, target in proc.descriptors(process):
            info = proc.descriptor_info(process, number) or ""
            if any(file.is_named_by(line, target) for line in info.splitlines() if line.startswith("lock:")):
                shared = _LIBC.syscall(_PIDFD_GETFD, pidfd, int(number), 0)
                return None if shared < 0 else int(shared)
    except OSError:
        return None
    finally:
        os.close(pidfd)
    return None


def _takers(file: _File) -> set[int]:
    """Pids that took a lock on the file, as /proc/locks names them; they may have ended since."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as lines:
            ours = [line.split() for line in lines if file.is_named_by(line, "")]
    except OSError:
        return set()
    return {int(fields[4]) for fields in ours if len(fields) > 4 and fields[4].isdigit()}


def _lock(path: str) -> int | None:
    """A descriptor of `path` that has its lock, or None when somebody else has. Raises BlockedError."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise BlockedError(f"{_what(path)} cannot be taken: {error.strerror}") from error
        # Somebody removed the file between open and flock: the lock of a nameless file keeps nobody out.
        os.close(descriptor)


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _open(path: str) -> int:
    try:
        if path.endswith(_LOCK_FILE):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.endswith(_LOCK_FILE):
            raise BlockedError(f"no place for the lock file {path}: {error.strerror}") from error
        raise BlockedError(
            f"there is no card {_name(path)} on this machine ({path})",
            hint="`lspci -D` lists the cards; the profile's device.cards names the wanted ones",
        ) from error
    except OSError as error:
        raise BlockedError(f"{_what(path)} cannot be opened: {error.strerror} ({path})") from error


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(_LOCK_FILE)


def _what(path: str) -> str:
    return f"lock of {_name(path)}"


def _holder(pid: int, path: str) -> Holder:
    command, user = proc.describe(pid)
    return Holder(pid=pid, command=command, user=user, what=_what(path))


def _unreadable(path: str) -> Holder:
    return Holder(pid=None, command=None, user=None, what=_what(path))


def _who(holders: Sequence[Holder]) -> str:
    return "; ".join(str(holder) for holder in holders) or "a process that cannot be looked into"
