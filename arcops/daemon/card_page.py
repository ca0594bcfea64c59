"""What is known of one card, and how it is read: on a thread, one reading at a time, and for nobody's wait."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from arcops.cards.look import Sight, lock_holder, measure
from arcops.cards.message import NOBODY_LOOKED
from arcops.core.cards.holders import Census
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Known, Reading, Unknown, value_or_none
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.base import Roots

READ_WITHIN: Final = 3.0
"""Seconds that a card's driver has for a reading: it takes milliseconds."""
NAME_WITHIN: Final = 30.0
"""Seconds for finding who has a card's lock: every process's descriptors are read."""
SHARE: Final = 0.0025
"""Of a core, that sampling a card may cost: one whose reading takes 10 ms (NVML is begun and ended each time) is read
every 4 s."""
STANDS_FOR: Final = 30.0
"""Seconds for which a look at everybody is told in place of a newer one at our backend alone."""

_log = structlog.get_logger(__name__)


class Page:
    """Belongs to the loop. Its threads are given what they need, and bring back what they saw."""

    def __init__(
        self,
        identity: CardIdentity,
        clock: Clock,
        roots: Roots,
        tell: Callable[[CardReading], None] = lambda _reading: None,
    ) -> None:
        """`tell` is told of each reading."""
        self.identity = identity
        self.reading: Reading[CardReading] = NOBODY_LOOKED
        self.looks = 0
        """Readings that came back."""
        self._begun_at = float("-inf")
        self._cost = 0.0
        """Seconds of processor time that the last reading took."""
        self.lock: Reading[str | None] = NOBODY_LOOKED
        """Who has the card's lock, in words."""
        self.everybody: Reading[Census] = NOBODY_LOOKED
        self.own: Reading[Census] = NOBODY_LOOKED
        self._clock = clock
        self._roots = roots
        self._tell = tell
        self._last: CardReading | None = None
        """The last one that succeeded: what rates begin at."""
        self._hangs_since: float | None = None
        """When the attempt began that has not come back."""
        self._task: asyncio.Task[None] | None = None
        self._reading_aside = Aside[Sight](READ_WITHIN, at_once=1)
        self._naming_aside = Aside[str | None](NAME_WITHIN, at_once=1)

    @property
    def address(self) -> str:
        return self.identity.address

    def read_if_due(self) -> None:
        """Begin a reading, unless the last one has cost too much to be made again so soon."""
        if self._clock.monotonic() - self._begun_at >= self._cost / SHARE:
            self.read_again()

    def read_again(self) -> "asyncio.Task[None]":
        """The reading that is under way, or a new one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read())
        return self._task

    async def find_lock_holder(self) -> None:
        """Who has the lock. Whatever goes wrong with that is an absence."""
        at = self._clock.monotonic()
        try:
            self.lock = Known(await self._naming_aside.run(partial(lock_holder, self.address, self._roots)), at)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear that it came to nothing
            self.lock = fault("who has its lock", error, at)

    def census(self, looked: Census | None, now: float) -> Reading[Census]:
        """The newest look at who holds the card, `looked` being another's; one at everybody stands for a while."""
        everybody = self.everybody
        if looked is not None and looked.at > everybody.at:
            everybody = Known(looked, looked.at)
        if isinstance(everybody, Known) and now - everybody.at <= STANDS_FOR:
            return everybody
        return max(everybody, self.own, key=lambda reading: reading.at)

    def close(self) -> None:
        """What was begun tells nobody any more."""
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        at = self._begun_at = self._clock.monotonic()
        look = partial(measure, self.address, self._last, at, self._roots)
        try:
            sight = await self._reading_aside.run(look)
        except TimeoutError:
            self._hangs_since = at if self._hangs_since is None else self._hangs_since
            now = self._clock.monotonic()
            self.reading = Unknown(f"its driver has not come back for {now - self._hangs_since:.0f} s", now)
            return
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with a reading, it is an absence
            sight = Sight(self.identity, fault("it", error, at))
        self._hangs_since = None
        self.looks += 1
        self._cost = sight.cost
        self.identity, self.reading = sight.identity or self.identity, sight.reading
        self._last = value_or_none(sight.reading) or self._last
        if isinstance(sight.reading, Known):
            self._tell(sight.reading.value)


def fault(what: str, error: Exception, at: float) -> Unknown:
    """What went wrong with a look, as an absence; a fault of ours is in the log as well."""
    if isinstance(error, OSError):
        return Unknown(f"{what} cannot be looked at: {error.strerror or error}", at)
    _log.error("a fault of ours", what=what, exc_info=error)
    return Unknown(f"{what} cannot be looked at: {type(error).__name__} {error}", at)
