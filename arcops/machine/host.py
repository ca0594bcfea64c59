"""What this machine is, in the words of its own files and programs. Functions raise OSError where it cannot say."""

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_OUTPUT = 64 * 1024
"""Bytes that are kept of what a program says."""
_GPU_NODES = ("/dev/dri", "/dev/dri/by-path", "/dev/accel")
_NVIDIA = "nvidia"


@dataclass(frozen=True, slots=True)
class Said:
    """What a program said, and how it ended."""

    code: int | None
    """Exit code; None when its time was up."""
    text: str


def ask(argv: Sequence[str], *, env: Mapping[str, str], timeout: float) -> Said:
    """Run a program that answers and ends, its stdout and stderr together; it and its children are killed when its
    time (seconds) is up. Raises OSError when it cannot be started."""
    # A file, not a pipe: what the program leaves behind would hold a pipe open for ever.
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            list(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        return Said(code, out.read(_MOST_OUTPUT).decode("utf-8", "replace"))


def disk(paths: Sequence[Path]) -> str:
    """Free and total bytes where each path is, or would be."""
    lines: list[str] = []
    for path in paths:
        there = next(one for one in (path, *path.parents) if one.exists())
        usage = shutil.disk_usage(there)
        lines.append(f"{path}: {usage.free} of {usage.total} bytes free, {_inodes(there)} files more")
    return "\n".join(lines)


def _inodes(path: Path) -> int:
    return os.statvfs(path).f_favail


def gpu_nodes() -> str:
    """The device nodes of graphics cards: mode, owner and group of each, as numbers."""
    lines = [_node(Path(folder) / name) for folder in _GPU_NODES for name in _names(folder)]
    lines += [_node(Path("/dev") / name) for name in _names("/dev") if name.startswith(_NVIDIA)]
    return "\n".join(lines) or "there are none"


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _node(path: Path) -> str:
    try:
        found = path.lstat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    link = f" -> {os.readlink(path)}" if stat.S_ISLNK(found.st_mode) else ""
    allowed = "usable" if os.access(path, os.R_OK | os.W_OK) else "not usable by this user"
    return f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid} {path}{link} ({allowed})"


def meminfo(root: str = "/proc") -> dict[str, int]:
    """/proc/meminfo in bytes, by its names; lines that have another form are left out. Raises OSError."""
    found: dict[str, int] = {}
    with open(f"{root}/meminfo", "rb") as file:
        text = file.read(_MOST_OUTPUT).decode("ascii", "replace")
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) == 2 and fields[1] == "kB" and fields[0].isdecimal():
            found[name] = int(fields[0]) * 1024
    return found


def held_elsewhere(proc: str = "/proc", sys: str = "/sys") -> int:
    """Bytes that meminfo has no name for, and whose holder says how much: ZFS' cache, and swap compressed in memory.

    Sources: arcstats `size`; zram's mm_stat, third field (mem_used_total). 0 where neither is there.
    """
    held = 0
    for line in _text(f"{proc}/spl/kstat/zfs/arcstats").splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[0] == "size" and fields[2].isdecimal():
            held += int(fields[2])
    for name in _names(f"{sys}/block"):
        fields = _text(f"{sys}/block/{name}/mm_stat").split() if name.startswith("zram") else []
        if len(fields) > 2 and fields[2].isdecimal():
            held += int(fields[2])
    return held


def resident(pids: Sequence[int], root: str = "/proc") -> int | None:
    """Bytes that these processes have in memory, what they share counted for each; None where none could be read."""
    pages: list[int] = []
    for pid in pids:
        fields = _text(f"{root}/{pid}/statm").split()
        if len(fields) > 1 and fields[1].isdecimal():
            pages.append(int(fields[1]))
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None


def _text(path: str) -> str:
    """A small file of the kernel's; empty where it is not there, or may not be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_OUTPUT).decode("ascii", "replace")
    except OSError:
        return ""
