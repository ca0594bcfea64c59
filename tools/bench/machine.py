"""What a process costs: processor time and memory, from /proc."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Averaged over `seconds`."""

    cpu_percent: float
    """Of one core."""
    rss_mb: float
    """Resident at the end, in units of 1,000,000 bytes."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.cpu_percent:.2f} % of a core, {self.rss_mb:.1f} MB"


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far (its threads included, its children not)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cost_over(pids: Sequence[int], seconds: float) -> list[Cost]:
    """The costs of several processes over the same stretch of time."""
    before = [cpu_seconds(pid) for pid in pids]
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return [
        Cost((cpu_seconds(pid) - start) / took * 100, rss_mb(pid), took)
        for pid, start in zip(pids, before, strict=True)
    ]


def timed(work: Callable[[], object]) -> float:
    """Wall seconds that `work` takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
