"""A witness of the laws: a thread that looks at /proc again and again, and takes nobody's word for anything.

It knows a launch by its keeper's command line, and whatever descends from a keeper belongs to it for as long as it
lives: a process that escapes into a session of its own, or whose keeper was killed, is not lost from sight.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.02
"""Seconds between two samples."""
LOCK_EVERY = 0.1
"""Seconds between two looks at who holds the lock: each reads descriptors."""
PORT_EVERY = 0.2
"""Seconds between two looks at who listens on the port."""
YOUNG = 2.0
"""Seconds for which a process that is no member is looked at again: it may be about to become one by exec."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a launch; the start time tells it from a later one with the same pid."""

    pid: int
    start: int
    launch: str
    parent: int


class Witness(threading.Thread):
    """Samples until `end`. What it saw against the laws is in `breaches`, in words."""

    def __init__(self, state_dir: Path, runtime_dir: Path, lock: Path, port: int) -> None:
        super().__init__(daemon=True)
        self._signs = tuple(os.fsencode(str(path)) for path in (state_dir, runtime_dir))
        self._lock = lock
        self._port = port
        self._done = threading.Event()
        self._members: dict[int, Member] = {}
        self._others: dict[int, tuple[int, float]] = {}
        """Who is no member: start time, and when it was seen first."""
        self._looked_at_lock = self._looked_at_port = 0.0
        self.supervisors: list[int] = []
        """Pids of the daemons of this rig: they hold the lock too, and are asked first."""
        self.breaches: list[str] = []
        self.samples = 0
        self.most = 0
        """The most launches that were seen to live at one moment."""
        self.foreign_listeners: set[int] = set()
        """Pids, not of a launch, that were seen to listen on the port."""

    # -- what it sees -------------------------------------------------------------------------------------------------
    def launches(self) -> set[str]:
        """The launches of which a process lives at this moment, the keepers included."""
        return {one.launch for one in self.living()}

    def living(self) -> list[Member]:
        """Every living process of a launch, seen afresh."""
        return [one for one in self._look() if _start_of(one.pid) == one.start]

    def run(self) -> None:
        while not self._done.wait(EVERY):
            self.sample()

    def end(self) -> None:
        self._done.set()
        self.join()

    def sample(self) -> None:
        """One look at everything."""
        members = self._look()
        self.samples += 1
        self._count(members)
        now = time.monotonic()
        if members and now - self._looked_at_lock >= LOCK_EVERY:
            self._looked_at_lock = now
            self._see_lock(members)
        if now - self._looked_at_port >= PORT_EVERY:
            self._looked_at_port = now
            self._see_port(members)

    def _count(self, members: list[Member]) -> None:
        launches = {one.launch for one in members}
        if len(launches) > 1:
            # The sample took a while, so they are looked at again: who was there before and is there now, was there
            # when the last of the others was seen.
            launches = {one.launch for one in members if _start_of(one.pid) == one.start}
        self.most = max(self.most, len(launches))
        if len(launches) > 1:
            self.breaches.append(f"two launches lived at one moment: {', '.join(sorted(launches))}")

    def _see_lock(self, members: list[Member]) -> None:
        """A process that lived before and after the look lived while nobody had the lock."""
        likely = [*self.supervisors[-2:], *(one.pid for one in members)]
        if self._is_locked(likely) or self._is_locked(_pids()):
            return
        still = [one for one in members if _start_of(one.pid) == one.start]
        if still:
            pids = ", ".join(str(one.pid) for one in still)
            self.breaches.append(f"nobody held the lock while processes of {still[0].launch} lived: {pids}")

    def _is_locked(self, pids: list[int]) -> bool:
        """Whether one of these has the lock, by the kernel's word in /proc/PID/fdinfo."""
        name = str(self._lock)
        return any(target == name and _locks(pid, number) for pid in pids for number, target in _descriptors(pid))

    def _see_port(self, members: list[Member]) -> None:
        sockets = _listening(self._port)
        if sockets:
            ours = {one.pid for one in members}
            if _holding(sockets, ours)[1] < len(sockets):
                found = _holding(sockets, set(_pids()) - ours)[0]
                # Asked again: a child that was forked meanwhile is no stranger.
                self.foreign_listeners |= found - {one.pid for one in self._look()}

    # -- who belongs to a launch --------------------------------------------------------------------------------------
    def _look(self) -> list[Member]:
        there: dict[int, Member] = {}
        now = time.monotonic()
        pending: list[Member] = []
        for pid in _pids():
            known = self._members.get(pid)
            other = self._others.get(pid)
            if known is None and other is not None and now - other[1] > YOUNG:
                continue
            stat = _stat(pid)
            if stat is None:
                continue
            parent, start = stat
            if known is not None and known.start == start:
                there[pid] = known
                continue
            launch = self._launch_of(pid)
            if launch is not None:
                there[pid] = Member(pid, start, launch, parent)
            else:
                pending.append(Member(pid, start, "", parent))
        self._descend(there, pending, now)
        self._members = there
        return list(there.values())

    def _descend(self, there: dict[int, Member], pending: list[Member], now: float) -> None:
        """Children of members are members; whoever is left over is nobody of ours."""
        found = True
        while found:
            found = False
            for one in [*pending]:
                above = there.get(one.parent)
                if above is not None:
                    there[one.pid] = Member(one.pid, one.start, above.launch, one.parent)
                    pending.remove(one)
                    found = True
        old, self._others = self._others, {}
        for pid, entry in old.items():
            if now - entry[1] > YOUNG and pid not in there:
                self._others[pid] = entry
        for one in pending:
            first = old.get(one.pid)
            self._others[one.pid] = first if first is not None and first[0] == one.start else (one.start, now)
        if len(self._others) > 4096 or self.samples % 500 == 0:
            # A pid that was given to a new process has to be looked at again.
            self._others = {pid: entry for pid, entry in self._others.items() if _start_of(pid) == entry[0]}

    def _launch_of(self, pid: int) -> str | None:
        """The launch whose keeper this is, of this rig; None for any other process."""
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return None
        at = next((number for number, word in enumerate(words) if word.endswith(b"keeper.py")), None)
        if at is None or len(words) <= at + 2 or not words[at + 2].startswith(self._signs):
            return None
        return words[at + 1].decode()


def _stat(pid: int) -> tuple[int, int] | None:
    """Parent and start time of a process that lives; None for one that has ended, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if not fields or fields[0] in ("Z", "X") else (int(fields[1]), int(fields[19]))


def _start_of(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else stat[1]


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """Number and target of each descriptor; one that is closed meanwhile is left out."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for number in numbers:
        with suppress(OSError):
            yield number, os.readlink(f"/proc/{pid}/fd/{number}")


def _locks(pid: int, number: str) -> bool:
    try:
        info = Path(f"/proc/{pid}/fdinfo/{number}").read_text(errors="replace")
    except OSError:
        return False
    return any(line.startswith("lock:") and "FLOCK" in line for line in info.splitlines())


def _listening(port: int) -> set[str]:
    """The inodes of IPv4 sockets that listen on the port."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return {row[9] for row in rows[1:] if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}


def _holding(inodes: set[str], pids: set[int]) -> tuple[set[int], int]:
    """Which of these processes have one of these sockets open, and how many of the sockets they have in all."""
    links = {f"socket:[{inode}]" for inode in inodes}
    holders: set[int] = set()
    held: set[str] = set()
    for pid in pids:
        mine = links & {target for _, target in _descriptors(pid)}
        if mine:
            holders.add(pid)
            held |= mine
    return holders, len(held)
