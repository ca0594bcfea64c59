"""One pass over /proc that finds the descriptors of DRM devices, of every process or of some.

What it costs is the kernel's: some 2 us to read where a descriptor leads, 5 us to enter a process (docs/benchmarks.md).
So there is one such call a descriptor and nothing else: names are looked up below a folder that is open; how many
descriptors there are is asked of the folder (Linux 6.2), which spares listing it where their numbers have no gaps; and
what a descriptor is, is told by where it leads. Its fdinfo is read only where that may be a DRM device.
"""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import cast

from arcops.machine import proc

ROUNDS = 5
"""Times that /proc is looked at again for processes that have come meanwhile; each round is far shorter than the one
before."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NUMBERS = tuple(map(str, range(1024)))
_PLAIN = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "fuse", "kmsg")
)
_PLAIN_BELOW = ("/dev/pts/", "/dev/shm/", "/dev/input/", "/dev/snd/", "/dev/nvidia", "/dev/net/")  # noqa: S108 - nothing is made there

_READLINK = cast("Callable[..., str]", os.readlink)
"""Of names, it gives names."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The kernel's calls that a scan makes; others in a test."""

    open: Callable[..., int] = os.open
    listdir: Callable[[int], list[str]] = os.listdir
    readlink: Callable[..., str] = _READLINK
    info: Callable[[int, str, str], str | None] = proc.descriptor_info


KERNEL = Calls()


@dataclass(frozen=True, slots=True)
class Found:
    """A descriptor that leads to what may be a DRM device, with the text of its fdinfo: that says whether it is one."""

    pid: int
    number: str
    info: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass saw."""

    found: tuple[Found, ...]
    unreadable: int
    """Living processes that may not be looked into, or could not be reached: they might have one, too."""
    hidden: bool = False
    """/proc shows this user no processes of others (hidepid): `unreadable` counts one for all of them."""


@dataclass(slots=True)
class _Pass:
    """One pass under way."""

    root: str
    calls: Calls
    folder: int
    """/proc, open."""
    sized: bool
    """The size of a folder of descriptors says how many there are."""
    found: list[Found] = field(default_factory=list[Found])
    unreadable: int = 0


def scan(root: str = proc.ROOT, among: Collection[int] | None = None, calls: Calls = KERNEL) -> Scan:
    """The descriptors of DRM devices; `among` are the only processes that are looked at, all of them without it.

    Processes that vanish meanwhile are left out. Those that come meanwhile are looked at as well: one that was forked
    may be all that is left of its parent. Kernel threads and zombies have no descriptors, and are not counted as
    unreadable. Raises OSError when /proc cannot be read, or this process lacks descriptors or memory to do so.
    """
    folder = os.open(root, _FOLDER)
    try:
        one = _Pass(root, calls, folder, _sized(root))
        if among is not None:
            _look_at(one, map(str, sorted(among)))
            return Scan(tuple(one.found), one.unreadable)
        names = _processes(one)
        hidden = "1" not in names
        seen: set[str] = set()
        new = names
        for _ in range(ROUNDS):
            _look_at(one, new)
            seen.update(new)
            new = [name for name in _processes(one) if name not in seen]
            if not new:
                break
        return Scan(tuple(one.found), one.unreadable + len(new) + hidden, hidden)
    finally:
        os.close(folder)


def may_be_drm(target: str) -> bool:
    """Whether a descriptor that leads there may be a DRM device: a node below /dev, or anything that is named like one.

    The kernel writes the path that the process opened, as that process sees it: a container may have the node under
    another name. What leads to a file elsewhere is not looked at any closer: following it could hang on a dead mount.
    """
    if target[:1] != "/":
        return False
    if target[:5] == "/dev/":
        return target not in _PLAIN and not target.startswith(_PLAIN_BELOW)
    return "/renderD" in target or "/card" in target or "/dri/" in target


def _processes(one: _Pass) -> list[str]:
    """In the kernel's order, which is that of their making: their neighbours are in the processor's cache already."""
    return [name for name in one.calls.listdir(one.folder) if name.isdigit()]


def _look_at(one: _Pass, pids: Iterable[str]) -> None:
    enter, above, sized, calls = one.calls.open, one.folder, one.sized, one.calls
    for pid in pids:
        try:
            folder = enter(f"{pid}/fd", _FOLDER, dir_fd=above)
        except OSError as error:
            _excused(one, int(pid), error)
            continue
        try:
            for number in _nodes(folder, sized, calls):
                info = calls.info(int(pid), number, one.root)
                if info:
                    one.found.append(Found(int(pid), number, info))
        except OSError as error:
            _excused(one, int(pid), error)
        finally:
            os.close(folder)


def _nodes(folder: int, sized: bool, calls: Calls) -> list[str]:
    """The descriptors that may be DRM devices. Raises OSError when the process has gone, or may not be looked into.

    Nothing but a comparison or two stands between one call and the next: fifty thousand of them are the scan.
    """
    nodes: list[str] = []
    readlink, plain = calls.readlink, _PLAIN
    done = 0
    if sized:
        count = os.fstat(folder).st_size
        number = "0"
        try:
            for number in _NUMBERS[:count]:
                target = readlink(number, dir_fd=folder)
                if target[:1] == "/" and target not in plain and may_be_drm(target):
                    nodes.append(number)
        except FileNotFoundError:
            done = int(number)
        else:
            if count <= len(_NUMBERS):
                return nodes
            done = len(_NUMBERS)
    for number in calls.listdir(folder):
        if done and int(number) < done:
            continue
        try:
            target = readlink(number, dir_fd=folder)
        except FileNotFoundError:
            continue
        if target[:1] == "/" and target not in plain and may_be_drm(target):
            nodes.append(number)
    return nodes


def _excused(one: _Pass, pid: int, error: OSError) -> None:
    """What an error says of a process: it has gone, or may not be looked into. Raises what says nothing of it."""
    if error.errno in proc.OWN_LACK:
        raise error
    if isinstance(error, (FileNotFoundError, ProcessLookupError)):
        return
    # The kernel refuses to read a link of a process that ends at this moment with EACCES as well.
    process = proc.stat(pid, one.root)
    one.unreadable += process is not None and not process.ended and not process.kernel_thread


def _sized(root: str) -> bool:
    """Whether this /proc says how many descriptors a process has; an older one, or a planted one, does not."""
    try:
        folder = os.open(f"{root}/self/fd", _FOLDER)
    except OSError:
        return False
    try:
        before = os.fstat(folder).st_size
        another = os.dup(folder)
        try:
            return os.fstat(folder).st_size == before + 1
        finally:
            os.close(another)
    finally:
        os.close(folder)
