"""The log of a launch: followed line by line, read from its end, and old ones removed."""

import os
from pathlib import Path

_PER_CALL = 256 * 1024
"""Bytes read in one call: a backend that floods its log must not hold up the loop."""
_LONGEST_LINE = 64 * 1024
"""Bytes; a longer line is cut here, so that memory stays bounded."""
_BLOCK = 64 * 1024
_LARGEST_TAIL = 1024 * 1024


class LogFollower:
    """Reads what was added to a file since the last call. The file may be missing, be truncated or be replaced."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        self._inode: int | None = None
        self._rest = b""

    def read_new(self) -> list[str]:
        """Complete lines since the last call, at most 256 KiB of them; the rest comes with the next calls.

        Of a progress bar, which redraws its line with carriage returns, only the last state is kept; while it is still
        running each call gives its newest complete one, so that slow loading can be shown.
        """
        try:
            with open(self._path, "rb") as file:
                self._start_over_if_new(os.fstat(file.fileno()))
                file.seek(self._position)
                data = file.read(_PER_CALL)
        except OSError:
            return []
        self._position += len(data)
        *complete, self._rest = (self._rest + data).split(b"\n")
        lines = [_line(raw) for raw in complete]
        running, redraw, self._rest = self._rest.rpartition(b"\r")
        if redraw and not self._rest:
            # What ends with the carriage return may be half of a line end; it is told when the next byte is there.
            self._rest = running.rpartition(b"\r")[2] + redraw
        elif running.strip(b"\r"):
            lines.append(_line(running))
        if len(self._rest) > _LONGEST_LINE:
            lines.append(_line(self._rest))
            self._rest = b""
        return lines

    def read_rest(self) -> list[str]:
        """An incomplete last line, once `read_new` gives nothing more and nobody writes any more."""
        rest, self._rest = self._rest, b""
        return [_line(rest)] if rest else []

    def skip_to_end(self) -> None:
        """Begin with what is added from now on: for one who has read the tail already."""
        try:
            found = os.stat(self._path)
        except OSError:
            return
        self._inode, self._position, self._rest = found.st_ino, found.st_size, b""

    def _start_over_if_new(self, found: os.stat_result) -> None:
        if found.st_ino != self._inode or found.st_size < self._position:
            self._inode, self._position, self._rest = found.st_ino, 0, b""


def tail(path: str, lines: int) -> list[str]:
    """The last lines of a file, at most 1 MiB of them, read from its end; empty when there is no such file."""
    if lines <= 0:
        return []
    try:
        with open(path, "rb") as file:
            at = file.seek(0, os.SEEK_END)
            end = at
            data = b""
            while at > 0 and data.count(b"\n") <= lines and end - at < _LARGEST_TAIL:
                step = min(_BLOCK, at)
                at = file.seek(at - step)
                data = file.read(step) + data
    except OSError:
        return []
    found = data.split(b"\n")
    if not found[-1]:
        found.pop()
    return [_line(raw) for raw in found[-lines:]]


def size(path: str) -> int | None:
    """Bytes in the file, or None when there is none that can be read."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def prune(directory: str, keep: int = 20) -> None:
    """Remove all but the newest `keep` files `*.log` of a directory. One that cannot be removed stays."""
    dated: list[tuple[float, Path]] = []
    for file in Path(directory).glob("*.log"):
        try:
            dated.append((file.stat().st_mtime, file))
        except OSError:
            continue
    for _, file in sorted(dated, reverse=True)[keep:]:
        try:
            file.unlink()
        except OSError:
            continue


def _line(raw: bytes) -> str:
    return raw.rstrip(b"\r").rpartition(b"\r")[2][:_LONGEST_LINE].decode("utf-8", "replace")
