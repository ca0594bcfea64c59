"""The launches that the history tells of, for choosing one of their logs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from arcops import wire, words

MOST = 20
"""As many as the daemon keeps logs of."""


@dataclass(frozen=True, slots=True)
class LaunchChoice:
    """A launch, with what became of it as far as the history says."""

    launch_id: str
    profile: str | None
    began: float
    """Seconds since the epoch: of the first event that tells of it."""
    last_phase: str
    cause: str | None

    @property
    def words(self) -> str:
        """`01-15 08:00:01  dflash2  failed (kv_cache_too_small)  20270115-080000-1`."""
        began = datetime.fromtimestamp(self.began, UTC).astimezone()
        end = f"{self.last_phase} ({self.cause})" if self.cause else self.last_phase
        told = (f"{began:%m-%d %H:%M:%S}", f"{self.profile or '-':<14}", f"{end:<20}", self.launch_id)
        return words.clean("  ".join(told))


def launches(history: Iterable[wire.Event]) -> tuple[LaunchChoice, ...]:
    """Those of the history (oldest first), the newest first; at most `MOST`."""
    found: dict[str, LaunchChoice] = {}
    for event in history:
        if not event.launch_id:
            continue
        before = found.get(event.launch_id)
        phase = event.phase if event.kind == "phase" or before is None else before.last_phase
        found[event.launch_id] = LaunchChoice(
            launch_id=event.launch_id,
            profile=event.profile if before is None else before.profile or event.profile,
            began=event.at if before is None else before.began,
            last_phase=phase,
            # A kernel's word on a card has a cause too, and is none of a failure.
            cause=(event.cause if event.kind == "phase" else None) or (None if before is None else before.cause),
        )
    return tuple(sorted(found.values(), key=lambda one: one.began, reverse=True)[:MOST])
