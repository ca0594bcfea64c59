"""Where snapshots come from and orders go to: the daemon's feed, a recording that is played, or a test's own."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from arcops import wire
from arcops.tui.snapshot import Snapshot

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding


class OnDemand(Protocol):
    """What single views ask for while they are shown. Each raises ArcopsError where there is no answer."""

    def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> AsyncIterator[wire.LogLines]:
        """The last `lines` lines of a launch's log (None: of the newest, and on to those after it), then new ones."""
        ...

    def follow_events(self, after: int) -> AsyncIterator[wire.Event]:
        """The history after an id (negative: the last so many), then what is added to it."""
        ...

    async def events(self, after: int, limit: int) -> wire.Events:
        """A page of the history, after an id (negative: the last so many)."""
        ...

    async def samples(self, since: float, until: float, step: float | None = None) -> wire.Samples:
        """The server's numbers in a stretch of the past; times in seconds since the epoch."""
        ...

    async def profiles(self) -> wire.Profiles:
        """What became of each profile, and what the backend that runs was started with."""
        ...

    async def cards(self, *, everybody: bool = False) -> wire.Cards:
        """The machine's cards, now; `everybody`: who holds their memory is looked for in every process."""
        ...

    async def examine(self, names: Sequence[str], done: "Callable[[Finding], None]") -> "tuple[Finding, ...]":
        """The doctor's findings about this machine; no names: of all checks. `done` hears of each as it comes."""
        ...

    async def plan(self, profile: str) -> wire.PlanInfo:
        """Whether a profile fits its cards, and what each allocation takes."""
        ...


class Source(Protocol):
    """What the screen asks for. Whatever is asked on demand raises ArcopsError where there is no answer."""

    @property
    def on_demand(self) -> OnDemand: ...
    async def run(self, post: Callable[[Snapshot], None]) -> None: ...
    def look_through(self, window: float) -> None: ...
    def snapshot(self) -> Snapshot: ...
    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted: ...
    async def stop(self, request: wire.StopRequest) -> wire.Accepted: ...
    async def restart(self, request: wire.RestartRequest) -> wire.Accepted: ...
