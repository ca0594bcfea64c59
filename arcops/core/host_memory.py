"""Does the host's memory run out by what no process shows? Level Zero pins memory that is in nobody's RSS or cgroup.

Seen on a B70 (intel/llvm issue 22986): it grows until the kernel kills whatever is largest, which is not what has it.
So the judgement goes by what is left when everything that somebody answers for is taken off the total: free memory,
page cache, the processes' own pages (AnonPages, and Shmem within Cached: what every RSS and every cgroup is made of),
the kernel's slabs, stacks and page tables. Pages that a driver has taken for itself are the rest. What another program
allocates, what the page cache takes and what a higher load costs a process all move within the named parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

EVERY: Final = 10.0
"""Seconds between two samples."""
WINDOWS: Final = (1800.0, 7200.0, 43200.0)
"""Seconds over which a growth is looked for. Half an hour shows what fills a machine within a day, half a day what does
so within weeks; a shorter time would be a warm-up's."""
BLOCKS: Final = 36
"""Blocks of a window, each its samples' median: a peak of some seconds is in none."""
PARTS: Final = 6
"""Parts of a window that are compared, of `BLOCKS / PARTS` blocks each."""
LEAST: Final = 256 * 1024**2
"""Bytes: below it a growth over a window is what drivers and allocators do anyway (pools, firmware, sockets)."""
LEAST_SHARE: Final = 0.01
"""The same, as a share of all memory: on a large machine so does more of it."""
LATEST: Final = 12
"""Samples that tell how it stands now: two minutes of them."""
RISING_PARTS: Final = PARTS - 2
"""Of the steps from part to part so many must rise: a load that changed makes one or two of them, and then no more."""
LARGEST_STEP: Final = 0.7
"""Of the whole rise two steps that follow one another may be so much (of a straight line they are two fifths): more is
one large allocation, which may lie astride two parts, and not a slope."""
EXPLAINS: Final = 0.5
"""What can be had must fall by this share of the growth at least: else something was only counted elsewhere."""
LOAD_RISES: Final = 0.2
"""A load that rises all the while by more than this is not constant: pinned buffers may well grow with it."""

_NAMED: Final = (
    "MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "KReclaimable", "SUnreclaim", "KernelStack",
    "PageTables", "SecPageTables", "Percpu", "Hugetlb", "VmallocUsed", "Zswap", "Bounce", "WritebackTmp", "Balloon",
)  # fmt: skip
"""What proc_meminfo(5) names, none within another. GPUActive is left out on purpose: it is a driver's."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The host's memory at one time (seconds, monotonic). Bytes."""

    at: float
    total: int
    available: int
    """MemAvailable: free, and what the kernel would give up at once."""
    swap_free: int
    unnamed: int
    """In use, and in none of the parts that somebody answers for."""
    backend: int | None
    """Resident memory of the backend's processes; None where it could not be read."""
    load: float | None
    """Requests running and waiting; None where vLLM does not say."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Memory that nobody shows grows steadily. Bytes."""

    per_hour: float
    grown: int
    """Since the first sample."""
    over: float
    """Seconds from the first sample on."""
    available: int
    exhausted_in: float
    """Seconds until nothing is available, at this pace."""
    backend: int | None
    """What the backend's own processes show more than at the first sample."""


def sample_of(
    at: float, meminfo: Mapping[str, int], elsewhere: int, backend: int | None, load: float | None
) -> Sample | None:
    """Of /proc/meminfo in bytes, and `elsewhere`, what is known to be held that it does not name (ARC, zram).

    None where it lacks what it takes: MemTotal, MemFree, MemAvailable.
    """
    total, available = meminfo.get("MemTotal"), meminfo.get("MemAvailable")
    if total is None or available is None or "MemFree" not in meminfo:
        return None
    named = sum(meminfo.get(name, 0) for name in _NAMED)
    if "KReclaimable" not in meminfo:  # before Linux 4.20
        named += meminfo.get("SReclaimable", 0)
    unnamed = max(0, total - named - elsewhere)
    return Sample(at, total, available, meminfo.get("SwapFree", 0), unnamed, backend, load)


def kept(samples: Sequence[Sample], new: Sample) -> tuple[Sample, ...]:
    """The samples with one more: all of the shortest window, one a minute of the time before, none beyond the longest.

    One that is not newer than the last tells that the clock went back: everything before it is dropped.
    """
    if samples and new.at <= samples[-1].at:
        return (new,)
    thin: list[Sample] = []
    for one in samples:
        age = new.at - one.at
        if age > WINDOWS[-1] + EVERY:
            continue
        if age > WINDOWS[0] + 60.0 and thin and one.at // 60 == thin[-1].at // 60:
            continue
        thin.append(one)
    return (*thin, new)


def judge(samples: Sequence[Sample], *, held: bool = False) -> Leak | None:
    """A steady growth of what nobody shows, in the shortest window that has one; None where there is none.

    `held`: there was one at the last look. Then half the growth will do, so that a warning does not come and go.
    """
    for window in WINDOWS:
        blocks = _blocks(samples, window)
        now = [one.unnamed for one in samples[-LATEST:]]
        slope = None if blocks is None else _slope_of_leak(blocks, window, median(now), held)
        if slope is not None:
            return _leak(samples, slope)
    return None


