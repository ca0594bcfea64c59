"""What the supervisor remembers between two looks: the order in force, the phase, and the clocks of the phase."""

from dataclasses import dataclass, field
from enum import Enum

from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.world import Activity, Cause, Ending


class Goal(Enum):
    """What an order wants in the end."""

    RUN = "run"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class StandIn:
    """Another profile runs in the ordered one's place (`on_failure`), until an order or a reboot."""

    profile: str
    because: str
    """Why the ordered profile is given up for now, in words."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the operator asked for last.

    A switch is an order that is not yet committed: it becomes what the machine is for only when its backend serves;
    if it fails, `previous` is in force again (when `returns`).
    """

    id: int
    goal: Goal
    profile: str | None = None
    launch: Launch | None = None
    """Resolved from the profile; None for STOP, or where the profile cannot be resolved."""
    problem: str = ""
    """Why there is no launch."""
    fallback: Launch | None = None
    """Resolved from the profile's `on_failure`; None where it names none, or that one cannot be resolved."""
    unguarded: str = ""
    """Why nothing could stand in, in words, though the profile's `on_failure` names something; empty otherwise."""
    stand_in: StandIn | None = None
    """The fallback is in force. The order stays what was ordered: the next one, or a reboot, tries that again."""
    resolving: bool = False
    """The profile is being read (its setup script may take a while): nothing is decided about a launch yet."""
    drain: float | None = None
    """Seconds that open requests are given; None for the running profile's own limit."""
    replaces: str | None = None
    """Launch id of the backend that was running when the order came: it has to go, whatever its profile."""
    committed: bool = True
    previous: "Order | None" = None
    returns: bool = False
    fresh_caches: bool = False
    """Its launch has empty compile caches of its own. Of the order while it is under way, and of no later launch."""

    @property
    def unread(self) -> bool:
        """Its profile names an `on_failure`, and nobody knows yet whether that one could be launched."""
        names_one = self.launch is not None and self.launch.on_failure is not None
        return names_one and self.fallback is None and not self.unguarded

    @property
    def wanted(self) -> Launch | None:
        """What is to run now: what was ordered, or what stands in for it."""
        return self.launch if self.stand_in is None else self.fallback

    @property
    def wanted_profile(self) -> str | None:
        """The profile of what is to run now, known also where it cannot be launched."""
        return self.profile if self.stand_in is None else self.stand_in.profile


NOTHING_ORDERED = Order(id=0, goal=Goal.STOP)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an order."""

    order_id: int
    exit_code: ExitCode
    summary: str
    hint: str = ""
    evidence: str = ""
    superseded: bool = False
    returned_to: str | None = None
    """The profile (or `stopped`) that is in force again after a switch that failed."""
    cause: Cause | None = None
    """Of a backend that failed; None where none did."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """How far a stop has got. Times in seconds, monotonic; None where it has not happened."""

    began: float
    last_term: float | None = None
    everyone: bool = False
    """The last SIGTERM went to every process, not to the main one alone."""
    killed_at: float | None = None
    ran: bool = False
    """A process that runs the model was seen when this began, or since."""
    engineless_since: float | None = None
    """When the last of them was first missed."""


@dataclass(frozen=True, slots=True)
class State:
    """The supervisor's memory. Everything in it can be found again from the order, the launch record and a look."""

    phase: Phase = Phase.STOPPED
    since: float = 0.0
    reason: str = "nothing was ordered yet"
    order: Order = NOTHING_ORDERED
    failure: Ending | None = None
    """Why the backend is being taken down, or was."""
    failures: tuple[float, ...] = ()
    """When the standing (committed) order's backend, or what stands in for it, failed within the last hour."""
    card_faults: tuple[float, ...] = ()
    """When the card failed a backend of the standing order within the last hour: not held against its profile."""
    asked_over: float = float("-inf")
    """In `serving` and `suspect`: when that befell a card for which the backend was last doubted."""
    fallback_awaited: bool = False
    """In `failed` and `wedged`: the latch fell before the order's `on_failure` was read; then that is judged anew."""
    retry_at: float | None = None
    """In `backoff`: when it is tried again."""
    activity: Activity | None = None
    progress_at: float = 0.0
    """When a sign of life last changed; while it serves without requests, now."""
    shown_at: float = 0.0
    """In `serving`: when it last showed that it works, by progress or an answer. Silence does not move it."""
    looked_at: float | None = None
    """When `decide` last looked; None before the first look. `core/decide/standstill.py` judges the gap to the next."""
    unseen: float = 0.0
    """Seconds of this phase in which nobody looked: no silence of a backend's."""
    by_answer: bool = False
    """In `suspect`: an answer brought the doubt up, so that only an answer clears it, and progress does not."""
    stopping: Stopping | None = None
    """In `stopping`, and in `stuck` until a new order asks for another try."""
    asked_at: float | None = None
    """When the probe was sent, in `serving` that of an idle backend; in `starting`, when HTTP answered first; at rest,
    when the order tried the lock."""
    launched_for: int | None = None
    """The order that the backend was last launched, or adopted, for: no other one is to blame for it."""
    settled: tuple[Outcome, ...] = field(default=())
    """The last few outcomes, newest last."""
    doubted: tuple[str, ...] = ()
    """Cards that a backend was lost to, until one serves on them again: they are tried before each launch there."""
    doubted_since: float = 0.0
    """When one of them was last the cause of a failure: a trial counts only if made later."""

    def outcome_of(self, order_id: int) -> Outcome | None:
        """What became of an order, if it is settled and not too long ago."""
        return next((outcome for outcome in reversed(self.settled) if outcome.order_id == order_id), None)
