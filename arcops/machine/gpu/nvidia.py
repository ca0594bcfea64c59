"""Who holds memory of an NVIDIA card, by NVML's word, held against what the kernel knows of the processes.

NVML names every process with a context on the card, of whatever user. Its pids are those of the machine: in a container
they may be nobody's here. And it goes on naming a process that has ended while a child that it had forked keeps the
memory: such a holder is looked for among those who have the card's node open.
"""

import os
from collections.abc import Sequence

from arcops.machine import proc
from arcops.machine.gpu import nvml
from arcops.machine.gpu.base import Client
from arcops.machine.gpu.nvml import GpuProcess, Library

SLACK = 64 * 1024 * 1024
"""Bytes in use that nobody has to answer for: an idle card of 139 GiB shows none."""


class NvidiaReader:
    """Reads the cards of NVIDIA's own driver."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"nvidia"})

    def holders(
        self, addresses: Sequence[str], root_proc: str = proc.ROOT, root_dev: str = "/dev"
    ) -> tuple[tuple[Client, ...], int]:
        """Clients with memory on these cards, and how much of the picture is missing (see `CardReader`).

        Memory that is in use on a card while NVML names nobody who uses it counts as one process that cannot be seen.
        """
        clients: list[Client] = []
        unseen = 0
        for address in addresses:
            with nvml.visit(address, self._library) as card:
                named, memory, node = card.processes(), card.memory(), f"{root_dev}/nvidia{card.minor()}"
            names = {one.pid for one in named}
            clients.extend(_client(address, one, names, node, root_proc) for one in named)
            unseen += not named and memory.used > SLACK
        return tuple(clients), unseen


def _client(address: str, one: GpuProcess, named: set[int], node: str, root: str) -> Client:
    stat = proc.stat(one.pid, root)
    pids = (one.pid,) if stat is not None and not stat.ended else (_heirs(node, named, root) or (one.pid,))
    return Client(pdev=address, client_id=one.pid, pids=pids, resident_bytes=one.used_bytes, total_bytes=one.used_bytes)


def _heirs(node: str, named: set[int], root: str) -> tuple[int, ...]:
    """Who may keep the memory of a process that has ended: those who have the card open, and are not named.

    Who only reads NVML has the node open as well, but does not map it; where anybody maps it, only those count.
    """
    open_at: list[int] = []
    mapped: list[int] = []
    for pid in sorted(proc.pids(root)):
        if pid in named or pid == os.getpid():
            continue
        try:
            if any(target == node for _, target in proc.descriptors(pid, root)):
                open_at.append(pid)
                if any(path == node for _, path in proc.mappings(pid, root)):
                    mapped.append(pid)
        except PermissionError:
            continue
    return tuple(mapped or open_at)
