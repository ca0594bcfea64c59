"""A whole /proc from a description: processes, who they are, which cards they have open, and how reading them fails.

The permissions and the races of the real one are played by the calls that a scan makes (`Procfs.calls`): tests run as
root, whom no mode of a file keeps out, and nothing vanishes by itself. The text of an fdinfo follows the order and the
print rule of the kernel's drivers, and is no capture.
"""

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path

from arcops.machine.gpu.scan import Calls

MIB = 1024**2
B70 = "0000:03:00.0"
SECOND = "0000:08:00.0"
NODE = "/dev/dri/renderD128"
_KERNEL_THREAD = 0x00200000


@dataclass(frozen=True, slots=True)
class Client:
    """A client of a card. Sizes in MiB; `said` is the whole text instead, where it is not what a driver prints."""

    number: int
    resident: int = 0
    total: int | None = None
    """As much as is resident where it is None."""
    shared: int = 0
    card: str = B70
    said: str | None = None

    @property
    def fdinfo(self) -> str:
        return self.said if self.said is not None else xe(self)


@dataclass(frozen=True, slots=True)
class Open:
    """A descriptor of a client."""

    client: Client
    number: int = 5
    target: str = NODE


class Fails(Enum):
    """When reading a process fails."""

    NEVER = auto()
    FORBIDDEN = auto()
    """Its descriptors may not be read by this user."""
    GONE_AT_ONCE = auto()
    """It ends between the list of processes and the look at it."""
    GONE_AT_LINKS = auto()
    """It ends while its descriptors are read."""
    GONE_REFUSED = auto()
    """The same, and the kernel says EACCES: so it does to whoever reads a link at that moment."""
    GONE_AT_FDINFO = auto()
    """It ends before its fdinfo is read."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the tree."""

    pid: int
    has: tuple[Open, ...] = ()
    command: str = "python3"
    uid: int = 1000
    cgroup: str = "/user.slice/user-1000.slice/session-1.scope"
    state: str = "S"
    threads: int = 1
    start: int = 100
    kernel_thread: bool = False
    plain: int = 3
    """Other descriptors: files, sockets, pipes in turn."""
    fails: Fails = Fails.NEVER
    forks: "tuple[Process, ...]" = ()
    """Come into being when this one is looked at, after /proc was listed."""


_NOBODY = Process(0)


@dataclass(slots=True)
class Procfs:
    """The tree in a folder."""

    root: Path
    processes: dict[int, Process] = field(default_factory=dict[int, Process])

    @classmethod
    def of(cls, root: Path, processes: Sequence[Process], *, init: bool = True) -> "Procfs":
        """Without `init` it is one that hides the processes of others (hidepid)."""
        found = cls(root)
        if init:
            found.add(Process(1, command="systemd", uid=0, cgroup="/init.scope"))
        for one in processes:
            found.add(one)
        return found

    def add(self, one: Process) -> None:
        self.processes[one.pid] = one
        folder = self.root / str(one.pid)
        for name in ("fd", "fdinfo"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        flags = _KERNEL_THREAD if one.kernel_thread else 0
        (folder / "stat").write_text(
            f"{one.pid} ({one.command}) {one.state} 1 {one.pid} {one.pid} 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0"
            f" {one.threads} 0 {one.start} 0 0\n"
        )
        (folder / "status").write_text(f"Name:\t{one.command}\nUid:\t{one.uid}\t{one.uid}\t{one.uid}\t{one.uid}\n")
        (folder / "cgroup").write_text(f"1:name=systemd:/old\n0::{one.cgroup}\n")
        (folder / "maps").write_text("")
        for index in range(one.plain):
            target = ("/dev/null", f"socket:[{7000 + index}]", "/usr/lib/python3/os.py", f"pipe:[{index}]")[index % 4]
            self._open(folder, 100 + index, target, "pos:\t0\nflags:\t02\n")
        for has in one.has:
            self._open(folder, has.number, has.target, has.client.fdinfo)

    def remove(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))

    def calls(self) -> Calls:
        """What a scan asks the kernel, as this tree answers."""
        return Calls(open=self._enter, readlink=self._follow, info=self._info)

    @staticmethod
    def _open(folder: Path, number: int, target: str, info: str) -> None:
        (folder / "fd" / str(number)).symlink_to(target)
        (folder / "fdinfo" / str(number)).write_text(info)

    def _enter(self, path: str, flags: int, *, dir_fd: int) -> int:
        one = self.processes.get(int(path.partition("/")[0]), _NOBODY)
        for child in one.forks:
            if child.pid not in self.processes:
                self.add(child)
        if one.fails is Fails.FORBIDDEN:
            raise _error(errno.EACCES)
        if one.fails is Fails.GONE_AT_ONCE:
            self.remove(one.pid)
        return os.open(path, flags, dir_fd=dir_fd)

    def _follow(self, number: str, *, dir_fd: int) -> str:
        folder = Path(os.readlink(f"/proc/self/fd/{dir_fd}").removesuffix(" (deleted)"))
        one = self.processes[int(folder.parent.name)]
        if one.fails in (Fails.GONE_AT_LINKS, Fails.GONE_REFUSED) and folder.exists():
            self.remove(one.pid)
        if one.fails is Fails.GONE_REFUSED:
            raise _error(errno.EACCES)
        return os.readlink(number, dir_fd=dir_fd)

    def _info(self, pid: int, number: str, root: str) -> str | None:
        assert root == str(self.root)
        file = self.root / str(pid) / "fdinfo" / number
        if self.processes[pid].fails is Fails.GONE_AT_FDINFO and file.exists():
            self.remove(pid)
        return file.read_text() if file.exists() else None


def xe(client: Client, cycles: Mapping[str, int] | None = None) -> str:
    """What xe prints of a client."""
    total = client.resident if client.total is None else client.total
    lines = [
        "pos:\t0",
        "flags:\t02100002",
        "mnt_id:\t26",
        "ino:\t685",
        "drm-driver:\txe",
        f"drm-client-id:\t{client.number}",
        f"drm-pdev:\t{client.card}",
    ]
    for region in ("system", "gtt", "vram0"):
        here = region == "vram0"
        sizes = {
            "total": total * here,
            "shared": client.shared * here,
            "active": 0,
            "resident": client.resident * here,
            "purgeable": 0,
        }
        lines += [f"drm-{key}-{region}:\t{printed(size * MIB)}" for key, size in sizes.items()]
    lines += [f"drm-cycles-{engine}:\t{count}" for engine, count in (cycles or {"ccs": 0}).items()]
    return "\n".join(lines) + "\n"


def printed(size: int) -> str:
    """The kernel divides by 1024 while even, at most twice."""
    for unit in ("", " KiB"):
        if not size or size % 1024:
            return f"{size}{unit}" if size else "0"
        size //= 1024
    return f"{size} MiB"


def shared_with(one: Process, pid: int, number: int = 9) -> Process:
    """Another process with the same clients: forked, or the descriptors were passed on."""
    return replace(one, pid=pid, forks=(), has=tuple(replace(has, number=number + i) for i, has in enumerate(one.has)))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
