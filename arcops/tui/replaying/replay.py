"""A recording as a source of snapshots: what the screen showed then, at the pace of then, faster, or slower."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.recording import Entry, Recording
from arcops.tui.live.feed import LOG_LINES
from arcops.tui.replaying.on_demand import Recorded
from arcops.tui.replaying.past import RecordedPast
from arcops.tui.snapshot import Link, LogTail, Playback, Snapshot

SPEEDS = (1, 2, 4, 8, 16, 32, 64)
TICK = 0.25
"""Seconds between two snapshots while it plays."""


class Pointer:
    """Where in the recording it is: moves with the clock while it plays."""

    def __init__(self, length: float, clock: Callable[[], float]) -> None:
        self._length, self._clock = length, clock
        self._base, self._since = 0.0, clock()
        self.speed = 1
        self._paused = False

    @property
    def at(self) -> float:
        """Seconds from the beginning."""
        moved = 0.0 if self._paused else (self._clock() - self._since) * self.speed
        return min(self._length, self._base + moved)

    @property
    def ended(self) -> bool:
        return self.at >= self._length

    @property
    def paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        """Stand still or go on; at the end: once more from the beginning."""
        if self.ended and not self._paused:
            self._go(0.0)
            return
        self._go(0.0 if self.ended else self.at)
        self._paused = not self._paused

    def seek(self, seconds: float) -> None:
        """Go so far forward, or back where it is negative."""
        self._go(self.at + seconds)

    def faster(self, steps: int) -> None:
        """So many steps faster, or slower where it is negative."""
        self._go(self.at)
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, SPEEDS.index(self.speed) + steps))]

    def _go(self, to: float) -> None:
        self._base, self._since = max(0.0, min(self._length, to)), self._clock()


class Replay:
    """The recording, as a series of snapshots. It takes no orders."""

    def __init__(self, recording: Recording, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._recording = recording
        self._pointer = Pointer(recording.length, clock)
        self._changed = asyncio.Event()
        self._times = [at for at, _ in recording.beats]
        self._lines, self._launches = _lines(recording)
        self._line_times = [at for at, _ in self._lines]
        self._beat: tuple[int, Entry] | None = None
        self._status: tuple[int, wire.Status, float] | None = None
        self._past = RecordedPast(recording)
        self._tail: tuple[int, LogTail] | None = None
        self.on_demand = Recorded(recording, lambda: self._pointer.at)

    async def run(self, post: Callable[[Snapshot], None]) -> None:
        """Give `post` what there is to see, again and again while it plays; until cancelled."""
        while True:
            self._changed.clear()
            post(self.snapshot())
            still = self._pointer.paused or self._pointer.ended
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), None if still else TICK)

    def pause(self) -> None:
        self._pointer.pause()
        self._changed.set()

    def seek(self, seconds: float) -> None:
        """Go so many seconds forward, or back where it is negative."""
        self._pointer.seek(seconds)
        self._changed.set()

    def faster(self, steps: int) -> None:
        """So many steps faster, or slower where it is negative."""
        self._pointer.faster(steps)
        self._changed.set()

    def look_through(self, window: float) -> None:
        """Raises ArcopsError: rates were recorded over one window, and those over another cannot be had from them."""
        recorded = words.window(self._recording.header.window)
        raise ArcopsError(f"the rates of this recording are over the {recorded}: another window was not recorded")

    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        """Raises ArcopsError."""
        del request
        refuse()

    async def stop(self, request: wire.StopRequest) -> wire.Accepted:
        """Raises ArcopsError."""
        del request
        refuse()

    async def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        """Raises ArcopsError."""
        del request
        refuse()

    def snapshot(self) -> Snapshot:
        """What was to be seen then."""
        at = self._pointer.at
        header = self._recording.header
        beat = self._beat_at(at)
        newest = self._status_at(at)
        silent = 0.0 if newest is None else max(0.0, at - newest[1])
        past = self._past.at(at, None if newest is None else newest[0])
        gone = beat.gone
        return Snapshot(
            socket=words.clean(str(self._recording.path)),
            instance=words.clean(header.instance),
            window=header.window,
            now=0.0 if newest is None else newest[0].at + silent,
            link=Link.LIVE if gone is None else Link.BROKEN,
            problem="" if gone is None else words.clean(gone.problem),
            hint="" if gone is None else words.clean(gone.hint),
            status=None if newest is None else newest[0],
            silent=silent,
            history=past.seconds,
            minutes=past.minutes,
            marks=past.marks,
            log=self._tail_at(at),
            playback=Playback(
                began=header.at,
                at=at,
                length=self._recording.length,
                speed=self._pointer.speed,
                paused=self._pointer.paused,
                cut=self._recording.cut,
            ),
        )

    # What was handed out is kept until something else is due: the screen draws nothing anew for the same value.

    def _beat_at(self, at: float) -> Entry:
        index = max(0, bisect_right(self._times, at) - 1)
        if self._beat is None or self._beat[0] != index:
            self._beat = (index, self._recording.beat(index))
        return self._beat[1]

    def _status_at(self, at: float) -> tuple[wire.Status, float] | None:
        """The newest status then, and when it came."""
        index = max(0, bisect_right(self._times, at) - 1)
        while self._status is None or self._status[0] != index:
            entry = self._recording.beat(index)
            if entry.status is not None:
                self._status = (index, entry.status, self._times[index])
            elif index == 0:
                return None
            else:
                index -= 1
        return self._status[1:]

    def _tail_at(self, at: float) -> LogTail:
        end = bisect_right(self._line_times, at)
        told = bisect_right(self._launches, at, key=lambda launch: launch[0])
        key = end + told
        if self._tail is None or self._tail[0] != key:
            launch, begin = self._launches[told - 1][1:] if told else (None, 0)
            lines = tuple(line for _, line in self._lines[max(begin, end - LOG_LINES) : end])
            missing = "" if self._recording.header.logs else "lines of log were not recorded"
            self._tail = (key, LogTail(launch, lines, missing))
        return self._tail[1]


def refuse() -> NoReturn:
    """Raise ArcopsError for an order."""
    raise ArcopsError("this is a recording: it takes no orders", hint="`arcops tui` shows the daemon itself")


def _lines(recording: Recording) -> tuple[list[tuple[float, str]], list[tuple[float, str | None, int]]]:
    """All lines of log as they are shown, each with its time; and what each entry said: when, of which launch, and the
    first of the lines that are shown from then on."""
    lines: list[tuple[float, str]] = []
    launches: list[tuple[float, str | None, int]] = []
    before: str | None = None
    begin = 0
    for at, entry in recording.log:
        if entry.log is None:
            continue
        if entry.anew:
            begin = len(lines)
        elif entry.log.launch_id != before:
            lines.append((at, f"──── launch {words.clean(entry.log.launch_id or 'none')} ────"))
        before = entry.log.launch_id
        lines.extend((at, words.clean(line)) for line in entry.log.lines)
        launches.append((at, before, begin))
    return lines, launches
