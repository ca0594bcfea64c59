"""What came of a run, as it was timed. Raw facts alone: every figure is computed from them when it is read.

Times are in seconds since the run began, by the client's monotonic clock. None is unknown, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from arcops.core.evidence.work import Workload


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as its client saw it."""

    item: str
    """The name of the workload's item."""
    user: int
    """Which of the stage's concurrent users sent it, from 0."""
    sent: float
    """When the request was written to its connection."""
    arrivals: tuple[float, ...]
    """When each chunk with tokens came, in seconds after `sent`; the first of them is the TTFT."""
    chunk_tokens: tuple[int, ...]
    """Tokens in each of these chunks: with speculation a step brings several."""
    ended: float | None
    """When the answer was complete, in seconds after `sent`; None where it never was."""
    prompt_tokens: int | None = None
    """By the server's `usage`, as is the next."""
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that the server says it had in its prefix cache; None where it does not say."""
    finish: str | None = None
    """`stop`, `length`, `abort`, `tool_calls`."""
    answer: str | None = None
    """Digest of the token ids (`digest_of_tokens`), a key of `Run.answers`; None where the server gave no ids."""
    problem: str = ""
    """Why there is no complete answer, in words; empty where there is one."""

    @property
    def ttft(self) -> float | None:
        """Seconds to the first token."""
        return self.arrivals[0] if self.arrivals else None


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server had counted at one moment, from its /metrics; None where it does not say."""

    at: float
    server_started: float | None = None
    """When its API server started, in seconds since the epoch: another value is another server."""
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0..1."""
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    generation_tokens: float | None = None
    prefix_queries: float | None = None
    """In tokens, like the hits."""
    prefix_hits: float | None = None
    preemptions: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    corrupted: float | None = None
    finished: Mapping[str, float] | None = None
    """Finished requests by reason."""
    unread: str = ""
    """Why the page could not be read, in words."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The worst that was seen of the server in looks while a stage went on: every half second, or less often where
    answering a look holds up the server for long."""

    looks: int
    most_running: float | None = None
    most_waiting: float | None = None
    most_kv_usage: float | None = None


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """What measuring cost the measuring program while a stage went on."""

    seconds: float
    cpu_seconds: float
    """Processor time of the client's process."""
    lag_p50: float
    """How late the client's loop came to a timer of 10 ms, in seconds: all its arrival times are late by as much."""
    lag_p99: float
    lag_worst: float


@dataclass(frozen=True, slots=True)
class Stage:
    """Requests under one condition: a depth, a rung of the ladder, a fresh server."""

    name: str
    """Unique within its pass: `cold-greedy`, `8192`, `c16`, `server-1`."""
    pass_number: int
    """From 1. 0 is what is not measured: a warm-up, an oracle's own sequential pass."""
    concurrency: int
    """Users at once."""
    depth: int | None
    """Prompt tokens of each request where the benchmark chose them."""
    warm: bool | None
    """The server had answered this stage's requests before (an earlier pass); None where that means nothing."""
    before: Counters
    after: Counters
    watched: Watched
    client: ClientLoad
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Canary:
    """A question before or after the run, whose answers have to be the same."""

    when: str
    """`before` or `after`."""
    question: str
    answer: str | None
    """Digest of its token ids (or of its text, where there are no ids); None where no answer came."""
    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What a benchmark measured."""

    workload: Workload
    stages: tuple[Stage, ...]
    """In the order in which they were run."""
    answers: Mapping[str, tuple[int, ...]]
    """Token ids by their digest."""
    canaries: tuple[Canary, ...] = ()
