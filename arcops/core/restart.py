"""When a failed backend is tried again: exponential backoff with jitter, a cap per hour, and a latch."""

from dataclasses import dataclass

from arcops.core.launch import RestartPolicy
from arcops.core.world import Ending

HOUR = 3600.0
"""Seconds over which failures are counted."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at `at` (seconds, monotonic)."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Latch:
    """Do not try again until somebody orders it."""

    reason: str


def recent(failures: tuple[float, ...], now: float) -> tuple[float, ...]:
    """The failures of the last hour."""
    return tuple(at for at in failures if now - at < HOUR)


def judge(policy: RestartPolicy, ending: Ending, failures: tuple[float, ...], now: float, dice: float) -> Retry | Latch:
    """Decide about the failure that is the last of `failures`.

    The delay is `first_delay * factor ** n`, capped, with up to a quarter taken off by `dice` (0..1), so that several
    machines that fail together do not come back together.
    """
    if ending.deterministic:
        return Latch(f"{ending.summary}; the same launch would fail again")
    count = len(recent(failures, now))
    if count > policy.per_hour:
        return Latch(f"{ending.summary}; {count} failures within an hour, the limit is {policy.per_hour}")
    delay = _undiminished(policy, count) * (1 - dice / 4)
    return Retry(at=now + delay, reason=f"{ending.summary}; attempt {count + 1} in {delay:.0f} s")


def _undiminished(policy: RestartPolicy, count: int) -> float:
    """Seconds before the attempt that follows `count` failures, without the jitter."""
    try:
        grown = policy.first_delay * policy.factor ** max(0, count - 1)
    except OverflowError:
        return policy.longest_delay
    return min(policy.longest_delay, grown)
