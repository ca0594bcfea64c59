"""What measuring costs the measuring program: how late its event loop is, and its processor time."""

import asyncio
import time
from types import TracebackType
from typing import Final, Self

from arcops.core.evidence.run import ClientLoad
from arcops.core.evidence.soak import bin_of, middle_of

EVERY: Final = 0.01
"""Seconds of the timer."""


class LoopLag:
    """Sets a timer again and again while `async with` lasts, and counts how late the loop came to it.

    The counts are those of a histogram with bins 5 % wide: a list would grow by 360,000 floats an hour. The worst is
    exact. epoll waits whole milliseconds: a loop with something else to do may show up to 1 ms that no arrival of bytes
    has.
    """

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self._worst = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._cpu = 0.0

    async def __aenter__(self) -> Self:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._began, self._cpu = time.perf_counter() - self._began, time.process_time() - self._cpu

    def _set(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + EVERY
        self._timer = loop.call_at(due, self._ring, due)

    def _ring(self, due: float) -> None:
        self.take(asyncio.get_running_loop().time() - due)
        self._set()

    def take(self, late: float) -> None:
        """Count one timer that was so many seconds late."""
        late = max(0.0, late)
        self._worst = max(self._worst, late)
        number = bin_of(late)
        self._bins[number] = self._bins.get(number, 0) + 1

    def load(self) -> ClientLoad:
        """After the end. A stage shorter than the timer has no lag to tell of, and 0 stands for it."""
        return ClientLoad(
            seconds=self._began,
            cpu_seconds=self._cpu,
            lag_p50=self._below(0.5),
            lag_p99=self._below(0.99),
            lag_worst=self._worst,
        )

    def _below(self, share: float) -> float:
        """What that share of the timers was at most as late as, to half a bin; never above the worst."""
        left = share * sum(self._bins.values())
        for number in sorted(self._bins):
            left -= self._bins[number]
            if left <= 0:
                return min(middle_of(number), self._worst)
        return self._worst
