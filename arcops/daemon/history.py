"""The numbers' past: a tally a second for an hour, a rollup a minute for thirty days, over launches and supervisors.

The last hour is in memory, and all of it is on the disk within seconds. The loop never waits for that disk: a thread
writes, one batch at a time, and what a full or hanging disk does not take stays in memory and is tried again.

A batch ends with a mark, the scrape that its last second ends with. So whoever comes after a SIGKILL goes on counting
where the last batch ended, and what happened in between is in the first tally, not lost and not told twice.
"""

import asyncio
import threading
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from typing import Final

import msgspec
import structlog

from arcops.core.cards.figures import NO_FIGURES, Figures
from arcops.core.metrics import Sample
from arcops.core.rates import Timed
from arcops.core.rollup import Tally, between, merged
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.machine.database import StoreError
from arcops.machine.sample_store import MOST_SECONDS, Batch, Minute, Recalled, SampleStore, Second

WRITE_EVERY: Final = 5.0
"""Seconds between two batches: what a SIGKILL blurs, for the seconds within are told as one."""
DISK_WITHIN: Final = 5.0
"""Seconds that the disk has for a batch before that is trouble."""
BRIEFLY: Final = 2.0
"""The same at start and end, which should not take longer because of this."""
MOST_WAITING: Final = 7 * 24 * 60
"""Minutes that wait in memory for a disk that takes nothing: a week, some 4 MB."""
_FAST: Final = 1
"""zlib's level: a higher one gains little here."""
RESUMED_WITHIN: Final = 3_600.0
"""Seconds: the longest window that rates are shown over."""

