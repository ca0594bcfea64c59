"""Who holds memory of an NVIDIA card, by NVML's word, held against what the kernel knows of the processes.

NVML names every process with a context on the card, of whatever user. Its pids are those of the machine: in a container
they may be nobody's here. And it goes on naming a process that has ended while a child that it had forked keeps the
memory: such a holder is looked for among those who have the card's node open.
"""

import os
from collections.abc import Callable, Collection, Sequence

from arcops.core.cards.attribution import Look, Sighting, census
from arcops.core.cards.holders import Census
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Known, Reading
from arcops.machine import proc
from arcops.machine.gpu import nvml, nvml_measures
from arcops.machine.gpu.base import MACHINE, CardIdentity, Roots
from arcops.machine.gpu.nvml import Library, NvmlError
from arcops.machine.gpu.users import users_of

SLACK = 64 * 1024 * 1024
"""Bytes in use that nobody has to answer for: an idle card of 139 GiB shows none."""


class NvidiaReader:
    """Reads the cards of NVIDIA's own driver."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"nvidia"})

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, in one visit to NVML. Nothing is read of `roots`."""
        del roots
        try:
            with nvml.visit(card.address, self._library) as visited:
                return nvml_measures.reading(card.address, at, visited)
        except NvmlError as error:
            return nvml_measures.reading(card.address, at, error)

    def census(
        self,
        cards: Sequence[CardIdentity],
        at: float,
        ours: Callable[[], frozenset[int]],
        used: Callable[[CardIdentity], Reading[int]],
        among: Collection[int] | None = None,
        roots: Roots = MACHINE,
    ) -> tuple[Census, ...]:
        """See `CensusTaker`. What is in use is asked in the same visit as the names, and not of `used`.

        Memory that is in use on a card while NVML names nobody who uses it counts as one process that cannot be seen.
        """
        del used
        looks = [self._look(card.address, at, among, roots) for card in cards]
        own = ours() | {os.getpid()} if any(seen for _, seen in looks) else frozenset[int]()
        users = users_of({one.pid for _, seen in looks for one in seen}, roots.proc)
        return tuple(census(look, seen, users, own) for look, seen in looks)

    def _look(
        self, address: str, at: float, among: Collection[int] | None, roots: Roots
    ) -> tuple[Look, list[Sighting]]:
        with nvml.visit(address, self._library) as card:
            named, memory, node = card.processes(), card.memory(), f"{roots.dev}/nvidia{card.minor()}"
        seen: list[Sighting] = []
        notes: list[str] = []
        heirs: tuple[int, ...] | None = None
        for one in named:
            pids: tuple[int, ...] = (one.pid,)
            if not _lives(one.pid, roots.proc):
                heirs = _heirs(node, {each.pid for each in named}, roots.proc) if heirs is None else heirs
                pids = heirs or pids
                notes.append(_of_the_ended(address, one.pid, heirs))
            if among is None or not set(pids).isdisjoint(among):
                seen += [Sighting(one.pid, pid, one.used_bytes, one.used_bytes) for pid in pids]
        unseen = not named and memory.used > SLACK
        if unseen:
            notes.append(f"NVML names nobody who uses card {address}: in a container it cannot name those outside")
        return Look(address, at, Known(memory.used, at), int(unseen), among is None, tuple(notes)), seen


def _lives(pid: int, root: str) -> bool:
    stat = proc.stat(pid, root)
    return stat is not None and not stat.ended


def _of_the_ended(address: str, pid: int, heirs: tuple[int, ...]) -> str:
    named = f"NVML names pid {pid} as a user of card {address}, which"
    if not heirs:
        return f"{named} is no process here: it has ended, or is not of this container"
    return f"{named} has ended: pid {', '.join(map(str, heirs))} has the card open from it"


def _heirs(node: str, named: set[int], root: str) -> tuple[int, ...]:
    """Who may keep the memory of a process that has ended: those who have the card open, and are not named.

    Who only reads NVML has the node open as well, but does not map it; where anybody maps it, only those count. Nobody
    is named for having it open where it may be somebody who cannot be looked into.
    """
    open_at: list[int] = []
    mapped: list[int] = []
    hidden = False
    for pid in sorted(proc.pids(root)):
        if pid in named or pid == os.getpid():
            continue
        try:
            if any(target == node for _, target in proc.descriptors(pid, root)):
                open_at.append(pid)
                if any(path == node for _, path in proc.mappings(pid, root)):
                    mapped.append(pid)
        except PermissionError:
            hidden = True
    return tuple(mapped) if mapped or hidden else tuple(open_at)
