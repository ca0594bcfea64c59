"""Keeps the past behind the plots up to date: asks the daemon for what is new, and for the hours before only once."""

from collections.abc import AsyncIterator

from arcops import wire
from arcops.client import LiveClient
from arcops.core.errors import ArcopsError, NoDaemonError
from arcops.tui.past import FIRST_SECONDS, MINUTES, SECONDS, Past

SHORT_HISTORY = 3600.0
"""Seconds that a daemon without samples is asked for at first."""
IN_MINUTES_FROM = 3600.0
"""Seconds of a window from which on its plots are made of minutes."""
CLOCK_SET = 5.0
"""Seconds by which a status may be older than the newest second, before the clock is taken to have been set."""

_EVERY = 0.9
"""Seconds from one asking to the next: the daemon looks once a second."""
_EVERY_OF_MINUTES = 10.0


class PastReader:
    """Owns the past. One caller at a time."""

    def __init__(self, client: LiveClient) -> None:
        self._client = client
        self.past = Past()
        self._tells_samples: bool | None = None
        self._has_minutes = False

    def relinked(self) -> None:
        """Perhaps another daemon: what is known stays, for it is of the same instance; what is missing is asked for."""
        self._tells_samples, self._has_minutes = None, False

    async def catch_up(self, status: wire.Status, window: float) -> bool:
        """Ask for what came since; whether the plots look quite different now. Raises ArcopsError."""
        past = self.past
        if past.newest is not None and past.newest > status.at + CLOCK_SET:
            past.forget()
            self._has_minutes = False
        if status.backend is not None:
            past.launched(status.backend.launch_id, status.backend.profile, status.backend.spawned_at)
        newest = past.newest
        in_minutes = window >= IN_MINUTES_FROM
        lacks_minutes = in_minutes and not self._has_minutes and self._tells_samples is not False
        if newest is None or lacks_minutes or status.at - newest >= (_EVERY_OF_MINUTES if in_minutes else _EVERY):
            await self._read_seconds(status.at)
        if lacks_minutes and self._tells_samples:
            await self._read_minutes(status.at)
        return newest is None or lacks_minutes

    async def _read_seconds(self, now: float) -> None:
        newest = self.past.newest
        since = (now - FIRST_SECONDS) // 60 * 60 if newest is None else max(newest, now - SECONDS)
        if self._tells_samples is not False:
            try:
                async for page in self._pages(since, None, 1.0):
                    self.past.take_samples(page.points)
            except NoDaemonError:
                raise
            except ArcopsError:
                if self._tells_samples:
                    raise
                self._tells_samples = False  # an older daemon
            else:
                self._tells_samples = True
                return
        seconds = SHORT_HISTORY if newest is None else max(2.0, min(SHORT_HISTORY, now - newest + 2.0))
        self.past.take((await self._client.history(seconds)).points)

    async def _read_minutes(self, now: float) -> None:
        last = now // 60 * 60
        self.past.take_minutes(
            [point async for page in self._pages(last - MINUTES * 60, last, 60.0) for point in page.points]
        )
        self._has_minutes = True

    async def _pages(self, since: float, until: float | None, step: float) -> AsyncIterator[wire.Samples]:
        at: float | None = since
        while at is not None:
            page = await self._client.samples(at, until, step)
            yield page
            at = page.next if page.next is None or page.next > at else None
