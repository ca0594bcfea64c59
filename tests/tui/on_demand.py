"""What views ask for on demand, answered as a test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Finding

_Lines: TypeAlias = "wire.LogLines | None"
_Event: TypeAlias = "wire.Event | None"


@dataclass
class Prepared:
    """Give it what is to be there; streams go on with what the test puts in later."""

    backend: tuple[wire.LogLines, ...] = ()
    supervisor: tuple[wire.LogLines, ...] = ()
    launches: dict[str, wire.LogLines] = field(default_factory=dict[str, wire.LogLines])
    history: tuple[wire.Event, ...] = ()
    numbers: wire.Samples | None = None
    pasts: wire.Profiles = field(default_factory=lambda: wire.Profiles(past=(), running=None))
    card: wire.Cards | None = None
    """The answer about cards; None for a daemon that knows nothing of them."""
    findings: tuple[Finding, ...] = ()
    hanging: tuple[str, ...] = ()
    """Checks that do not answer before `go_on` is set."""
    plans: dict[str, wire.PlanInfo] = field(default_factory=dict[str, wire.PlanInfo])
    """By the profile; of others there is none."""
    refusal: ArcopsError | None = None
    """The answer to everything, if there is one."""
    asked: list[str] = field(default_factory=list[str])
    log_queue: "asyncio.Queue[_Lines]" = field(default_factory=lambda: asyncio.Queue[_Lines]())
    """Log lines that come later, for whoever follows; None ends the stream."""
    event_queue: "asyncio.Queue[_Event]" = field(default_factory=lambda: asyncio.Queue[_Event]())
    """Events that come later; None ends the stream."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> AsyncIterator[wire.LogLines]:
        self._note(f"logs {'supervisor' if supervisor else launch or 'newest'}")
        if launch is not None:
            if launch not in self.launches:
                raise ArcopsError(f"there is no log of a launch {launch!r}")
            before = (self.launches[launch],)
        else:
            before = self.supervisor if supervisor else self.backend
        for message in before:
            yield message
        while (later := await self.log_queue.get()) is not None:
            yield later

    async def follow_events(self, after: int) -> AsyncIterator[wire.Event]:
        self._note(f"follow events {after}")
        for event in self.history[after:] if after < 0 else (one for one in self.history if one.id > after):
            yield event
        while (later := await self.event_queue.get()) is not None:
            yield later

    async def events(self, after: int, limit: int) -> wire.Events:
        self._note(f"events {after}")
        chosen = self.history[after:] if after < 0 else [one for one in self.history if one.id > after]
        return wire.Events(events=tuple(chosen[:limit]))

    async def samples(self, since: float, until: float, step: float | None = None) -> wire.Samples:
        self._note(f"samples {since:.0f} {until:.0f} {step}")
        if self.numbers is None:
            return wire.Samples(step=step or 1.0, points=(), next=None)
        chosen = tuple(point for point in self.numbers.points if since <= point.at < until)
        return wire.Samples(step=self.numbers.step, points=chosen, next=None, absent=self.numbers.absent)

    async def profiles(self) -> wire.Profiles:
        self._note("profiles")
        return self.pasts

    async def cards(self, *, everybody: bool = False) -> wire.Cards:
        self._note("cards of everybody" if everybody else "cards")
        if self.card is None:
            raise ArcopsError("no such path: GET /v1/cards")
        return self.card

    async def examine(self, names: Sequence[str], done: Callable[[Finding], None]) -> tuple[Finding, ...]:
        self._note(f"examine {' '.join(names)}".strip())
        chosen = [finding for finding in self.findings if not names or finding.name in names]
        for finding in chosen:
            if finding.name in self.hanging:
                await self.go_on.wait()
            done(finding)
            await asyncio.sleep(0)
        return tuple(chosen)

    async def plan(self, profile: str) -> wire.PlanInfo:
        self._note(f"plan {profile}")
        if f"plan {profile}" in self.hanging:
            await self.go_on.wait()
        if profile not in self.plans:
            raise ArcopsError(f"there is no plan of {profile}")
        return self.plans[profile]

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.refusal is not None:
            raise self.refusal
