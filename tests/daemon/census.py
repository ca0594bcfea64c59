"""A witness beside a rig: how many backends live at one moment, and whether their lock is ever free."""

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.daemon.rig import Rig, opens


@dataclass(frozen=True, slots=True)
class Sight:
    """What one pass over /proc showed."""

    servers: frozenset[int]
    """Sessions, one to a backend, with a process whose command line serves, the keeper's own excepted."""
    backend: frozenset[tuple[int, str]]
    """Every process of a backend, the keeper included, by pid and start time."""
    locked: bool
    """Some process has the lock."""


class Census(threading.Thread):
    """Looks again and again, for as long as a test runs."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(daemon=True)
        self._port = str(rig.port).encode()
        self._logs = f"{rig.paths.log_dir}/"
        self._lock = str(rig.paths.cpu_lock)
        self._done = threading.Event()
        self.most = 0
        self.unlocked: str = ""
        """The first time that a process of a backend lived while nobody had the lock, in words."""
        self.looks = 0

    def run(self) -> None:
        suspicious: frozenset[tuple[int, str]] = frozenset()
        while not self._done.wait(0.03):
            sight = self.look()
            self.looks += 1
            self.most = max(self.most, len(sight.servers))
            # A pass takes milliseconds, and descriptors move between parent and child meanwhile: two in a row count.
            free = frozenset[tuple[int, str]]() if sight.locked else sight.backend
            if free & suspicious and not self.unlocked:
                self.unlocked = f"processes {sorted(free & suspicious)} lived while the lock was free"
            suspicious = free

    def look(self) -> Sight:
        """One pass."""
        servers: dict[tuple[int, str], int] = {}
        backend: set[tuple[int, str]] = set()
        locked = False
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            identity = _identity(entry)
            if identity is None:
                continue
            if opens(entry, self._logs):
                backend.add(identity)
            locked = locked or _has_lock(entry, self._lock)
            if self._serves(entry):
                servers[identity] = _session(entry)
        # A pass is no instant: those that still live at its end have lived at one moment.
        alive = {one: session for one, session in servers.items() if _identity(Path(f"/proc/{one[0]}")) == one}
        return Sight(frozenset(alive.values()), frozenset(backend), locked)

    def _serves(self, entry: Path) -> bool:
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"serve" in words and self._port in words and not any(word.endswith(b"keeper.py") for word in words)

    def end(self) -> None:
        self._done.set()
        self.join()


def _session(entry: Path) -> int:
    try:
        return os.getsid(int(entry.name))
    except ProcessLookupError:
        return 0


def _has_lock(entry: Path, path: str) -> bool:
    """Whether a process has a descriptor of the file as it was locked."""
    with suppress(OSError):
        for descriptor in (entry / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(descriptor) == path and "lock:" in (entry / "fdinfo" / descriptor.name).read_text():
                    return True
    return False


def _identity(entry: Path) -> tuple[int, str] | None:
    """Pid and start time of a living process; None for a zombie, or one that has gone."""
    try:
        fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZXx" else (int(entry.name), fields[19])
