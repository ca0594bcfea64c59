"""The messages between the daemon and its clients: versioned, frozen, JSON.

Times are seconds since the epoch, so that a client on another clock can read them; durations are seconds. A value that
the daemon does not know is null, with a reason beside it where there is one to give.
"""

from typing import Final

import msgspec

from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.rates import Quantiles, Rates

SCHEMA: Final = 1
"""Raised when a message changes in a way that an older client would misread. New optional fields do not raise it."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What all messages have in common."""

    schema: int = SCHEMA


class DaemonInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor itself."""

    pid: int
    version: str
    started_at: float
    prefix: str | None = None
    """`sys.prefix` of the environment that it is installed in; null from a daemon that does not say."""


class SurvivalInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the supervisor outlives a logout of its user, and comes back after a reboot; null is unknown."""

    logout: bool | None
    reboot: bool | None
    why: str
    """One sentence that says both."""


class OrderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The order in force."""

    id: int
    goal: str
    """`run` or `stop`."""
    profile: str | None
    committed: bool
    """False while a switch or stop is under way."""
    previous: str | None = None
    """The profile that a failing switch returns to."""
    standing_in: str | None = None
    """The profile that runs in place of the ordered one (its `on_failure`), until an order or a reboot."""
    standing_in_because: str = ""
    """Why it does, in words."""


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The backend that exists, whatever its phase."""

    launch_id: str
    profile: str
    served_name: str
    url: str
    pid: int | None
    processes: int | None
    """Living processes, the keeper excepted; null before the first look."""
    spawned_at: float
    ready_at: float | None
    enclosure: str
    log_path: str
    speculates: bool
    adopted: bool
    """An earlier supervisor had launched it."""
    max_running: int | None = None
    """Requests that it runs at once (`--max-num-seqs`); null where the command line leaves it to vLLM."""


class StartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How far a start has got. Read from prose in a log: to be shown, never to be decided on."""

    stage: str
    fraction: float | None
    """Of the stage, 0..1."""
    detail: str
    elapsed: float
    usual: float | None
    """Seconds that this profile's last starts took (median)."""


class FailureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last backend failed."""

    cause: str
    summary: str
    hint: str
    evidence: str
    fits_context: int | None = None
    """The largest context in tokens that would fit, where vLLM names it."""


class OutcomeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order."""

    order_id: int
    exit_code: int
    summary: str
    hint: str
    evidence: str
    superseded: bool
    returned_to: str | None
    cause: str | None = None
    """Why the backend failed, in one word as in `FailureInfo`; null where none did, or an earlier daemon knew it."""


class Status(Message, frozen=True, kw_only=True):
    """Everything about the instance, now."""

    instance: str
    at: float
    daemon: DaemonInfo
    phase: str
    phase_code: int
    since: float
    reason: str
    order: OrderInfo
    backend: BackendInfo | None
    start: StartInfo | None
    locks: tuple[str, ...]
    """Paths that this supervisor or its backend holds locked."""
    failure: FailureInfo | None
    retry_at: float | None
    settled: tuple[OutcomeInfo, ...]
    rates: Rates
    """Over the window that was asked for."""
    rates_age: float | None
    """Seconds since the newest scrape; null without any."""
    window: float
    lingering: bool | None
    """Whether the user's services survive a logout and start at boot; null where that cannot be read."""
    trouble: tuple[str, ...] = ()
    """What the daemon cannot do right now (a disk that is full, a log that cannot be read), in words."""
    survival: SurvivalInfo | None = None
    """Null from a daemon that does not say."""
    notes: tuple[str, ...] = ()
    """What it cannot see from where it is, for as long as it runs there: to be known, no reason to act."""


class SwitchRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run this profile instead of what runs now."""

    profile: str
    drain: float | None = None
    """Seconds that open requests are given; null for the running profile's own limit, 0 for now."""
    replace: bool = False
    """Overtake an order that is under way."""
    rollback: bool = True
    """Return to the previous profile if this one fails."""
    dry_run: bool = False


class StopRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop the backend, and run none until told otherwise."""

    drain: float | None = None


class RestartRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run the ordered profile anew, as its file says now; forgives a latched failure."""

    drain: float | None = None
    replace: bool = False


class Accepted(Message, frozen=True, kw_only=True):
    """The order was taken (or there is nothing to do: then `done` says so)."""

    order_id: int | None
    done: str | None = None
    plan: tuple[str, ...] = ()
    """What will happen, a sentence each; all there is in a dry run."""


class ReloadRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read the configuration anew."""


class Reloaded(Message, frozen=True, kw_only=True):
    """The configuration was read anew, and is valid."""

    profile: str | None
    """The ordered profile; null where nothing is ordered to run."""
    changes: tuple[str, ...]
    """What differs from what was ordered, a line each."""
    summary: str


class KeepRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave the backend running at the daemon's next end."""


class Kept(Message, frozen=True, kw_only=True):
    """The daemon's end leaves the backend running, if it comes soon enough."""

    seconds: float
    """For how long from now that is so."""
    launch_id: str | None
    """The backend that there is; null where there is none."""


class ErrorInfo(Message, frozen=True, kw_only=True):
    """What went wrong, and what the client's exit code should be."""

    message: str
    hint: str = ""
    exit_code: int = int(ExitCode.FAILED)

    def raised(self) -> ArcopsError:
        """The error as the client raises it."""
        return ArcopsError(self.message, hint=self.hint, exit_code=ExitCode.of(self.exit_code))


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


class Pong(Message, frozen=True, kw_only=True):
    """Somebody is there."""

    instance: str
    version: str
    pid: int


def encode(message: msgspec.Struct) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)
