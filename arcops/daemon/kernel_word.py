"""What the kernel has said about a launch, for the diagnosis of its end."""

import asyncio
from collections.abc import Callable

from arcops.core.diagnosis.kernel import KernelLine
from arcops.core.quantity import Reading, Unknown
from arcops.daemon.aside import Aside
from arcops.machine import kernel_log

Lines = Reading[tuple[KernelLine, ...]]

RECENT = 120.0
"""Seconds before the end of a backend from which on the kernel's lines are about it: vLLM's API server outlives its
engine by some seconds, and time-outs of the collective library by a minute."""
_MOST = 2 * kernel_log.JOURNAL_WITHIN


class KernelWord:
    """Read once: /dev/kmsg at once, for it takes milliseconds; journalctl beside the loop, which is woken by it."""

    def __init__(
        self,
        wake: Callable[[], None],
        read: Callable[[float, float], Lines] = kernel_log.read,
        read_journal: Callable[[float, float], Lines] = kernel_log.read_journal,
    ) -> None:
        self._wake = wake
        self._read = read
        self._read_journal = read_journal
        self._lines: Lines | None = None
        self._task: asyncio.Task[None] | None = None

    def since(self, began: float, now: float) -> Lines | None:
        """What it said from `began` to `now` (seconds, monotonic); None while that is being read."""
        if self._lines is None and self._task is None:
            lines = self._read(began, now)
            if isinstance(lines, Unknown):
                self._task = asyncio.get_running_loop().create_task(self._ask_journal(began, now, lines))
            else:
                self._lines = lines
        return self._lines

    async def _ask_journal(self, began: float, now: float, refused: Unknown) -> None:
        try:
            self._lines = await Aside[Lines](_MOST).run(lambda: self._read_journal(began, now))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the diagnosis must not wait for ever
            self._lines = Unknown(f"{refused.reason}; journalctl: {type(error).__name__} {error}", now)
        self._wake()

    def close(self) -> None:
        """Nobody waits for it any more."""
        if self._task is not None:
            self._task.cancel()
