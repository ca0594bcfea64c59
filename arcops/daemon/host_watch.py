"""Watches the host's memory beside the loop while a backend serves, and tells where it runs out unseen."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from arcops.core import host_memory
from arcops.core.host_memory import Leak, Sample
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Reading
from arcops.daemon.act import Actor
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.daemon.observe import requests_of
from arcops.daemon.scraper import Scraper
from arcops.machine import host

READ_WITHIN = 30.0
"""Seconds for /proc/meminfo; it takes a millisecond."""
AT_ONCE = 2
"""Readings under way: one that hangs keeps a thread."""
SETTLED_AFTER = 300.0
"""Seconds of serving that are not judged: the first requests have pools and pinned buffers made, which then stay."""
JUDGED_EVERY = 60.0
"""Seconds between two judgements: they go over a thousand samples."""
WATCHED = frozenset({Phase.SERVING, Phase.SUSPECT})

_log = structlog.get_logger(__name__)

Measure = Callable[[float, Sequence[int], float | None], Sample | None]
"""Reads a sample: at, the backend's pids, its load. Called in a thread; raises OSError."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the loop knows of the backend at the moment."""

    phase: Phase
    launch_id: str | None
    pids: tuple[int, ...]
    requests: Reading[int]
    """Running and waiting."""


@dataclass(slots=True)
class Watched:
    """What is remembered of one launch."""

    launch_id: str
    since: float
    samples: tuple[Sample, ...] = field(default=())
    leak: Leak | None = None
    judged_at: float = float("-inf")
    told: int | None = None
    """Bytes that had grown when it was told last."""


class HostWatch:
    """Samples while it runs; `troubles` says what holds now, `tell` is called with what is news, and the launch."""

    def __init__(
        self,
        clock: Clock,
        look: Callable[[], Seen],
        tell: Callable[[str, str], None],
        measure: Measure | None = None,
        every: float = host_memory.EVERY,
    ) -> None:
        self._clock, self._look, self._tell = clock, look, tell
        self._measure = measure or read
        self._every = every
        self._aside = Aside[Sample | None](READ_WITHIN, at_once=AT_ONCE)
        self._watched: Watched | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, clock: Clock, loop: Loop, actor: Actor, scraper: Scraper, journal: Journal) -> "HostWatch":
        """Of this daemon's backend; the history is told."""

        def look() -> Seen:
            live = actor.live
            launch_id, pids = (None, ()) if live is None else (live.record.launch_id, live.seen)
            return Seen(loop.state.phase, launch_id, pids, requests_of(scraper.sample))

        return cls(clock, look, lambda words, launch_id: journal.event("host", loop.state, words, launch_id))

    @property
    def troubles(self) -> tuple[str, ...]:
        """For the status; empty while nothing is wrong, or nobody could look."""
        watched = self._watched
        return () if watched is None or watched.leak is None else (host_memory.words(watched.leak),)

    def begin(self) -> None:
        """Watch until it is closed."""
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:  # noqa: BLE001 - a fault of ours in it costs a sample, and nothing else
                _log.exception("host memory")
            await asyncio.sleep(self._every)

    async def sample(self) -> None:
        """One more, and what it shows."""
        seen, now = self._look(), self._clock.monotonic()
        watched = self._of(seen, now)
        if watched is None or now - watched.since < SETTLED_AFTER:
            return
        load = float(seen.requests.value) if isinstance(seen.requests, Known) else None
        try:
            new = await self._aside.run(lambda: self._measure(now, seen.pids, load))
        except (OSError, TimeoutError):
            return  # Time without samples is judged by nobody.
        if new is None or self._watched is not watched:
            return
        watched.samples = host_memory.kept(watched.samples, new)
        if now - watched.judged_at >= JUDGED_EVERY:
            watched.judged_at = now
            self._judge(watched)

    def _of(self, seen: Seen, now: float) -> Watched | None:
        """The launch that is watched; a new one begins anew, and while none serves nothing is watched.

        A doubt that passes, or one drain that is called off, is no new launch: its samples lack some, and go on.
        """
        if seen.launch_id is None:
            self._watched = None
        elif self._watched is None or self._watched.launch_id != seen.launch_id:
            self._watched = Watched(seen.launch_id, now) if seen.phase in WATCHED else None
        return self._watched if seen.phase in WATCHED else None

    def _judge(self, watched: Watched) -> None:
        watched.leak = host_memory.judge(watched.samples, held=watched.leak is not None)
        if watched.leak is not None and host_memory.worth_telling(watched.leak, watched.told):
            watched.told = watched.leak.grown
            self._tell(host_memory.words(watched.leak), watched.launch_id)


def read(at: float, pids: Sequence[int], load: float | None) -> Sample | None:
    """The host's memory now. Raises OSError."""
    return host_memory.sample_of(at, host.meminfo(), host.held_elsewhere(), host.resident(pids), load)
