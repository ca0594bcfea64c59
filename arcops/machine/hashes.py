"""Hashes of files, and what is remembered of them: a file whose inode has not been touched since is not read again.

A remembered hash is believed where device, inode, size, mtime and ctime are what they were. The kernel sets ctime with
every change of content or of mtime, and no program can set it; only who may set the machine's clock, or write to the
disk below the file system, can change a file behind it. What was touched moments before it was read is not remembered,
since a clock that ticks every few milliseconds cannot tell two changes within one tick.

The memory is a file of this user's with a checksum: one that is torn, somebody else's, or that others may write to is
not believed, and hashing starts over. Whoever can write there as this user could also change the runtime itself, and
every record about it; the checksum is not meant to keep them out. `Hashes(..., believe=False)` reads everything anew.
"""

import errno
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

MAGIC: Final = b"arcops hashes 1 sha256:"
LARGEST: Final = 128 << 20
"""Bytes of the memory; 50,000 files take six million."""
MOST: Final = 500_000
"""Files that are remembered."""
KEEP_DAYS: Final = 90
"""A file that no look has come across for so long is forgotten."""
SETTLED: Final = 2.0
"""Seconds since the last touch of a file before its hash is remembered."""
CHUNK: Final = 1 << 20
_DAY: Final = 86_400

Key: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, mtime and ctime in nanoseconds."""
_Line: TypeAlias = tuple[int, int, int, int, int, str, str, int]
"""A key, the algorithm, the digest in hexadecimal, and the last day (since the epoch) on which it was asked for."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a look cost."""

    files: int
    read: int
    """Of them, those whose content was read."""
    bytes_read: int


class Hashes:
    """The memory, and the only way to it. For one thread."""

    def __init__(self, path: str, *, believe: bool = True, clock: Callable[[], float] = time.time) -> None:
        """`path` is where it is kept; without `believe` no hash of an earlier look counts. `clock` gives seconds since
        the epoch."""
        self.path = path
        self._believe = believe
        self._clock = clock
        self._known: dict[tuple[Key, str], str] = {}
        self._days: dict[tuple[Key, str], int] = {}
        self._fresh: set[tuple[Key, str]] = set()
        self._files = self._read = self._bytes = 0
        for line in _load(path):
            name = (line[:5], line[5])
            self._known[name], self._days[name] = line[6], line[7]

    @property
    def counts(self) -> Counts:
        return Counts(self._files, self._read, self._bytes)

    def known(self, path: str, algorithm: str = "sha256") -> str | None:
        """The hash of a file as far as it is remembered; nothing is read but its inode. None where it is not."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        name = key_of(found), algorithm
        return self._known.get(name) if self._trusted(name) else None

    def of(self, path: str, algorithm: str = "sha256") -> str:
        """The hash of a regular file's content, in hexadecimal. Raises OSError: also for what is no regular file."""
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        self._files += 1
        name = key_of(before), algorithm
        today = int(self._clock()) // _DAY
        known = self._known.get(name)
        if known is not None and self._trusted(name):
            self._days[name] = today
            return known
        digest, after = read(path, algorithm)
        self._read += 1
        self._bytes += after.st_size
        name = key_of(after), algorithm
        if self._clock() - max(after.st_mtime, after.st_ctime) > SETTLED:
            self._known[name], self._days[name] = digest, today
            self._fresh.add(name)
        return digest

    def keep(self) -> None:
        """Write the memory down, in one step. Raises OSError."""
        oldest = int(self._clock()) // _DAY - KEEP_DAYS
        kept = sorted((name for name, day in self._days.items() if day >= oldest), key=lambda name: -self._days[name])
        lines = [(*key, how, self._known[key, how], self._days[key, how]) for key, how in kept[:MOST]]
        body = msgspec.json.encode(lines)
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".hashes-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(temporary, self.path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _trusted(self, name: tuple[Key, str]) -> bool:
        """Without belief, only what this very look has read counts: a file that is named twice is read once."""
        return self._believe or name in self._fresh


def key_of(found: os.stat_result) -> Key:
    """What tells a file's content, without reading it."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read(path: str, algorithm: str = "sha256") -> tuple[str, os.stat_result]:
    """The hash of a regular file's content, and its inode as it was all the while.

    Raises OSError: where it is no regular file, or was written to while it was read. A pipe does not hold anybody up.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        hasher = hashlib.new(algorithm, usedforsecurity=False)
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        left = before.st_size
        # No further than it was long: one that grows without end would hold us here.
        while left > 0 and (count := file.readinto(view[: min(left, CHUNK)])):
            hasher.update(view[:count])
            left -= count
        after = os.fstat(descriptor)
    if key_of(after) != key_of(before):
        raise OSError(errno.EBUSY, "it was written to while it was read", path)
    return hasher.hexdigest(), after


def _load(path: str) -> list[_Line]:
    """What was written down; nothing where it is not there, torn, or not only this user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not private or found.st_size > LARGEST:
            return []
        try:
            content = file.read(found.st_size)
        except OSError:
            return []
    head, _, body = content.partition(b"\n")
    if head != MAGIC + hashlib.sha256(body).hexdigest().encode():
        return []
    try:
        return msgspec.json.decode(body, type=list[_Line])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