def worth_telling(leak: Leak, told: int | None) -> bool:
    """It was not told of this launch yet, or has doubled since (`told`: what had grown then)."""
    return told is None or leak.grown >= 2 * max(told, 1)


def words(leak: Leak) -> str:
    """For the history and for `trouble`, with what to do."""
    own = ""
    if leak.backend is not None:
        own = f", while the backend's own processes show {_mib(leak.backend):+,.0f} MiB"
    return (
        f"host memory that no process shows grows by {_mib(leak.per_hour):,.0f} MiB an hour"
        f" ({_mib(leak.grown):,.0f} MiB in {leak.over / 3600:.1f} h{own}): a driver pins it; at this pace the"
        f" {_mib(leak.available):,.0f} MiB that are available last {_span(leak.exhausted_in)};"
        " a planned restart gives it back: `arcops restart`"
    )


def _leak(samples: Sequence[Sample], slope: float) -> Leak:
    first, last = _ends(samples)
    return Leak(
        per_hour=slope * 3600,
        grown=max(0, _typical(one.unnamed for one in last) - _typical(one.unnamed for one in first)),
        over=samples[-1].at - samples[0].at,
        available=samples[-1].available,
        exhausted_in=samples[-1].available / slope,
        backend=_more(first, last),
    )


def _ends(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The first and the last minutes of them."""
    begun, end = samples[0].at + 300.0, samples[-1].at - 300.0
    return [one for one in samples if one.at <= begun], [one for one in samples if one.at >= end]


def _more(first: Sequence[Sample], last: Sequence[Sample]) -> int | None:
    before = [one.backend for one in first if one.backend is not None]
    after = [one.backend for one in last if one.backend is not None]
    return _typical(after) - _typical(before) if before and after else None


def _typical(values: Iterable[int]) -> int:
    return int(median(values))


def _blocks(samples: Sequence[Sample], window: float) -> list[list[Sample]] | None:
    """The samples of the newest window in its blocks, oldest first; None where a block has none."""
    if not samples:
        return None
    began = samples[-1].at - window
    blocks: list[list[Sample]] = [[] for _ in range(BLOCKS)]
    for one in samples:
        if one.at > began:
            blocks[min(BLOCKS - 1, int((one.at - began) * BLOCKS / window))].append(one)
    return blocks if all(blocks) else None


def _slope_of_leak(blocks: Sequence[Sequence[Sample]], window: float, now: float, held: bool) -> float | None:
    """Bytes a second by which what nobody shows grows; None where it does not grow steadily, or enough.

    `now` is what it amounts to at last: of a long window the newest block is old.
    """
    unnamed = [median(one.unnamed for one in block) for block in blocks]
    spare = [median(one.available + one.swap_free for one in block) for block in blocks]
    step = window / BLOCKS
    slope = theil_sen(unnamed) / step
    grown = slope * window
    least = max(LEAST, LEAST_SHARE * blocks[-1][-1].total)
    if grown < (least / 2 if held else least) or not _steady(unnamed, grown, now):
        return None
    if -theil_sen(spare) / step * window < EXPLAINS * grown:
        return None
    return None if _load_rises(blocks) else slope


def _steady(values: Sequence[float], grown: float, now: float) -> bool:
    """It rises from part to part, and gives nothing back: no single step, and no sawtooth."""
    parts = _parts(values)
    share = grown / PARTS
    steps = [after - before for before, after in pairwise(parts)]
    rising = sum(step > share / 4 for step in steps)
    given_back = max(parts) - now > share / 2
    largest = max(one + next_one for one, next_one in pairwise(steps))
    return rising >= RISING_PARTS and largest <= LARGEST_STEP * (parts[-1] - parts[0]) and not given_back


def _load_rises(blocks: Sequence[Sequence[Sample]]) -> bool:
    """The load has grown all the while. An unknown load is no excuse: the memory is gone whoever asked for it."""
    known = [[one.load for one in block if one.load is not None] for block in blocks]
    if not all(known):
        return False
    parts = _parts([sum(loads) / len(loads) for loads in known])
    rising = sum(after > before for before, after in pairwise(parts))
    return rising >= RISING_PARTS and parts[-1] - parts[0] > max(1.0, LOAD_RISES * parts[0])


def _parts(values: Sequence[float]) -> list[float]:
    size = BLOCKS // PARTS
    return [median(values[start : start + size]) for start in range(0, BLOCKS, size)]


def theil_sen(values: Sequence[float]) -> float:
    """The median of the slopes between any two of the values, a step apart: up to 29 % of them may be anything.

    Source: Sen 1968, "Estimates of the regression coefficient based on Kendall's tau". 0 for fewer than two.
    """
    count = len(values)
    slopes = [(values[j] - values[i]) / (j - i) for i in range(count) for j in range(i + 1, count)]
    return median(slopes) if slopes else 0.0


def _mib(count: float) -> float:
    return count / 1024**2


def _span(seconds: float) -> str:
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"
