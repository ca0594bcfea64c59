"""What a look at the descriptors of every process costs: `python -m tools.bench.scan`, half a minute.

Real processes are asked, because the cost is the kernel's; a planted tree shows what is left for Python to do.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from arcops.machine.gpu.scan import scan

PROCESSES, DESCRIPTORS = 5_000, 50_000
"""What the budget is about."""
BUDGET = 0.150
"""Seconds of processor time on one core."""
TURNS = 9
_CROWD = (
    "import os, sys\n"
    "held, go = os.pipe()\n"
    "for _ in range(int(sys.argv[1])):\n"
    "    if not os.fork():\n"
    "        os.close(go)\n"
    "        for _ in range(int(sys.argv[2]) - 4): os.open('/dev/null', os.O_RDONLY)\n"
    "        os.write(1, b'.')\n"
    "        os.read(held, 1)\n"
    "        os._exit(0)\n"
    "sys.stdin.read()\n"
)
"""Processes with as many descriptors each, that end with their parent."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time for PROCESSES with DESCRIPTORS."""

    first: float
    """The first look, for which the kernel has to make its entries."""
    again: float
    """The median of those after it."""
    plain: float
    """The median of the plain way: each folder listed, each link followed by its path."""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        return (
            f"a look at {DESCRIPTORS:,} descriptors of {PROCESSES:,} processes",
            f"{self.again * 1000:.0f} ms of processor time (the first one {self.first * 1000:.0f} ms)",
            f"listing and following each by its path: {self.plain * 1000:.0f} ms; {self.again / self.plain:.2f} of it",
            f"{BUDGET * 1000:.0f} ms",
        )


def main() -> None:
    """Prints both rows."""
    for name, spent in (("", measure_scan()), ("; a planted tree", measure_planted())):
        what, *others = spent.cells
        sys.stdout.write(f"| {' | '.join([what + name, *others])} |\n")


def measure_scan(processes: int = 1_000) -> Spent:
    """With that many real processes beside those of the machine, each with ten descriptors; the rest is proportion."""
    with _crowd(processes, DESCRIPTORS // PROCESSES):
        return _measure("/proc")


def measure_planted(processes: int = 1_000) -> Spent:
    """The same in a tree of links, in memory where that can be had."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for pid in range(1, processes + 1):
            fd = Path(folder, str(pid), "fd")
            fd.mkdir(parents=True)
            for number in range(DESCRIPTORS // PROCESSES):
                (fd / str(number)).symlink_to("/dev/null" if number % 2 else f"socket:[{number}]")
        return _measure(folder)


def plainly(root: str) -> int:
    """How many descriptors there are, found the plain way."""
    count = 0
    for pid in os.listdir(root):
        if pid.isdigit():
            try:
                for number in os.listdir(f"{root}/{pid}/fd"):
                    os.readlink(f"{root}/{pid}/fd/{number}").startswith("/dev/dri/")
                    count += 1
            except OSError:
                continue
    return count


def _measure(root: str) -> Spent:
    first = _cost(lambda: scan(root))
    scale = DESCRIPTORS / plainly(root)
    again: list[float] = []
    plain: list[float] = []
    for _ in range(TURNS):
        again.append(_cost(lambda: scan(root)))
        plain.append(_cost(lambda: plainly(root)))
    return Spent(first * scale, sorted(again)[TURNS // 2] * scale, sorted(plain)[TURNS // 2] * scale)


def _cost(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@contextmanager
def _crowd(processes: int, descriptors: int) -> Generator[None]:
    command = [sys.executable, "-I", "-S", "-c", _CROWD, str(processes), str(descriptors)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        ready = len(parent.stdout.read(processes))
        if ready < processes:
            raise SystemExit(f"only {ready} of {processes} processes could be started")
        yield


if __name__ == "__main__":
    main()
