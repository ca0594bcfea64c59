"""Bounded reads of files that may be anything: too large, a pipe that nobody writes to, a link to somewhere else."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Part:
    """What was read of a file."""

    content: bytes
    size: int
    """Bytes in the whole file."""

    @property
    def whole(self) -> bool:
        return len(self.content) >= self.size


def start(path: Path, most: int, *, follow: bool = True) -> Part:
    """The first `most` bytes of a regular file. Raises OSError; without `follow` a symbolic link is one, too.

    Files in /proc give their size as 0: of them the part is always whole.
    """
    with open(_opened(path, follow), "rb") as file:
        return Part(file.read(most), os.fstat(file.fileno()).st_size)


def end(path: Path, most: int, *, follow: bool = True) -> Part:
    """The last `most` bytes of a regular file, from the first whole line on. Raises OSError."""
    with open(_opened(path, follow), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return Part(file.read(most), size)
        # The byte before is read with them: if it ends a line, the first line of the rest is a whole one.
        file.seek(size - most - 1)
        return Part(file.read(most + 1).partition(b"\n")[2], size)


def _opened(path: Path, follow: bool) -> int:
    # O_NONBLOCK: opening a pipe must not wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor
