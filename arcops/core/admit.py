"""May this order be taken now? A refusal touches nothing."""

from dataclasses import dataclass, replace
from enum import Enum

from arcops.core.decide.moves import Decision, name_of, settle
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.phase import LATCHED, Phase
from arcops.core.state import NOTHING_ORDERED, Goal, Order, Outcome, State

UNDER_WAY = frozenset({Phase.STARTING, Phase.CHECKING, Phase.DRAINING, Phase.STOPPING, Phase.CLEARING})
"""Phases in which something is being done that a second order would cut across."""


class Verb(Enum):
    """What the operator says."""

    SWITCH = "switch"
    STOP = "stop"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Request:
    """An order as it comes in, its profile resolved already."""

    verb: Verb
    launch: Launch | None = None
    drain: float | None = None
    replace: bool = False
    rollback: bool = True
    fallback: Launch | None = None
    """What the profile's `on_failure` names."""
    fresh_caches: bool = False
    """Of a restart: its launch has empty compile caches."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, in words, with the exit code for the one who asked."""

    reason: str
    hint: str
    exit_code: ExitCode


_NO_PROFILE = Refusal("a backend needs a profile", "see `arcops profile list`", ExitCode.USAGE)


@dataclass(frozen=True, slots=True)
class AlreadySo:
    """Nothing to do: what was asked for is the case."""

    summary: str


def to_restart(state: State) -> str | Refusal:
    """The profile that a restart would run anew, or why there is none."""
    if state.order.goal is Goal.STOP or state.order.profile is None:
        return Refusal("nothing is ordered to run", "use `arcops switch PROFILE`", ExitCode.NOT_RUNNING)
    return state.order.profile


def admit(
    state: State, request: Request, order_id: int, running: str | None, *, as_ordered: bool = True
) -> Decision | Refusal | AlreadySo:
    """Judge a request. `running` is the launch id of the backend there is, if any.

    `as_ordered`: it was launched as the standing order says now, and not before the order's files were read anew.
    """
    if request.verb is Verb.STOP:
        return _admit_stop(state, request, order_id, running)
    if (state.phase in UNDER_WAY or not state.order.committed) and not request.replace:
        doing = f"{state.phase.value} ({name_of(state.order)}: {state.reason})"
        return Refusal(
            f"another order is under way: {doing}", "wait, or use --replace, or `arcops stop`", ExitCode.BUSY
        )
    if request.verb is Verb.RESTART:
        return _admit_restart(state, request, order_id, running)
    return _admit_switch(state, request, order_id, running, as_ordered)


def _admit_stop(state: State, request: Request, order_id: int, running: str | None) -> Decision | AlreadySo:
    if state.order.goal is Goal.STOP and state.phase is Phase.STOPPED and running is None:
        return AlreadySo("already stopped")
    order = Order(order_id, Goal.STOP, drain=request.drain, replaces=running, committed=False)
    return accept(state, order)


def _admit_restart(state: State, request: Request, order_id: int, running: str | None) -> Decision | Refusal:
    ordered = to_restart(state)
    if isinstance(ordered, Refusal):
        return ordered
    if request.launch is None:
        return _NO_PROFILE
    return _switch_to(state, request.launch, request, order_id, running)


def _admit_switch(
    state: State, request: Request, order_id: int, running: str | None, as_ordered: bool
) -> Decision | Refusal | AlreadySo:
    launch = request.launch
    if launch is None:
        return _NO_PROFILE
    same = state.order.wanted == launch and as_ordered
    if state.phase is Phase.SERVING and state.order.committed and same and running is not None:
        if state.order.stand_in is None:
            return AlreadySo(f"{launch.profile} serves already")
        return _keep_stand_in(state, launch, request, order_id)
    return _switch_to(state, launch, request, order_id, running)


def _keep_stand_in(state: State, launch: Launch, request: Request, order_id: int) -> Decision:
    """What stands in for the ordered profile is ordered itself: it goes on serving, as the order from here on."""
    order = Order(order_id, Goal.RUN, launch.profile, launch, fallback=request.fallback)
    kept = replace(state, order=order, launched_for=order_id, failures=(), card_faults=())
    return settle(kept, Outcome(order_id, ExitCode.DONE, f"{launch.profile} serves, now as ordered"), stands=True)


def _switch_to(state: State, launch: Launch, request: Request, order_id: int, running: str | None) -> Decision:
    order = Order(
        id=order_id,
        goal=Goal.RUN,
        profile=launch.profile,
        launch=launch,
        fallback=request.fallback,
        drain=request.drain,
        replaces=running,
        committed=False,
        previous=_standing(state.order),
        returns=request.rollback and _worth_returning_to(state),
        fresh_caches=request.fresh_caches,
    )
    return accept(state, order)


def _standing(order: Order) -> Order:
    """What is in force again if a new order comes to nothing: the last one that stood. A stop stands at once."""
    if order.committed or order.goal is Goal.STOP:
        return replace(order, committed=True, previous=None, returns=False)
    return order.previous or NOTHING_ORDERED


def _worth_returning_to(state: State) -> bool:
    """Would the standing order be launched again? Not one that was to stop, or is latched, or is bound to fail."""
    if state.order.goal is Goal.STOP:
        return False
    if not state.order.committed:
        return state.order.returns
    bound_to_fail = state.failure is not None and state.failure.deterministic
    return state.phase not in LATCHED and not bound_to_fail


def accept(state: State, order: Order) -> Decision:
    """The order is in force from here on, and what it overtakes is told so.

    A failure that is being cleaned up belongs to the order before, and is not held against this one. Where the standing
    order is latched or waits for its next attempt it stays on record, for an order that is refused changes nothing.
    """
    overtaken = state.order
    kept = state.failure if state.phase in (*LATCHED, Phase.BACKOFF) else None
    stopping = None if state.phase is Phase.STUCK else state.stopping
    state = replace(state, order=order, failure=kept, stopping=stopping, asked_at=None)
    if overtaken.committed or state.outcome_of(overtaken.id) is not None:
        return Decision(state)
    new = "stop" if order.goal is Goal.STOP else f"run {name_of(order)}"
    outcome = Outcome(overtaken.id, ExitCode.FAILED, f"overtaken by the order to {new}", superseded=True)
    # A stop that is overtaken is what the new order falls back to, so it has to be found again after a crash.
    return settle(state, outcome, stands=overtaken.goal is Goal.STOP)
