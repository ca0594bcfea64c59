"""Looks at the server while its clients are busy: is it the same one, and does it run more than they have open?"""

import asyncio
from collections.abc import Callable
from typing import Final

from arcops.bench.server import BenchServer
from arcops.core.evidence.run import Counters
from arcops.core.evidence.soak import MemoryLook, Settled, Stray

LINGER: Final = 10.0
"""Seconds that a server may take to notice that a client has gone: it hears of it at its next write."""
SETTLE: Final = 30.0
"""Seconds for it to be idle after the last client has gone."""
EVERY: Final = 0.25
MOST_KEPT: Final = 50
MOST_MEMORY: Final = 400
"""Looks at memory; of a longer soak every second one is kept, then every fourth."""


class Watch:
    """What was seen. `open_now` is the number of requests that the clients have open."""

    def __init__(
        self, server: BenchServer, open_now: Callable[[], int], memory: Callable[[], int | None], linger: float = LINGER
    ) -> None:
        self._server = server
        self._open = open_now
        self._memory = memory
        self._linger = linger
        self._started: float | None = None
        self._more_since: float | None = None
        self._most_more = 0
        self._stride = 1
        self.looks = 0
        self.restarts: list[float] = []
        self.strays: list[Stray] = []
        self.memory: list[MemoryLook] = []
        self.last: Counters | None = None

    def begin(self, before: Counters) -> None:
        """The server as it was before the first request."""
        self._started = before.server_started

    async def run(self, every: float) -> None:
        """Look again and again, until cancelled."""
        count = 0
        while True:
            before = self._open()
            seen = await self._server.counters()
            self.take(seen, max(before, self._open()))
            if count % self._stride == 0:
                await self._look_at_memory()
            count += 1
            await asyncio.sleep(every)

    def take(self, seen: Counters, opened: int) -> None:
        """One look, while at most `opened` requests were open."""
        if seen.unread:
            return
        self.looks += 1
        self.last = seen
        if seen.server_started is not None:
            if self._started is not None and seen.server_started != self._started and len(self.restarts) < MOST_KEPT:
                self.restarts.append(seen.at)
            self._started = seen.server_started
        if seen.running is None:
            return
        more = int(seen.running + (seen.waiting or 0.0)) - opened
        if more <= 0:
            self._end_of_stray(seen.at)
            return
        self._more_since = seen.at if self._more_since is None else self._more_since
        self._most_more = max(self._most_more, more)

    def finish(self) -> None:
        """No look comes any more."""
        if self.last is not None:
            self._end_of_stray(self.last.at)

    async def settle(self, within: float = SETTLE) -> tuple[Settled, Counters]:
        """Wait for the server to be idle, once all clients have gone."""
        began = self._server.now()
        while True:
            seen = await self._server.counters()
            waited = self._server.now() - began
            idle = seen.running == 0 and not seen.waiting and not (seen.kv_usage or 0.0) > 0
            if idle or waited >= within:
                return Settled(waited, seen.running, seen.waiting, seen.kv_usage), seen
            await asyncio.sleep(EVERY)

    def _end_of_stray(self, at: float) -> None:
        since, self._more_since = self._more_since, None
        if since is not None and at - since >= self._linger and len(self.strays) < MOST_KEPT:
            self.strays.append(Stray(since, at - since, self._most_more))
        self._most_more = 0

    async def _look_at_memory(self) -> None:
        resident = await asyncio.to_thread(self._memory)
        if resident is None:
            return
        self.memory.append(MemoryLook(self._server.now(), resident))
        if len(self.memory) > MOST_MEMORY:
            self.memory = self.memory[::2]
            self._stride *= 2
