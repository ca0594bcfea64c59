"""What flows in from the daemon, put together into snapshots. Knows no widget: the screen is one listener among many.

Four tasks on one connection pool: the status stream (which alone decides whether the link is live), the log stream, the
history behind the plots, and the publisher.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

from arcops import wire
from arcops.client import LiveClient
from arcops.core.errors import ArcopsError, NoDaemonError
from arcops.tui.live.on_demand import Live
from arcops.tui.live.past_reader import PastReader
from arcops.tui.snapshot import Link, LogTail, Snapshot
from arcops.words import clean

RETRY_DELAYS = (0.5, 1.0, 2.0, 3.0, 5.0)
"""Seconds between tries to reach the daemon; the last one goes on for ever."""
LOG_LINES = 300
"""Lines of log that are kept: more than the tallest terminal shows."""
LOG_EVERY = 0.5
"""Seconds for which log lines are gathered before they are shown: fifty a second are shown in two steps."""

_TICK_LIVE = 1.25
"""Seconds: a bit longer than from one status to the next, so that nothing ticks while they come."""
_TICK_BROKEN = 1.0
_LOG_RETRY = 1.0


class Feed:
    """The daemon on `socket`, as a series of snapshots."""

    def __init__(
        self,
        socket: Path,
        instance: str,
        *,
        window: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        delays: tuple[float, ...] = RETRY_DELAYS,
    ) -> None:
        self._client = LiveClient(socket)
        self.on_demand = Live(self._client, instance)
        self._socket, self._instance, self._window = socket, instance, window
        self._clock, self._delays = clock, delays
        self._link, self._problem, self._hint = Link.CONNECTING, "", ""
        self._retry_at: float | None = None
        self._status: wire.Status | None = None
        self._received_at = 0.0
        self._reader = PastReader(self._client)
        self._lines: deque[str] = deque(maxlen=LOG_LINES)
        self._log = LogTail()
        self._changed = asyncio.Event()
        self._live = asyncio.Event()
        self._another_window = asyncio.Event()
        self._history_wanted = asyncio.Event()
        self._log_timer: asyncio.TimerHandle | None = None

    async def run(self, post: Callable[[Snapshot], None]) -> None:
        """Give `post` a snapshot whenever something changed, and about once a second in any case; until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._publish(post))
                tasks.create_task(self._follow_status())
                tasks.create_task(self._follow_logs())
                tasks.create_task(self._follow_history())
        finally:
            if self._log_timer is not None:
                self._log_timer.cancel()
            await self._client.close()

    def look_through(self, window: float) -> None:
        """Take the rates over the last `window` seconds from now on."""
        self._window = window
        self._another_window.set()
        self._changed.set()

    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        """Raises ArcopsError if the daemon refuses, or is not there."""
        return await self._client.switch(request)

    async def stop(self, request: wire.StopRequest) -> wire.Accepted:
        """Raises ArcopsError if the daemon refuses, or is not there."""
        return await self._client.stop(request)

    async def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        """Raises ArcopsError if the daemon refuses, or is not there."""
        return await self._client.restart(request)

    def snapshot(self) -> Snapshot:
        """Everything, now."""
        now = self._clock()
        silent = 0.0 if self._status is None else max(0.0, now - self._received_at)
        return Snapshot(
            socket=str(self._socket),
            instance=self._instance,
            window=self._window,
            now=0.0 if self._status is None else self._status.at + silent,
            link=self._link,
            problem=self._problem,
            hint=self._hint,
            retry_in=None if self._retry_at is None else max(0.0, self._retry_at - now),
            status=self._status,
            silent=silent,
            history=self._reader.past.seconds,
            minutes=self._reader.past.minutes,
            marks=self._reader.past.marks,
            log=self._log,
        )

    async def _publish(self, post: Callable[[Snapshot], None]) -> None:
        while True:
            self._changed.clear()
            post(self.snapshot())
            tick = _TICK_LIVE if self._link is Link.LIVE else _TICK_BROKEN
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), tick)

    async def _follow_status(self) -> None:
        failures = 0
        while True:
            self._another_window.clear()
            try:
                whole = await self._or_another_window(self._stream(self._window))
            except ArcopsError as error:
                failures = 0 if self._link is Link.LIVE else failures + 1
                await self._stay_away(error, self._delays[min(failures, len(self._delays) - 1)])
            else:
                if whole:
                    gone = NoDaemonError("the daemon has ended", hint="is it being restarted?")
                    await self._stay_away(gone, self._delays[0])

    async def _stream(self, window: float) -> None:
        async for status in self._client.follow_status(window):
            if self._link is not Link.LIVE:
                self._reader.relinked()
            self._link, self._problem, self._hint, self._retry_at = Link.LIVE, "", "", None
            self._status, self._received_at = status, self._clock()
            self._live.set()
            self._history_wanted.set()
            self._changed.set()

    async def _stay_away(self, error: ArcopsError, delay: float) -> None:
        """Say that the link is broken, and wait."""
        self._link, self._problem, self._hint = Link.BROKEN, clean(error.message), clean(error.hint)
        self._retry_at = self._clock() + delay
        self._live.clear()
        self._changed.set()
        await self._or_another_window(asyncio.sleep(delay))

    async def _or_another_window(self, work: Coroutine[None, None, None]) -> bool:
        """Do `work` until another window is wanted; whether it came to its own end. Raises what `work` raises."""
        task = asyncio.ensure_future(work)
        wanted = asyncio.ensure_future(self._another_window.wait())
        try:
            await asyncio.wait({task, wanted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            whole = task.done()
            task.cancel()
            wanted.cancel()
            await asyncio.gather(task, wanted, return_exceptions=True)
        if whole:
            task.result()
        return whole

    async def _follow_logs(self) -> None:
        while True:
            await self._live.wait()
            anew = True
            problem = ""
            try:
                async for message in self._client.follow_logs(LOG_LINES):
                    if anew:  # the stream begins with what was there before
                        self._lines.clear()
                    self._take_lines(message, anew)
                    anew = False
            except ArcopsError as error:
                problem = clean(error.message)
            self._log = LogTail(self._log.launch_id, self._log.lines, problem)
            await asyncio.sleep(_LOG_RETRY)

    def _take_lines(self, message: wire.LogLines, anew: bool) -> None:
        before = self._log.launch_id
        if not anew and message.launch_id != before:
            self._lines.append(f"──── launch {clean(message.launch_id or 'none')} ────")
        self._lines.extend(clean(line) for line in message.lines[-LOG_LINES:])
        self._log = LogTail(message.launch_id, tuple(self._lines))
        if self._log_timer is None:
            self._log_timer = asyncio.get_running_loop().call_later(LOG_EVERY, self._show_log)

    def _show_log(self) -> None:
        self._log_timer = None
        self._changed.set()

    async def _follow_history(self) -> None:
        """Behind each status, the seconds that came since; they are shown with the next status."""
        while True:
            await self._history_wanted.wait()
            self._history_wanted.clear()
            with suppress(ArcopsError):  # the status stream says what is wrong with the daemon
                if self._status is not None and await self._reader.catch_up(self._status, self._window):
                    self._changed.set()
