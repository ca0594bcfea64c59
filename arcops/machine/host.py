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
