"""What was: events, numbers, launches, logs."""

import msgspec

from arcops.core.rates import Quantiles
from arcops.wire.message import Message


class Event(Message, frozen=True, kw_only=True):
    """One entry of the history."""

    id: int
    at: float
    kind: str
    phase: str
    profile: str | None
    launch_id: str | None
    reason: str
    cause: str | None = None
    """Of the failure that a phase was entered with, in one word as in `FailureInfo`."""


class Events(Message, frozen=True, kw_only=True):
    """A page of the history, oldest first."""

    events: tuple[Event, ...]


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One second of the past, for plots. Null is unknown."""

    at: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    prefill: float | None
    decode: float | None


class History(Message, frozen=True, kw_only=True):
    """The last minutes, oldest first."""

    points: tuple[HistoryPoint, ...]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a gauge stood over a stretch of time, by the looks at it."""

    mean: float
    low: float
    high: float


class SamplePoint(msgspec.Struct, frozen=True, kw_only=True):
    """What one launch did over one step of the history. Null is unknown, and never 0; a step without a point is a gap.

    Rates are over `seconds`, counts are how many in all. A quantile is the bucket of vLLM's histogram that it lies in,
    of the observations that were made within the step; it is null where there were none.
    """

    at: float
    """Seconds since the epoch. For steps of one second when the look was made, at the end of what it tells; for longer
    ones where the step begins."""
    seconds: float
    """How many the differences really cover: less than the step where less was seen; more where a look came after a
    time in which none could be made. 0 at a launch's first look, which has gauges only."""
    launch_id: str
    profile: str
    phase: str
    """At the last look."""
    running: Spread | None
    """Requests."""
    waiting: Spread | None
    """Requests."""
    kv_usage: Spread | None
    """0..1."""
    prefill: float | None
    """Prompt tokens per second that were computed; they are counted when their prefill is complete."""
    prefilling: Spread | None
    """Prompt tokens per second of a prefill that was going on, by the growth of the KV cache; null where none was."""
    decode: float | None
    """Generated tokens per second."""
    requests: float | None
    """Finished requests per second."""
    preemptions: float | None
    """How many."""
    acceptance: float | None
    """0..1; null without speculation, and where nothing was drafted."""
    tokens_per_step: float | None
    """Mean accepted length, 1 and more; null like `acceptance`."""
    ttft: Quantiles | None
    """Seconds."""
    inter_token: Quantiles | None
    """Seconds, between decode steps of a request."""
    queue: Quantiles | None
    """Seconds."""
    card_memory: Spread | None = None
    """Bytes in use of the launch's cards, together; null where one of them could not be read, as with those below."""
    card_power: Spread | None = None
    """Watts, together."""
    card_temperature: Spread | None = None
    """°C, of the hottest."""
    card_clock: Spread | None = None
    """MHz of the compute engines, of the slowest."""


class Samples(Message, frozen=True, kw_only=True):
    """A page of the numbers' history, oldest first."""

    step: float
    """Seconds that a point stands for: 1, or a multiple of 60."""
    points: tuple[SamplePoint, ...]
    next: float | None
    """Where the next page begins (its `from`); null where this is the last one."""
    absent: str | None = None
    """Why a part of it is not here (a disk that cannot be read), in words; null where nothing is missing."""


class LastResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a profile's last start has ended, or what has become of it since."""

    at: float
    ready: bool
    """It served; else it has failed."""
    seconds: float | None
    """From its spawn until it was ready; null where that is not known, or it never was."""
    cause: str | None
    """Why it failed, in one word as in `FailureInfo`."""
    summary: str


class ProfilePast(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon remembers of a profile that was started here."""

    name: str
    usual: float | None
    """Seconds that its last starts took (median); null where none became ready."""
    last: LastResult | None


class LaunchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the backend that runs was started with. Secrets are hidden."""

    launch_id: str
    profile: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    """What the profile adds to it, by name."""
    setup: str | None
    locks: tuple[str, ...]


class Profiles(Message, frozen=True, kw_only=True):
    """What the daemon knows of profiles beyond their files, which are read by whoever shows them."""

    past: tuple[ProfilePast, ...]
    """Those that were ever started, by name."""
    running: LaunchInfo | None
    """Null where there is no backend."""


class LogLines(Message, frozen=True, kw_only=True):
    """Lines of one launch's log, or of the supervisor's own, oldest first. Untrusted text: never markup.

    The supervisor's lines have the form of vLLM's: `WARNING 11-30 18:05:01 [arcopsd] text`.
    """

    launch_id: str | None
    """Null where there was no launch yet, and for the supervisor's."""
    lines: tuple[str, ...]
    of: str = "backend"
    """`backend` or `supervisor`."""
