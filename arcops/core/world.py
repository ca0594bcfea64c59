"""What is true, as far as anybody could see: the frozen facts that `decide` judges."""

from dataclasses import dataclass
from enum import Enum

from arcops.core.cards.clean import Occupancy
from arcops.core.cards.health import Health
from arcops.core.cards.incidents import Incident
from arcops.core.launch import Launch
from arcops.core.quantity import Reading, Unknown


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, never a bare pid: pids are reused, the pair with the start time within one boot is not.

    `start` is field 22 of /proc/PID/stat, in clock ticks since boot.
    """

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, a port or memory of a card. What could not be read is None, never guessed."""

    pid: int | None
    command: str | None
    user: str | None
    what: str
    """What is held, in words: `lock of 0000:03:00.0`, `127.0.0.1:8000`, `1,234 MiB of 0000:03:00.0`."""

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid is not None else "an unreadable process"
        command = f" ({self.command})" if self.command else ""
        user = f" of user {self.user}" if self.user else ""
        return f"{who}{command}{user} holds {self.what}"


@dataclass(frozen=True, slots=True)
class Lock:
    """The locks that the wanted launch needs."""

    ours: bool
    """Every one of them is held by this supervisor or by its backend."""
    holders: tuple[Holder, ...]
    """Who else holds one of them."""
    since: float
    """When they became ours (seconds, monotonic); looks at port and card count only if made later."""


@dataclass(frozen=True, slots=True)
class Port:
    """The port that the wanted launch needs."""

    listeners: tuple[Holder, ...]
    """Foreign processes that listen there."""
    ours: bool
    """A process of our backend listens there."""
    bindable: bool
    """A bind without SO_REUSEPORT succeeded, or the port is ours."""


@dataclass(frozen=True, slots=True)
class Card:
    """The cards that the wanted launch needs, taken together."""

    memory: tuple[Occupancy, ...] = ()
    """Of each whose driver is there: who holds it, and how much of it is in use."""
    fault: str = ""
    """Why a card does not answer, in words with what to do; empty when all of them do."""
    wedged: bool = False
    """It will not before it was bound anew, reset or rebooted: that is known of it."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The one backend that the launch record speaks of, as it is now."""

    launch_id: str
    launch: Launch
    main: ProcessId | None
    """vLLM's API server; None until the keeper has said its pid."""
    main_alive: bool
    exit_code: int | None
    """Of the main process, negative for a signal; None while it lives, or where nobody was left to say."""
    processes: tuple[int, ...]
    """Every living process of the launch, the keeper excepted."""
    keeper_alive: bool
    """The keeper lives until the last of them has ended: its end is the proof."""
    spawned_at: float
    """Seconds, monotonic (of this boot)."""
    proven: bool
    """It has been `serving` before: its launch record says so."""
    stopping: bool = False
    """Its end was asked for, by this supervisor or an earlier one: that it ends is no failure."""
    engines: int | None = None
    """Living processes of it that run the model, apart from the API server; None where nobody has looked (only one that
    has served is looked at: before, not all of them have their names)."""


@dataclass(frozen=True, slots=True)
class Server:
    """What HTTP says."""

    healthy: bool
    models: tuple[str, ...]
    """Names that /v1/models serves."""
    unread: str = ""
    """Why /v1/models could not be read, in words; empty where it was."""


class AnswerState(Enum):
    """The fate of the last question put to the backend."""

    NOT_ASKED = "not asked"
    WAITING = "waiting"
    RIGHT = "right"
    OTHER = "other"
    """It answers in earnest, only not what the profile calls right."""
    DEGENERATE = "degenerate"
    """It answers one token over and over: its numbers are broken."""
    REFUSED = "refused"
    """The server did not take the question (HTTP 4xx), so that nothing was learnt about the engine."""
    WRONG = "wrong"
    """No answer, but an error."""
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Answer:
    """A probe request: asked for `launch_id`, with what came of it in words."""

    launch_id: str
    state: AnswerState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is wrong with a backend that serves, and no reason to restart it."""

    kind: str
    """What it is about, in a word: two remarks of one kind are one thing that has changed its figures."""
    words: str


@dataclass(frozen=True, slots=True)
class Activity:
    """Signs of life, each a number that only has to differ from the last one to count as progress."""

    log_bytes: int
    cpu_seconds: float
    counters: float
    """Sum of vLLM's token and request counters."""
    kv_usage: float


class Cause(Enum):
    """Why a backend ended or failed. The values are an interface: events, status and metrics show them.

    From `start_stalled` to `lost` they are core/decide's, which sees the backend from outside; the others come of a log
    or an exit code, and are core/diagnosis'.
    """

    OUT_OF_MEMORY = "out_of_memory"
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    PORT_TAKEN = "port_taken"
    MODEL_NOT_FOUND = "model_not_found"
    CORRUPT_WEIGHTS = "corrupt_weights"
    DRAFT_INCOMPATIBLE = "draft_incompatible"
    UNKNOWN_FLAG = "unknown_flag"
    BAD_VALUE = "bad_value"
    CONTEXT_TOO_LONG = "context_too_long"
    UNSUPPORTED = "unsupported"
    DEVICE_LOST = "device_lost"
    GPU_WEDGED = "gpu_wedged"
    OOM_KILLER = "oom_killer"
    KILLED_BY_SIGNAL = "killed_by_signal"
    ENGINE_DIED = "engine_died"
    START_STALLED = "start_stalled"
    WRONG_IDENTITY = "wrong_identity"
    WRONG_ANSWER = "wrong_answer"
    WRONG_LISTENER = "wrong_listener"
    SPAWN_FAILED = "spawn_failed"
    HANG = "hang"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a launch ended or is failing: the diagnosis made from exit code, phase and log."""

    launch_id: str
    cause: Cause
    summary: str
    hint: str
    deterministic: bool
    """Trying the same launch again would fail the same way."""
    points_at_draft: bool = False
    """The draft model or the speculative settings are to blame: `target-only` may work."""
    evidence: str = ""
    """The line of the log that says so, vLLM's or the kernel's."""
    fits_context: int | None = None
    """The largest context in tokens that would fit, where vLLM names it."""
    card_fault: bool = False
    """The device was lost, and the card was reset or worse: what ran there is not to blame."""


NOT_TRIED = Unknown("not tried yet", float("-inf"))


@dataclass(frozen=True, slots=True)
class World:
    """One look at everything, at `now` (seconds, monotonic)."""

    now: float
    dice: float
    """Uniform in [0, 1): the only randomness that a decision may use."""
    lock: Reading[Lock]
    port: Reading[Port]
    card: Reading[Card]
    setup: Reading[None]
    """Known where what the setup script of the wanted launch makes is there, or it has none; else why not."""
    backend: Backend | None
    server: Reading[Server]
    answer: Answer | None
    activity: Reading[Activity]
    requests: Reading[int]
    """Requests running and waiting."""
    ending: Ending | None
    """Why the main process ended, once it has and its log was read."""
    remarks: tuple[Remark, ...] = ()
    """What is wrong with the backend and no reason to restart it; judged by core/quality."""
    examined: Reading[Health] = NOT_TRIED
    """Whether the cards of the wanted launch compute, as of a trial that `Look(deep=True)` has made."""
    incidents: tuple[Incident, ...] = ()
    """What befell the cards of the backend since it was launched, oldest first."""
