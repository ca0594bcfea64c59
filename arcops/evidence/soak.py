"""Soaks a server, watched by a witness, and keeps the record."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from arcops import __version__
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.bench.soak.drive import Plan, soak
from arcops.bench.soak.work import mix_of
from arcops.config.paths import Paths
from arcops.evidence import shelf
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.setting import command_line, concealed, is_here
from arcops.evidence.shelf import Stored
from arcops.evidence.target import target_of
from arcops.evidence.witness import Witness
from arcops.machine import port, proc

_SERVES: Final = "serve"
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person wants."""

    plan: Plan
    place: Path
    """A folder, or a file that is not there yet."""
    command: tuple[str, ...] = ()
    url: str | None = None
    """None: the daemon's own backend."""
    model: str | None = None
    api_key_file: Path | None = None
    note: str = ""


async def soaked(asked: Asked, paths: Paths, tell: Progress, ended: asyncio.Event) -> Stored:
    """Do it. Raises ArcopsError where there is nothing to soak; what the server does wrong is in the record."""
    mix_of(asked.plan.mix)
    shelf.prepare(asked.place)
    target = await asyncio.to_thread(target_of, asked.url, asked.api_key_file, paths)
    async with BenchServer(target.url, model=asked.model, api_key=target.api_key) as server:
        facts = await server.open()
        tell(f"soaking {facts.model} at {facts.url} for {asked.plan.seconds:g} s with {asked.plan.clients} clients")
        server.begin()
        began = time.time()
        memory = await asyncio.to_thread(memory_of, facts.url)
        async with Witness(facts, target.socket, server.now) as witness:
            found = await soak(server, asked.plan, tell, ended=ended, memory=memory)
        record = Record(
            arcops_record=FORMAT,
            kind="soak",
            arcops=__version__,
            began=began,
            ended=max(began, time.time()),
            command=concealed(asked.command),
            note=asked.note,
            setting=witness.setting(),
            soak=found,
        )
    return await asyncio.to_thread(shelf.write, asked.place, record)


def memory_of(url: str) -> Callable[[], int | None]:
    """What reads the memory of the server's processes, in bytes; None is unknown (another machine or user, or gone).

    The API server's process and all below it. Pages that they share count once for each: it is a trend that is wanted.
    """
    at = urlsplit(url)
    if not is_here(at.hostname or ""):
        return lambda: None

    def look() -> int | None:
        try:
            listening = {one.pid for one in port.listeners(at.port or 80) if one.listens and one.pid is not None}
            served = [pid for pid in listening if _SERVES in command_line(pid)]
            if not served:
                return None
            return sum(_resident(pid) for pid in proc.below(served[0], tuple(proc.every_stat())) | {served[0]})
        except (OSError, ValueError, IndexError):
            return None

    return look


def _resident(pid: int) -> int:
    """Bytes; 0 for a process that has just gone. Raises OSError and ValueError."""
    try:
        with open(f"{proc.ROOT}/{pid}/statm", encoding="ascii") as file:
            return int(file.read(200).split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
