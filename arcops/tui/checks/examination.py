"""One run of the doctor's checks, as far as it has come."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui.source import OnDemand

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

TICK = 1.0
"""Seconds between two looks at the clock while checks run."""


class Examination:
    """Runs the checks, and keeps what they found last. A run that goes on has the findings of the one before it."""

    def __init__(self, source: OnDemand, names: Sequence[str] = (), clock: Callable[[], float] = monotonic) -> None:
        """`names`: of the checks; none: all."""
        self._source, self._names, self._clock = source, names, clock
        self._earlier: dict[str, Finding] = {}
        self._new: dict[str, Finding] = {}
        self._began: float | None = None
        self._ended: float | None = None
        self.problem = ""
        """Why the last run gave nothing."""

    @property
    def findings(self) -> "tuple[Finding, ...]":
        """The newest of each check."""
        return tuple({**self._earlier, **self._new}.values())

    @property
    def running(self) -> bool:
        return self._began is not None and self._ended is None

    @property
    def told(self) -> str:
        """How far it has come, or how old its findings are."""
        now = self._clock()
        if self._began is None:
            return "not looked yet"
        if self._ended is None:
            left = [name for name in self._earlier if name not in self._new]
            waits = f", waiting for {', '.join(left)}" if left else ""
            return f"looking for {words.duration(now - self._began)}: {len(self._new)} answers{waits}"
        return f"{'tried' if self.problem else 'looked'} {words.duration(now - self._ended)} ago"

    async def run(self, changed: Callable[[], None]) -> None:
        """Once; `changed` is called with every answer. Each check has a deadline of its own, so that this ends."""
        self._began, self._ended, self._new, self.problem = self._clock(), None, {}, ""

        def take(finding: "Finding") -> None:
            self._new[finding.name] = finding
            changed()

        try:
            found = await self._source.examine(self._names, take)
            self._earlier = {finding.name: finding for finding in found}
        except ArcopsError as error:
            self.problem = words.clean(error.message)
        finally:
            self._new = {}
            self._ended = self._clock()
            changed()
