"""What measuring costs the measuring program: how late its event loop is, and its processor time."""

import asyncio
import time
from types import TracebackType
from typing import Final, Self

from arcops.core.evidence.run import ClientLoad
from arcops.core.evidence.statistics import percentile

EVERY: Final = 0.01
"""Seconds of the timer."""


class LoopLag:
    """Sets a timer again and again while `async with` lasts, and notes how late the loop came to it.

    epoll waits whole milliseconds: a loop with something else to do may show up to 1 ms that no arrival of bytes has.
    """

    def __init__(self) -> None:
        self._late: list[float] = []
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
        self._late.append(max(0.0, asyncio.get_running_loop().time() - due))
        self._set()

    def load(self) -> ClientLoad:
        """After the end. A stage shorter than the timer has no lag to tell of, and 0 stands for it."""
        late = sorted(self._late)
        return ClientLoad(
            seconds=self._began,
            cpu_seconds=self._cpu,
            lag_p50=percentile(late, 50) or 0.0,
            lag_p99=percentile(late, 99) or 0.0,
            lag_worst=late[-1] if late else 0.0,
        )
