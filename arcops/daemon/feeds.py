"""What goes on, as server-sent events: statuses, the history, logs. No queue anywhere: a slow reader only misses.

A slow or stopped reader holds up its own stream alone (the send waits for its socket), and each stream reads what is
current when it can write again.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from pathlib import Path

from arcops import wire
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.daemon.act import Actor
from arcops.daemon.aside import for_a_client
from arcops.daemon.journal import Journal, data_of
from arcops.daemon.loop import Loop
from arcops.daemon.own_log import OwnLog
from arcops.daemon.samples import Samples
from arcops.daemon.status import StatusWriter
from arcops.machine import backend_log
from arcops.machine.backend_log import LogFollower
from arcops.machine.store import StoredEvent

COMMENT_EVERY = 10.0
"""Seconds of silence after which a comment shows that the stream lives."""
STATUS_EVERY = 1.0
MOVES_WITHIN = 0.1
"""Seconds that a change of the phase may wait, so that a burst of turns is one message."""
LOG_EVERY = 0.25
TAIL_ATTEMPTS = 5
"""Times that a log which is being written to is read from its end, before a line at the seam may be lost."""


class Feeds:
    """Endless streams of encoded messages; each ends when the daemon leaves."""

    def __init__(
        self,
        paths: Paths,
        loop: Loop,
        actor: Actor,
        journal: Journal,
        status: StatusWriter,
        samples: Samples,
        own_log: OwnLog,
    ) -> None:
        self.samples = samples
        self._own_log = own_log
        self._paths = paths
        self._loop = loop
        self._actor = actor
        self._journal = journal
        self._status = status
        self.closing = asyncio.Event()

    async def statuses(self, window: float) -> AsyncIterator[bytes]:
        """At once, then every second, and sooner when the phase, the reason or an outcome changes."""
        woken = self._loop.listen()
        try:
            while not self.closing.is_set():
                state = self._loop.state
                yield _event(wire.encode(self._status.status(window)))
                deadline = asyncio.get_running_loop().time() + STATUS_EVERY
                while (left := deadline - asyncio.get_running_loop().time()) > 0 and not self.closing.is_set():
                    woken.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await woken.wait()
                    now = self._loop.state
                    if (now.phase, now.reason, now.settled) != (state.phase, state.reason, state.settled):
                        await asyncio.sleep(MOVES_WITHIN)
                        break
        finally:
            self._loop.unlisten(woken)

    async def events(self, after: int) -> AsyncIterator[bytes]:
        """The history after an id, then what is added to it. A negative id is counted from the end."""
        if after < 0:
            after = max(0, self._journal.newest_event + after)
        quiet = 0.0
        while not self.closing.is_set():
            new = () if self._journal.newest_event <= after else await self._read_events(after, 1000)
            for event in new:
                after = event.id
                quiet = 0.0
                yield _event(wire.encode(_wire_event(event)))
            await asyncio.sleep(LOG_EVERY)
            quiet += LOG_EVERY
            if quiet >= COMMENT_EVERY:
                quiet = 0.0
                yield b": still here\n\n"

    async def page_of_events(self, after: int, limit: int) -> tuple[wire.Event, ...]:
        if after < 0:
            after = max(0, self._journal.newest_event + after)
        return tuple(_wire_event(event) for event in await self._read_events(after, limit))

    async def _read_events(self, after: int, limit: int) -> tuple[StoredEvent, ...]:
        """On a thread: a disk that hangs holds up this reader alone."""
        return await for_a_client(self._journal.events, after, limit)

    async def logs(self, lines: int, launch: str | None) -> AsyncGenerator[bytes]:
        """The tail of a log, then its new lines; without a launch, from each launch to the next.

        A launch is followed to its last words: whatever it wrote was written before the next one took its place.
        """
        current = launch or self._newest_launch()
        follower, tail = await for_a_client(self._tail_to_follow, lines, current)
        yield _event(wire.encode(wire.LogLines(launch_id=current, lines=tuple(tail))))
        quiet = 0.0
        while not self.closing.is_set():
            newest = launch or self._newest_launch()
            over = newest != current
            while new := [] if follower is None else follower.read_new() or (follower.read_rest() if over else []):
                quiet = 0.0
                yield _event(wire.encode(wire.LogLines(launch_id=current, lines=tuple(new))))
                if not over:
                    break
            if over:
                current, follower = newest, self._follower(newest)
                continue
            await asyncio.sleep(LOG_EVERY)
            quiet += LOG_EVERY
            if quiet >= COMMENT_EVERY:
                quiet = 0.0
                yield b": still here\n\n"

    def own_log_tail(self, lines: int) -> wire.LogLines:
        """The last lines of the supervisor's own log."""
        return wire.LogLines(launch_id=None, lines=self._own_log.tail(lines)[1], of="supervisor")

    async def own_log(self, lines: int) -> AsyncGenerator[bytes]:
        """The tail of the supervisor's own log, then its new lines. Of a flood only the newest are told."""
        number, new = self._own_log.tail(lines)
        told = False
        quiet = 0.0
        while not self.closing.is_set():
            if new or not told:
                told, quiet = True, 0.0
                yield _event(wire.encode(wire.LogLines(launch_id=None, lines=new, of="supervisor")))
            await asyncio.sleep(LOG_EVERY)
            quiet += LOG_EVERY
            if quiet >= COMMENT_EVERY:
                quiet = 0.0
                yield b": still here\n\n"
            number, new = self._own_log.after(number)

    def log_tail(self, lines: int, launch: str | None) -> wire.LogLines:
        """The last lines of a launch's log (default: the newest launch). Raises ArcopsError if there is no such log."""
        launch = self.known(launch) or self._newest_launch()
        if launch is None:
            return wire.LogLines(launch_id=None, lines=())
        return wire.LogLines(launch_id=launch, lines=tuple(backend_log.tail(self._log_path(launch), lines)))

    def known(self, launch: str | None) -> str | None:
        """`launch`, if it has a log; None for the newest, whichever that is. Raises ArcopsError."""
        if not launch:
            return None
        path = self._log_path(launch)
        if Path(path).parent != self._paths.log_dir or not os.path.isfile(path):
            raise ArcopsError(
                f"there is no log of a launch {launch[:60]!r}",
                hint="`arcops events` names the launches",
                exit_code=ExitCode.USAGE,
            )
        return launch

    def _tail_to_follow(self, lines: int, launch: str | None) -> tuple[LogFollower | None, list[str]]:
        """The tail, and a follower that goes on where it ends: read again if lines came in between the two."""
        follower = self._follower(launch)
        if follower is None or launch is None:
            return None, []
        tail: list[str] = []
        for _ in range(TAIL_ATTEMPTS):
            follower.skip_to_end()
            tail = backend_log.tail(self._log_path(launch), lines)
            if not follower.read_new():
                break
        return follower, tail

    def _follower(self, launch: str | None) -> LogFollower | None:
        return None if launch is None else LogFollower(self._log_path(launch))

    def _newest_launch(self) -> str | None:
        """The launch there is, else the last one that has a log: launch ids sort by time."""
        if self._actor.live is not None:
            return self._actor.live.record.launch_id
        return max((path.stem for path in self._paths.log_dir.glob("*.log")), default=None)

    def _log_path(self, launch: str) -> str:
        return str(self._paths.log_dir / f"{launch}.log")


def _wire_event(event: StoredEvent) -> wire.Event:
    return wire.Event(
        id=event.id,
        at=event.at,
        kind=event.kind,
        phase=event.phase,
        profile=event.profile,
        launch_id=event.launch_id,
        reason=event.reason,
        cause=data_of(event).cause,
    )


def _event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"
