"""A machine for tests of the numbers' past: its clocks and its disk, and a backend whose counters go on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arcops import wire
from arcops.core.metrics import Sample
from arcops.core.rates import Timed
from arcops.core.rollup import Tally
from arcops.daemon import history as module
from arcops.daemon import samples as pages
from arcops.daemon.clock import Clock
from arcops.daemon.history import History
from arcops.daemon.samples import Samples
from arcops.machine.sample_store import SampleStore

EPOCH = 1_790_000_040.0
"""A whole minute."""


@dataclass(slots=True)
class Machine:
    """One boot: its clocks, which a test sets, its disk, and a backend whose counters go on over daemons."""

    path: Path
    monotonic: float = 5000.0
    wall: float = EPOCH
    tokens: float = 0.0
    store: Callable[[str], SampleStore] = SampleStore.open
    resumed: list[tuple[Sequence[Timed], Sequence[Tally]]] = field(
        default_factory=list[tuple[Sequence[Timed], Sequence[Tally]]]
    )

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    def daemon(self) -> History:
        return History(str(self.path), self.clock, "boot", self.store)

    async def started(self) -> History:
        history = self.daemon()
        await history.restore(lambda scrapes, tallies: self.resumed.append((scrapes, tallies)))
        return history

    def scrape(self, history: History, tokens: float = 7.0, launch: str = "L1") -> None:
        """One second later the backend has generated so many more tokens."""
        self.monotonic += 1.0
        self.wall += 1.0
        self.tokens += tokens
        sample = Sample(running=2.0, generation_tokens=self.tokens)
        history.scraped(Timed(self.monotonic, sample, launch), "p", "serving", None)

    def scrapes(self, history: History, count: int, tokens: float = 7.0, launch: str = "L1") -> None:
        for _ in range(count):
            self.scrape(history, tokens, launch)


def patient_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its disk has time, for this machine may stand still for seconds."""
    for room, name in ((module, "DISK_WITHIN"), (module, "BRIEFLY"), (pages, "READ_WITHIN")):
        monkeypatch.setattr(room, name, 60.0)
    return Machine(folder / "history.db")


async def told(machine: Machine, history: History, step: float | None, since: float = 0.0) -> list[wire.SamplePoint]:
    """All points, page after page."""
    samples, found = Samples(history, machine.clock), list[wire.SamplePoint]()
    at: float | None = since
    while at is not None:
        page = await samples.page(at, 1e11, step)
        assert page.absent is None
        assert len(page.points) <= pages.MOST_POINTS
        found += page.points
        at = page.next
    return found


def tokens(points: Sequence[wire.SamplePoint]) -> float:
    return round(sum(point.seconds * (point.decode or 0.0) for point in points), 3)