_log = structlog.get_logger(__name__)


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A scrape, for a later supervisor of the same boot."""

    boot_id: str
    monotonic: float
    launch_id: str
    sample: Sample


@dataclass(slots=True)
class _Flight:
    """One errand of the thread. What it brings back is looked at once it is over."""

    batch: Batch | None = None
    """What is written; None for opening the file."""
    landed: threading.Event = field(default_factory=threading.Event)
    written: bool = False
    recalled: Recalled | None = None


Resume = Callable[[Sequence[Timed], Sequence[Tally]], None]
"""Hears what an earlier supervisor left: scrapes, of this boot and the last hour; and all tallies by the second."""


class History:
    """Takes in scrapes, writes them down, and knows the last hour. All but the thread's part belongs to the loop."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        boot_id: str,
        open_store: Callable[[str], SampleStore] = SampleStore.open,
    ) -> None:
        self._path = path
        self._clock = clock
        self._boot_id = boot_id
        self._open_store = open_store
        self._aside: Aside[object] = Aside(DISK_WITHIN)
        self._brief: Aside[object] = Aside(BRIEFLY)
        self._store: SampleStore | None = None
        self._flight: _Flight | None = None
        self._was_recalled = False
        self._news: str | None = None
        self._trouble: str | None = None
        self._last: Timed | None = None
        self._seconds: deque[Second] = deque(maxlen=MOST_SECONDS)
        self._unwritten = 0
        self._minutes: deque[Minute] = deque(maxlen=MOST_WAITING)
        self._open: Tally | None = None
        self._open_seconds = 0
        self._open_name = 0
        self._names = count(int(clock.monotonic() * 1e9))
        self._resume: Resume = _nobody

    # -- what the loop sees -------------------------------------------------------------------------------------------
    @property
    def troubles(self) -> tuple[str, ...]:
        """What is not written (yet), in words."""
        return () if self._trouble is None else (self._trouble,)

    @property
    def seconds(self) -> tuple[Second, ...]:
        """The last hour that was seen, as it came."""
        return tuple(self._seconds)

    @property
    def has_every_second(self) -> bool:
        """Nothing older than the oldest second was ever seen, as far as is known."""
        return len(self._seconds) < MOST_SECONDS

    @property
    def waiting(self) -> tuple[Minute, ...]:
        """Minutes that may not be on the disk yet, the one that goes on included."""
        return (*self._minutes, *self._going_on())

    def minutes(self, since: float, until: float, limit: int) -> tuple[Minute, ...]:
        """Minutes that are on the disk. For a thread: it may take as long as the disk does. Raises StoreError."""
        store = self._store
        if store is None:
            raise StoreError("its file is not open (yet)", may_pass=True)
        return store.minutes(since, until, limit)

    def scraped(
        self, timed: Timed, profile: str, phase: str, prefilling: float | None, cards: Figures = NO_FIGURES
    ) -> None:
        """Take in a scrape; `prefilling` is the tokens per second of a prefill that goes on, `cards` the launch's."""
        at = self._clock.to_wall(timed.at)
        tally = between(self._last, timed, at=at, profile=profile, phase=phase, prefilling=prefilling, cards=cards)
        self._last = timed
        self._seconds.append(Second(tally.at, msgspec.msgpack.encode(tally)))
        self._unwritten = min(self._unwritten + 1, len(self._seconds))
        self._roll(tally)

    def _roll(self, tally: Tally) -> None:
        so_far = self._open
        if so_far is not None and (so_far.minute, so_far.launch_id) == (tally.minute, tally.launch_id):
            self._open, self._open_seconds = merged(so_far, tally), self._open_seconds + 1
            return
        self._minutes.extend(self._going_on())
        self._open, self._open_seconds, self._open_name = tally, 1, next(self._names)

    def _going_on(self) -> tuple[Minute, ...]:
        """The minute that goes on, if one does. It has the name that it will be written by."""
        if self._open is None:
            return ()
        return (Minute(self._open.minute, self._open_name, packed(self._open)),)

    # -- the disk -----------------------------------------------------------------------------------------------------
    async def restore(self, resume: Resume) -> None:
        """Open the file, and go on with what is in it; `resume` hears of it, later if the disk takes its time."""
        self._resume = resume
        await self._send_off(self._brief)

    async def run(self, tell: Callable[[str], None]) -> None:
        """Write until cancelled; `tell` hears what became of a file that could not be used."""
        while True:
            await asyncio.sleep(WRITE_EVERY)
            await self.write()
            news, self._news = self._news, None
            if news is not None:
                tell(news)

    async def close(self) -> None:
        """Write what waits, if the disk takes it at once."""
        if self._flight is not None:
            with suppress(TimeoutError):
                await self._brief.run(partial(self._flight.landed.wait, BRIEFLY))
        await self._send_off(self._brief)
        if self._store is not None and self._flight is None:
            with suppress(TimeoutError):
                await self._brief.run(self._store.close)

    async def write(self) -> None:
        """One batch, unless an earlier one is still on its way, or nothing is new. Never raises, never takes long."""
        await self._send_off(self._aside)

    async def _send_off(self, aside: Aside[object]) -> None:
        self._land()
        if self._flight is not None or (self._store is not None and not self._unwritten):
            return
        flight = self._flight = _Flight(None if self._store is None else self._batch())
        try:
            await aside.run(partial(self._fly, flight))
        except TimeoutError as error:
            self._say(f"the disk does not answer ({error})")
        except StoreError as error:
            self._say(error.reason)
        except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor goes on without its history
            self._say(f"{type(error).__name__} {error}")
        self._land()

    def _batch(self) -> Batch:
        new = tuple(islice(self._seconds, len(self._seconds) - self._unwritten, None))
        mark = None
        if self._last is not None:
            last = self._last
            body = msgspec.msgpack.encode(Mark(self._boot_id, last.at, last.launch_id, last.sample))
            mark = zlib.compress(body, _FAST)
        return Batch(new, tuple(self._minutes), mark, self._open_seconds)

    def _fly(self, flight: _Flight) -> None:
        """On the thread: the one place that touches the disk."""
        try:
            if flight.batch is not None and self._store is not None:
                self._store.write(flight.batch)
                flight.written = True
                self._news = self._store.take_news() or self._news
            elif flight.batch is None:
                store = self._open_store(self._path)
                flight.recalled = store.recall()
                self._news = store.take_news()
                self._store = store
        except StoreError as error:
            if not error.may_pass and self._store is not None:
                self._store.close()
                self._store = None
            raise
        finally:
            flight.landed.set()

    def _land(self) -> None:
        """What an errand that is over brought back."""
        flight = self._flight
        if flight is None or not flight.landed.is_set():
            return
        self._flight = None
        if flight.written or flight.recalled is not None:
            self._trouble = None
        if flight.batch is not None and flight.written:
            self._unwritten -= min(len(flight.batch.seconds), self._unwritten)
            for written in flight.batch.minutes:
                if self._minutes and self._minutes[0].name == written.name:
                    self._minutes.popleft()
        if flight.recalled is not None and not self._was_recalled:
            self._was_recalled = True
            self._go_on_with(flight.recalled)

    def _go_on_with(self, recalled: Recalled) -> None:
        self._seconds = deque(chain(recalled.seconds, self._seconds), maxlen=MOST_SECONDS)
        read = [tally_of(second.body) for second in recalled.seconds]
        if recalled.open:
            # Where the disk was late, what came in the meantime is a minute of its own: they meet when they are read.
            meantime, self._open = (self._open, self._open_seconds, self._open_name), None
            for tally in read[-recalled.open :]:
                if tally is not None:
                    self._roll(tally)
            if meantime[0] is not None:
                self._minutes.extendleft(self._going_on())
                self._open, self._open_seconds, self._open_name = meantime
        scrapes = self._scrapes(recalled.marks)
        if scrapes and self._last is None:
            self._last = scrapes[-1]
        self._resume(scrapes, [tally for tally in read if tally is not None])

    def _scrapes(self, marks: Sequence[bytes]) -> list[Timed]:
        """Those of this boot, within the last hour: their clock is ours."""
        now = self._clock.monotonic()
        found: list[Timed] = []
        for body in marks:
            try:
                mark = msgspec.msgpack.decode(zlib.decompress(body), type=Mark)
            except (zlib.error, msgspec.MsgspecError):
                continue
            if mark.boot_id == self._boot_id and now - RESUMED_WITHIN <= mark.monotonic <= now:
                found.append(Timed(mark.monotonic, mark.sample, mark.launch_id))
        return found

    def _say(self, reason: str) -> None:
        trouble = f"the numbers' history cannot be written: {reason}; what is new stays in memory"
        if self._trouble is None:
            _log.warning("trouble", trouble=trouble)
        self._trouble = trouble


def _nobody(_scrapes: Sequence[Timed], _tallies: Sequence[Tally]) -> None:
    """Where nobody asked for what was left."""


def tally_of(body: bytes) -> Tally | None:
    """What was written for a second; None where it makes no sense (any more)."""
    try:
        return msgspec.msgpack.decode(body, type=Tally)
    except msgspec.MsgspecError:
        return None


def packed(tally: Tally) -> bytes:
    """A minute as it is written: there are many of them, and they halve."""
    return zlib.compress(msgspec.msgpack.encode(tally), _FAST)


def unpacked(body: bytes) -> Tally | None:
    """What was written for a minute; None where it makes no sense (any more)."""
    try:
        return tally_of(zlib.decompress(body))
    except zlib.error:
        return None
