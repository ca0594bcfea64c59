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


CARD_FAULTS_PER_HOUR = 3
"""More backends than this that were lost to their card within an hour (or than the profile's `per_hour`, if less)
latch `failed`. They say nothing of the profile; but each end that a card is forced to may make it worse, and a request
that takes too long for the card comes again."""


def recent(failures: tuple[float, ...], now: float) -> tuple[float, ...]:
    """The failures of the last hour."""
    return tuple(at for at in failures if now - at < HOUR)


def judge(policy: RestartPolicy, ending: Ending, failures: tuple[float, ...], now: float, dice: float) -> Retry | Latch:
    """Decide about the failure that is the last of `failures`, which are those of the card where it was the card's.

    The delay is `first_delay * factor ** n`, capped, with up to a quarter taken off by `dice` (0..1), so that several
    machines that fail together do not come back together.
    """
    if ending.deterministic:
        return Latch(f"{ending.summary}; the same launch would fail again")
    count = len(recent(failures, now))
    limit = min(policy.per_hour, CARD_FAULTS_PER_HOUR) if ending.card_fault else policy.per_hour
    if count > limit:
        what = "backends lost to the card" if ending.card_fault else "failures"
        return Latch(f"{ending.summary}; {count} {what} within an hour, the limit is {limit}")
    delay = _undiminished(policy, count) * (1 - dice / 4)
    whose = "; the card is to blame and not the profile, and is tried first" if ending.card_fault else ""
    return Retry(at=now + delay, reason=f"{ending.summary}{whose}; attempt {count + 1} in {delay:.0f} s")


def _undiminished(policy: RestartPolicy, count: int) -> float:
    """Seconds before the attempt that follows `count` failures, without the jitter."""
    try:
        grown = policy.first_delay * policy.factor ** max(0, count - 1)
    except OverflowError:
        return policy.longest_delay
    return min(policy.longest_delay, grown)
