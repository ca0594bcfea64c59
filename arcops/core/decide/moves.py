"""The few moves that every phase is made of."""

from dataclasses import dataclass, replace

from arcops.core.action import Action, KeepEvidence, Settle
from arcops.core.decide.befallen import blamed
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase, check_move
from arcops.core.quantity import Known, Reading, T
from arcops.core.state import Goal, Order, Outcome, State, Stopping
from arcops.core.world import Backend, Cause, Ending, World

SETTLED_KEPT = 16
"""Outcomes that are remembered for those who wait for them."""
BRIEF = 100
"""Characters of an earlier reason that are repeated in a later one."""
KEEPER_SILENT = 30.0
"""Seconds within which a launch that was written down must show a process, and the keeper the pid of the main one."""

_FORGIVES = frozenset({Phase.STOPPED, Phase.BLOCKED, Phase.STARTING, Phase.SERVING})
"""Phases in which an earlier failure is history: what happens from here on is judged for itself."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and what to do on the way there, in order."""

    state: State
    actions: tuple[Action, ...] = ()


def stay(state: State, *actions: Action, reason: str | None = None) -> Decision:
    """No move; the reason may become more exact."""
    return Decision(state if reason is None else replace(state, reason=reason), actions)


def move(state: State, world: World, phase: Phase, reason: str, *actions: Action) -> Decision:
    """A legal move, with fresh clocks for the new phase."""
    check_move(state.phase, phase)
    moved = replace(
        state,
        phase=phase,
        since=world.now,
        reason=reason,
        progress_at=world.now,
        shown_at=world.now,
        unseen=0.0,
        fallback_awaited=False,
        by_answer=False,
        activity=None,
        asked_at=None,
        retry_at=None,
        stopping=None,
        failure=None if phase in _FORGIVES else state.failure,
    )
    return Decision(moved, actions)


def take_down(state: State, world: World, reason: str, failure: Ending | None = None) -> Decision:
    """Begin to stop the backend; `failure` says that nobody asked for it, and what is to be seen of it is kept."""
    if failure is not None:
        blame = blamed(world, failure)
        reason, failure = reason if blame == failure else blame.summary, blame
    kept = () if failure is None else (KeepEvidence(failure.cause.value),)
    decision = move(state, world, Phase.STOPPING, reason, *kept)
    # Seen now, before the first SIGTERM: an engine may have ended by the next look.
    ran = world.backend is not None and world.backend.proven and bool(world.backend.engines)
    stopping = Stopping(began=world.now, ran=ran)
    return Decision(replace(decision.state, stopping=stopping, failure=failure or state.failure), decision.actions)


def lose(state: State, world: World, ending: Ending) -> Decision:
    """The launch is not to be found; it is a failure, unless another order has come since and is not to blame."""
    return take_down(state, world, ending.summary, None if overtaken(state) else ending)


def overtaken(state: State) -> bool:
    """Another order has come since the backend was launched, or adopted."""
    return state.launched_for is not None and state.launched_for != state.order.id


def settle(state: State, outcome: Outcome, *, stands: bool) -> Decision:
    """Remember an outcome for those who wait, and have it written down."""
    kept = (*state.settled, outcome)[-SETTLED_KEPT:]
    return Decision(replace(state, settled=kept), (Settle(outcome, stands=stands),))


def unwanted(order: Order, backend: Backend) -> str | None:
    """Why this backend has to go, or None if it is what the order asks for."""
    if order.goal is Goal.STOP:
        return "ordered to stop"
    wanted = order.wanted_profile
    if backend.launch_id == order.replaces or backend.launch.profile != wanted:
        verb = "restart" if backend.launch.profile == wanted else "switch to"
        return f"ordered to {verb} {wanted}"
    return None


def ended(backend: Backend) -> bool:
    """The main process has ended."""
    return backend.exit_code is not None or (backend.main is not None and not backend.main_alive)


