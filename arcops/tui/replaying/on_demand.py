"""What single views ask for, answered from a recording: as of the moment that is played."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from arcops import wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.recording import Entry, Recording

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

T = TypeVar("T")

LOOK_EVERY = 0.25
"""Seconds between two looks at where the recording is."""


class Recorded:
    """`OnDemand` of a recording. `now` gives the seconds from its beginning at which it is."""

    def __init__(self, recording: Recording, now: Callable[[], float]) -> None:
        self._recording, self._now = recording, now

    async def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> AsyncIterator[wire.LogLines]:
        """Ends with an ArcopsError when the recording is wound back: what was told then is not true any more."""
        if not self._recording.header.logs:
            raise ArcopsError("lines of log were not recorded", hint="it was made with --no-logs")
        track = self._recording.supervisor if supervisor else self._recording.log
        pages = [(at, _page(entry)) for at, entry in track]
        if launch is not None:
            pages = [(at, page) for at, page in pages if page.launch_id == launch]
            if not pages:
                raise ArcopsError(f"the recording has no log of a launch {launch[:60]!r}", exit_code=ExitCode.USAGE)
        now = self._now()
        yield _tail(_until(pages, now), lines, supervisor=supervisor)
        begins = {at for at, entry in track if entry.anew}
        async for at, page in self._new(pages, now):
            if at not in begins:
                yield page

    async def follow_events(self, after: int) -> AsyncIterator[wire.Event]:
        """Ends with an ArcopsError when the recording is wound back."""
        now = self._now()
        known = _until(self._recording.events, now)
        for event in known[after:] if after < 0 else [event for event in known if event.id > after]:
            yield event
        async for _, event in self._new(self._recording.events, now):
            yield event

    async def events(self, after: int, limit: int) -> wire.Events:
        known = _until(self._recording.events, self._now())
        wanted = known[after:] if after < 0 else [event for event in known if event.id > after]
        return wire.Events(events=tuple(wanted[:limit]))

    async def samples(self, since: float, until: float, step: float | None = None) -> wire.Samples:
        """Of a second or a minute a step, as was recorded; without a step of seconds, if they reach back far enough."""
        pages = _until(self._recording.samples, self._now())
        found = {page.step: _joined(pages, page.step, since, until) for page in pages}
        if step is not None:
            return wire.Samples(step=step, points=found.get(step, ()), next=None, absent=_absent(step, found))
        fine, coarse = found.get(1.0, ()), found.get(60.0, ())
        reaches = bool(fine) and (not coarse or fine[0].at <= coarse[0].at + 60.0)
        return wire.Samples(step=1.0 if reaches else 60.0, points=fine if reaches else coarse, next=None)

    async def profiles(self) -> wire.Profiles:
        known = _until(self._recording.profiles, self._now())
        if not known:
            raise ArcopsError("what the daemon knew of its profiles was not recorded")
        return known[-1]

    async def cards(self, *, everybody: bool = False) -> wire.Cards:
        """As they were told last; nobody can look at every process of then."""
        del everybody
        index = bisect_right(self._recording.cards, self._now(), key=lambda one: one[0]) - 1
        told = self._recording.cards_told(index) if index >= 0 else None
        if told is None:
            raise ArcopsError("what the daemon knew of its cards was not recorded")
        return told

    async def examine(self, names: Sequence[str], done: "Callable[[Finding], None]") -> "tuple[Finding, ...]":
        """Raises ArcopsError."""
        del names, done
        raise ArcopsError("a recording has no machine to examine", hint="`arcops doctor` examines this one")

    async def plan(self, profile: str) -> wire.PlanInfo:
        """Raises ArcopsError."""
        raise ArcopsError(
            "a recording has no checkpoints to read", hint=f"`arcops plan {profile}` reads this machine's"
        )

    async def _new(self, track: Sequence[tuple[float, T]], before: float) -> AsyncIterator[tuple[float, T]]:
        """What comes after `before`, when it comes."""
        index = bisect_right(track, before, key=lambda one: one[0])
        while True:
            await asyncio.sleep(LOOK_EVERY)
            now = self._now()
            if now < before:
                raise ArcopsError("the recording was wound back")
            before = now
            while index < len(track) and track[index][0] <= now:
                yield track[index]
                index += 1


def _until(track: Sequence[tuple[float, T]], now: float) -> list[T]:
    return [one for _, one in track[: bisect_right(track, now, key=lambda one: one[0])]]


def _page(entry: Entry) -> wire.LogLines:
    if entry.log is not None:
        return entry.log
    return wire.LogLines(launch_id=None, lines=entry.supervisor, of="supervisor")


def _tail(pages: Sequence[wire.LogLines], lines: int, *, supervisor: bool) -> wire.LogLines:
    """The last lines of the newest launch."""
    if not pages:
        return wire.LogLines(launch_id=None, lines=(), of="supervisor" if supervisor else "backend")
    newest = pages[-1].launch_id
    told = [line for page in pages if page.launch_id == newest for line in page.lines]
    return wire.LogLines(launch_id=newest, lines=tuple(told[-lines:] if lines else ()), of=pages[-1].of)


def _joined(pages: Sequence[wire.Samples], step: float, since: float, until: float) -> tuple[wire.SamplePoint, ...]:
    """A point that was told twice counts as it was told last: a minute grows until it is over."""
    points = {point.at: point for page in pages if page.step == step for point in page.points}
    return tuple(points[at] for at in sorted(points) if since <= at < until)


def _absent(step: float, found: dict[float, tuple[wire.SamplePoint, ...]]) -> str | None:
    return None if step in found else f"numbers a step of {step:g} s were not recorded"
