"""After a launch serves: its plan is held against what vLLM says, and what it took is kept for later plans."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from arcops.core.budget.comparison import Comparison
from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.progress import StartProgress
from arcops.core.quantity import Known
from arcops.daemon.act import Actor
from arcops.daemon.aside import Aside
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.daemon.plans import Planned, Plans
from arcops.machine import footprints
from arcops.machine.footprints import Footprint
from arcops.machine.record import LaunchRecord
from arcops.planning import runtime_of

LOOKED_WITHIN: Final = 30.0
"""Seconds for a reading of each card once the launch serves: they are read every two while a backend lives."""
_DISK_WITHIN: Final = 10.0
_GIB: Final = 1024**3

_log = structlog.get_logger(__name__)


class Footprints:
    """Belongs to the loop; what it reads and writes is done on threads."""

    def __init__(self, folder: str, clock: Clock, plans: Plans, journal: Journal, loop: Loop, actor: Actor) -> None:
        self._folder = folder
        self._clock = clock
        self._plans = plans
        self._journal = journal
        self._loop = loop
        self._actor = actor
        self._disk = Aside[Footprint | None](_DISK_WITHIN, at_once=1)
        self._peaks = Peaks()
        self._compared: tuple[str, Comparison] | None = None
        self._task: asyncio.Task[None] | None = None

    def saw(self, reading: CardReading) -> None:
        """One more reading of a card."""
        live = self._actor.live
        if live is not None:
            self._peaks.saw(live.record.launch_id, live.record.spawned_monotonic, reading)

    def comparison(self, launch_id: str) -> Comparison | None:
        """Plan and vLLM's word of this launch; None where one of the two is not known."""
        return self._compared[1] if self._compared is not None and self._compared[0] == launch_id else None

    def served(self, live: LiveBackend) -> None:
        """It serves for the first time: its log has said what it took."""
        self._begin(self._after(live.record, live.progress))

    def begin(self) -> None:
        """Of a backend that an earlier supervisor saw serve, what was found then is read again."""
        live = self._actor.live
        if live is not None and live.record.proven:
            self._begin(self._recall(live.record))

    def close(self) -> None:
        """What was begun tells nobody any more."""
        if self._task is not None:
            self._task.cancel()

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        self.close()
        self._task = asyncio.create_task(work)

    async def _after(self, record: LaunchRecord, progress: StartProgress) -> None:
        now = self._clock.monotonic()
        found = await self._plans.plan(record.launch)
        compared = compared_of(found, progress)
        if compared is not None:
            self._compared = (record.launch_id, compared)
            self._journal.event("plan", self._loop.state, compared.words, record.launch_id)
        peak = await self._peak(record, now)
        await self._keep(record, footprint_of(record, self._clock.wall(), progress, found, compared, peak))

    async def _peak(self, record: LaunchRecord, now: float) -> int | None:
        """Of its cards since it was spawned, once all of them were looked at while it served."""
        if not record.launch.cards:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOKED_WITHIN):
                await self._peaks.looked(record.launch.cards, now)
        return self._peaks.of(record.launch.cards, now)

    async def _keep(self, record: LaunchRecord, footprint: Footprint | None) -> None:
        if footprint is None:
            return

        def keep() -> None:
            footprints.keep(self._folder, record.launch.profile, footprint)

        try:
            await self._disk.run(keep)
        except (OSError, TimeoutError) as error:
            _log.warning("footprint", launch=record.launch_id, problem=str(error))

    async def _recall(self, record: LaunchRecord) -> None:
        launch = record.launch
        read = partial(footprints.last, self._folder, launch.profile, runtime_of(launch.argv))
        with suppress(TimeoutError):
            self._compared = recalled(await self._disk.run(read), record.launch_id)


class Peaks:
    """The most memory that each card had in use, by its readings since a launch was spawned."""

    def __init__(self) -> None:
        self._launch = ""
        self._peaks: dict[str, int] = {}
        self._looked: dict[str, float] = {}
        """When each card was read last."""
        self._news = asyncio.Event()

    def saw(self, launch_id: str, spawned: float, reading: CardReading) -> None:
        """A reading while this launch is there."""
        if launch_id != self._launch:
            self._launch, self._peaks, self._looked = launch_id, {}, {}
        used = reading.reading(Quantity.MEMORY_USED)
        if not isinstance(used, Known) or not 0 <= used.value < 2**62 or reading.at < spawned:
            return
        self._peaks[reading.address] = max(self._peaks.get(reading.address, 0), int(used.value))
        self._looked[reading.address] = reading.at
        self._news.set()

    def of(self, cards: tuple[str, ...], served: float) -> int | None:
        """The peak of the card with most; None unless each was read after `served`: all of it was there then."""
        return max(self._peaks[card] for card in cards) if self._all_looked(cards, served) else None

    async def looked(self, cards: tuple[str, ...], served: float) -> None:
        """Until each was read after `served`."""
        while not self._all_looked(cards, served):
            self._news.clear()
            await self._news.wait()

    def _all_looked(self, cards: tuple[str, ...], served: float) -> bool:
        return all(self._looked.get(card, served) > served for card in cards)


def recalled(found: Footprint | None, launch_id: str) -> tuple[str, Comparison] | None:
    """What was said of this launch when it began to serve; None where the footprint is another's, or has no plan."""
    if found is None or found.launch_id != launch_id or found.planned is None or found.reported is None:
        return None
    return launch_id, Comparison(found.planned, found.reported, found.estimated)


def compared_of(found: Planned | str, progress: StartProgress) -> Comparison | None:
    """None where nothing was planned, or vLLM has said nothing."""
    if isinstance(found, str) or found.plan.tokens is None or progress.kv_cache_tokens is None:
        return None
    return Comparison(found.plan.tokens, progress.kv_cache_tokens, found.estimated)


def footprint_of(
    record: LaunchRecord,
    at: float,
    progress: StartProgress,
    found: Planned | str,
    compared: Comparison | None,
    peak: int | None,
) -> Footprint | None:
    """What is known of what a launch took; None where that is nothing. `at` in seconds since the epoch."""
    planned = None if isinstance(found, str) else found
    pool = None if planned is None else planned.fixed
    if pool is None and progress.kv_cache_gib is not None:
        pool = round(progress.kv_cache_gib * _GIB)
    weights = None if progress.weights_gib is None else round(progress.weights_gib * _GIB)
    if weights is None and pool is None and compared is None:
        return None
    return Footprint(
        runtime=runtime_of(record.launch.argv),
        launch_id=record.launch_id,
        at=at,
        weights=weights,
        pool=pool,
        peak=None if peak is None else _own(peak, record.launch.cards, planned),
        planned=None if compared is None else compared.planned,
        reported=progress.kv_cache_tokens,
        estimated=compared is not None and compared.estimated,
    )


def _own(peak: int, cards: tuple[str, ...], planned: Planned | None) -> int | None:
    """The peak without what others hold, and the driver. Where that is not known it counts: no plan counts it twice."""
    foreign = 0 if planned is None else planned.plan.room.foreign or 0
    if foreign and len(cards) > 1:
        # It is known of one of the cards only, and perhaps not of that with the peak.
        return None
    return peak - foreign if peak > foreign else None