def unborn(backend: Backend, now: float) -> bool:
    """Written down, and no process has shown yet; it may still come up, whoever started it may have died meanwhile."""
    shown = (
        backend.main is not None or backend.exit_code is not None or backend.keeper_alive or len(backend.processes) > 0
    )
    return not shown and 0 <= now - backend.spawned_at < KEEPER_SILENT


def patience(order: Order, backend: Backend) -> float:
    """Seconds that open requests are given before SIGTERM; vLLM's own --shutdown-timeout is the rest of the drain."""
    limits = backend.launch.limits
    return max(0.0, (limits.drain if order.drain is None else order.drain) - limits.shutdown_timeout)


def ending_of(world: World, backend: Backend) -> Ending:
    """The diagnosis of an ended backend; a plain one where the log could not be read."""
    if world.ending is not None and world.ending.launch_id == backend.launch_id:
        return world.ending
    return unread_ending(backend.launch_id)


def unread_ending(launch_id: str) -> Ending:
    """What is said of an ended backend until its log has been read."""
    return Ending(
        launch_id, Cause.ENGINE_DIED, "the backend ended, and its log could not be read", "see `arcops logs`", False
    )


def lost_ending() -> Ending:
    """The launch record went away under a backend: nobody can say what became of it."""
    summary = "the launch is not to be found any more: its record is gone"
    return Ending("", Cause.LOST, summary, "see `arcops events`", deterministic=False)


def own_ending(backend: Backend, cause: Cause, summary: str, hint: str, *, deterministic: bool = False) -> Ending:
    """An ending that the supervisor itself has judged."""
    return Ending(backend.launch_id, cause, summary, hint, deterministic)


def fresh(reading: Reading[T], after: float) -> T | None:
    """The value if it was read at or after `after`, else None: old news proves nothing."""
    return reading.value if isinstance(reading, Known) and reading.at >= after else None


def with_offer(order: Order, ending: Ending) -> Ending:
    """`ending`, its hint with the way out that a draft which is to blame leaves: the same launch without it."""
    offer = offer_of(order, ending)
    if offer in ending.hint:
        return ending
    return replace(ending, hint=f"{ending.hint}{offer}".removeprefix("; "))


def offer_of(order: Order, ending: Ending) -> str:
    """What can be ordered instead where the draft is to blame: to be put behind a reason; empty where nothing can."""
    plain = order.wanted.without_draft if order.wanted is not None else None
    if not ending.points_at_draft or plain is None:
        return ""
    return f"; `arcops switch {plain}` is the same launch without the draft"


def failed_outcome(order: Order, ending: Ending, returned_to: str | None, also: str = "") -> Outcome:
    """What the one who ordered a switch is told when it failed; `also` is what comes of it, put behind the hint."""
    return Outcome(
        order_id=order.id,
        exit_code=ExitCode.WEDGED if ending.cause is Cause.GPU_WEDGED else ExitCode.BACKEND_FAILED,
        summary=f"{order.profile}: {ending.summary}",
        hint="; ".join(part for part in (ending.hint, also) if part),
        evidence=ending.evidence,
        returned_to=returned_to,
        cause=ending.cause,
    )


def back_from(state: State) -> str:
    """Why this is what runs, where it was not simply ordered: to be put behind a reason.

    It stands in for what was; or the order is in force again, and nothing else was ordered since.
    """
    order, last = state.order, state.settled[-1] if state.settled else None
    instead = ""
    if order.stand_in is not None:
        instead = f", in place of {order.profile} ({shortened(order.stand_in.because)})"
    if last is None or not order.committed or last.returned_to != name_of(order):
        return instead
    return f"{instead} (back after order {last.order_id}: {shortened(last.summary)})"


def shortened(text: str) -> str:
    """As much of a summary as fits behind another reason."""
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"


def name_of(order: Order) -> str:
    """What an order leads to, in one word: a profile (of what stands in, where it does), or `stopped`."""
    return order.wanted_profile or "stopped"
