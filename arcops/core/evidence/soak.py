"""A soak: mixed clients for a long time, folded into spans so that an hour takes no more room than a minute.

Raw facts alone, like a run's; what they mean is said by `soaked.gates`. Times are in seconds since the run began, but
for those of spans and troubles, which are since its clients began.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, floor, log
from typing import Final

from arcops.core.evidence.run import Canary, ClientLoad, Counters

KINDS: Final = ("short", "long", "cut", "tools")
"""Kinds of client work: short chats, long prompts, streams that the client leaves, tool calls."""
FINENESS: Final = log(1.05)
"""A bin of a histogram is 5 % wide: a median is known to half of that."""
LEAST: Final = 1e-6
"""Seconds; what is shorter counts as this."""


def bin_of(seconds: float) -> int:
    """The bin of a histogram that a time falls into."""
    return floor(log(max(seconds, LEAST)) / FINENESS)


def middle_of(number: int) -> float:
    """Seconds in the (geometric) middle of a bin."""
    return exp((number + 0.5) * FINENESS)


@dataclass(frozen=True, slots=True)
class Span:
    """What one kind of work did in one stretch of time, by when the requests were sent."""

    kind: str
    begins: float
    seconds: float
    asked: int
    failed: int
    ttft: tuple[tuple[int, int], ...] = ()
    """Times to the first token as (bin, count), in the order of the bins."""
    between: tuple[tuple[int, int], ...] = ()
    """Mean inter-token latencies of the requests, likewise."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request that went wrong, or one of the slowest; the first and the worst are kept."""

    at: float
    client: int
    kind: str
    problem: str
    """In words; empty for one that was only slow."""
    seconds: float
    """Until its first token, or until it failed."""


@dataclass(frozen=True, slots=True)
class MemoryLook:
    """Memory of the server's processes in the host, at one moment."""

    at: float
    resident: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Stray:
    """For so long the server had more requests than the soak's clients had open."""

    at: float
    seconds: float
    most: int
    """Requests more than were open."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The server some time after the last client has gone; None is unknown."""

    seconds: float
    """That were waited for it to be idle."""
    running: float | None
    waiting: float | None
    kv_usage: float | None


@dataclass(frozen=True, slots=True)
class Soak:
    """All that a soak saw."""

    options: Mapping[str, str]
    """What was chosen on the command line, by the names of the options there, as text."""
    clients: int
    began: float
    """When the clients began: the canaries are asked before."""
    wanted: float
    """Seconds."""
    lasted: float
    interrupted: bool
    """A person ended it before its time."""
    spans: tuple[Span, ...]
    problems: Mapping[str, int]
    """How often what went wrong, as `KIND: WHAT`."""
    troubles: tuple[Trouble, ...]
    slowest: tuple[Trouble, ...]
    before: Counters
    after: Counters
    restarts: tuple[float, ...]
    """When another start of the server was seen."""
    looks: int
    """At the server's counters while it went on."""
    strays: tuple[Stray, ...]
    settled: Settled
    client: ClientLoad
    memory: tuple[MemoryLook, ...] = ()
    """Empty where the server's processes cannot be seen."""
    canaries: tuple[Canary, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kinds of work that the server refuses, and that nobody named, with its reason in words."""
