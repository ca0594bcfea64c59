"""Nothing of ours runs: rest, wait, or launch; and what to do with a backend that turns up all the same."""

from dataclasses import replace

from arcops.core.action import Look, Prepare, ReleaseLocks, Spawn, TakeLocks
from arcops.core.decide import doubt
from arcops.core.decide.lasting import for_good, for_good_after_all, instead
from arcops.core.decide.moves import (
    Decision,
    back_from,
    ended,
    ending_of,
    move,
    name_of,
    settle,
    stay,
    take_down,
    unborn,
    unwanted,
)
from arcops.core.decide.sight import END_HOLDER, LET_LOOK, LOOK_SOON, Sight, lessons, now_and_then, obstacle
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import NOTHING_ORDERED, Goal, Order, Outcome, State
from arcops.core.world import Backend, Cause, Ending, World


def stopped(state: State, world: World) -> Decision:
    """Nothing runs, as far as we remember; but an earlier supervisor may have left a backend."""
    if world.backend is not None:
        return _find(state, world, world.backend)
    if state.order.goal is Goal.STOP:
        return _rest(state, world)
    return launch_when_clear(state, world)


def blocked(state: State, world: World) -> Decision:
    """Somebody else holds what the launch needs: wait for them, or for a new order."""
    if world.backend is not None:
        return _find(state, world, world.backend)
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    return launch_when_clear(state, world)


def backoff(state: State, world: World) -> Decision:
    """Wait before the next attempt; a new order does not wait."""
    if world.backend is not None:
        return take_down(state, world, f"launch {world.backend.launch_id} is still there")
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    if state.order.committed and state.retry_at is not None and world.now < state.retry_at:
        return stay(state)
    return launch_when_clear(state, world)


def latched(state: State, world: World) -> Decision:
    """Failed or wedged: nothing happens until somebody orders it, and an order that is refused changes nothing."""
    if world.backend is not None:
        # Ending what is left over is no new attempt: the latch holds.
        failure = None if state.failure is None else replace(state.failure, deterministic=True)
        return take_down(state, world, f"launch {world.backend.launch_id} is still there", failure)
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    if state.order.committed:
        return for_good_after_all(state, world) or _release(state, world)
    return launch_when_clear(state, world)


def launch_when_clear(state: State, world: World) -> Decision:
    """Law 3: no launch without the lock, a clean card and a free port, all three seen after the lock was ours.

    An order is not refused on what was seen before it came either: its holder may have been ended a moment ago.
    """
    launch = state.order.wanted
    if launch is None and state.order.resolving:
        return stay(state, reason=f"reading profile {name_of(state.order)}")
    if launch is None:
        return _unresolved(state, world)
    if state.asked_at is None:
        reason = f"about to launch {launch.profile}" if state.phase is Phase.STOPPED else None
        return stay(replace(state, asked_at=world.now), TakeLocks(launch), reason=reason)
    if isinstance(world.lock, Unknown):
        return _block(state, world, world.lock.reason, TakeLocks(launch), todo=LET_LOOK)
    lock = world.lock.value
    if lock.holders:
        return _block(state, world, "; ".join(map(str, lock.holders)), TakeLocks(launch))
    if not lock.ours:
        return stay(state, TakeLocks(launch))
    # The script may take a minute: before the look, which would be old by then, and never within a turn.
    if isinstance(world.setup, Unknown):
        return _prepare(state, world, launch, world.setup, state.asked_at)
    # Seen since the lock was ours, since what ran before had ended or the order came, and not long ago.
    began = state.since if state.phase is Phase.CLEARING else max(state.since, state.asked_at)
    found = obstacle(launch, world.port, world.card, max(lock.since, doubt.oldest_look(state, world, launch, began)))
    if found is None:
        return stay(state, Look())
    if found.words:
        return _wait(state, world, found, state.asked_at)
    tried = doubt.trial(state, world, launch)
    if isinstance(tried, Decision):
        return tried
    if isinstance(tried, Ending):
        return _give_up(state, world, tried, ExitCode.WEDGED)
    launched, learnt = replace(state, launched_for=state.order.id), lessons(launch, world.card, float("-inf"))
    reason = f"launching {launch.profile}{tried}{back_from(state)}"
    return move(launched, world, Phase.STARTING, reason, *learnt, Spawn(launch))


def _wait(state: State, world: World, found: Sight, asked_at: float) -> Decision:
    """Something is in the way; memory that nobody is named for has a moment to come back."""
    if world.now - asked_at >= found.grace:
        return _block(state, world, found.words, *now_and_then(world), todo=found.todo, code=found.code)
    waiting = None if state.phase is Phase.BLOCKED else f"waiting whether the memory comes back: {found.words}"
    return stay(state, *now_and_then(world, LOOK_SOON), reason=waiting)


def _prepare(state: State, world: World, launch: Launch, setup: Unknown, asked_at: float) -> Decision:
    """Have the setup script run; one that has failed since the order tried the lock would not do better again."""
    if setup.at < asked_at:
        return stay(state, Prepare(launch), reason=f"running the setup script {launch.setup}")
    ending = Ending("", Cause.SPAWN_FAILED, setup.reason, "see `arcops profile check`", deterministic=True)
    return _give_up(state, world, ending, ExitCode.INVALID)


def _give_up(state: State, world: World, ending: Ending, code: ExitCode) -> Decision:
    """What was found before a launch speaks against it for good: a switch is refused, a standing order latches."""
    if not _stays(state):
        return _refuse(state, ending.summary, code, ending.hint)
    told = "; ".join(part for part in (ending.hint, instead(state.order, ending)) if part)
    stands = _commit(state, ending.summary, code, told)
    given_up = for_good(stands.state, world, ending, ending.summary)
    return Decision(given_up.state, (*stands.actions, ReleaseLocks(), *given_up.actions))


def stop_here(state: State, world: World) -> Decision:
    """An order to stop, and nothing runs (any more)."""
    reason = f"stopped as ordered{back_from(state)}"
    moved = move(replace(state, failures=(), card_faults=()), world, Phase.STOPPED, reason)
    rested = _rest(moved.state, world)
    return Decision(rested.state, moved.actions + rested.actions)


def _refuse(state: State, reason: str, exit_code: ExitCode, hint: str) -> Decision:
    """A switch that cannot go ahead is given up, and what was in force before is in force again."""
    order, previous = state.order, state.order.previous or NOTHING_ORDERED
    summary = f"{order.profile} was refused: {reason}"
    outcome = Outcome(order.id, exit_code, summary, hint, returned_to=name_of(previous))
    done = settle(replace(state, order=previous, reason=summary, asked_at=None), outcome, stands=False)
    return Decision(done.state, done.actions)


def _stays(state: State) -> bool:
    """The order in force stays in force, though it cannot go ahead: it stood before, or nothing is to be returned to.

    Without a way back, what served before is not launched again once it was stopped for this order. (Where nothing was
    stopped, a refusal changes nothing.)
    """
    order = state.order
    if order.committed:
        return True
    stopped_for_it = state.phase in (Phase.CLEARING, Phase.STOPPED)
    return stopped_for_it and not order.returns and order.previous is not None and order.previous.goal is Goal.RUN


def _commit(state: State, summary: str, exit_code: ExitCode, hint: str) -> Decision:
    """The order stands, and whoever waits for it is told that it cannot go ahead."""
    order = state.order
    if order.committed:
        return stay(state)
    committed = replace(order, committed=True, previous=None, returns=False)
    stands = replace(state, order=committed, failures=(), card_faults=())
    return settle(stands, Outcome(order.id, exit_code, f"{order.profile}: {summary}", hint), stands=True)


def _find(state: State, world: World, backend: Backend) -> Decision:
    """A backend of an earlier supervisor: go on with it, or end it."""
    if unborn(backend, world.now - state.unseen):
        return stay(state, reason=f"launch {backend.launch_id} was being started; waiting for its processes")
    why = unwanted(state.order, backend)
    if backend.stopping:
        # SIGTERM was sent, so that nothing is to be drained or adopted any more; and nothing has failed.
        return take_down(state, world, why or f"launch {backend.launch_id} was being stopped; it is launched anew")
    if why is None and ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, f"found dead: {ending.summary}", ending)
    if why is None and (backend.main_alive or backend.keeper_alive):
        # What was ordered is what was launched; the profile may have been edited, or removed, since.
        ordered = replace(state, order=_as_launched(state.order, backend.launch), launched_for=state.order.id)
        return move(ordered, world, Phase.STARTING, f"adopting launch {backend.launch_id}, found running")
    if why is not None and backend.proven and backend.main_alive:
        return move(state, world, Phase.DRAINING, why)
    return take_down(state, world, why or f"launch {backend.launch_id} is half started")


def _as_launched(order: Order, launch: Launch) -> Order:
    """The order with what runs for it already: what was ordered, or what stands in for that."""
    if order.stand_in is not None:
        return replace(order, fallback=launch)
    return replace(order, launch=launch, problem="", resolving=False)


def _rest(state: State, world: World) -> Decision:
    """Stopped, and meant to be: hold nothing, and tell whoever waits."""
    released = _release(state, world)
    if released.state.order.committed:
        return released
    order = replace(state.order, committed=True, previous=None)
    done = settle(replace(released.state, order=order), Outcome(order.id, ExitCode.DONE, "stopped"), stands=True)
    return Decision(done.state, released.actions + done.actions)


def _release(state: State, world: World) -> Decision:
    """Nothing of ours runs: the locks go back. Where nobody can tell whether we hold them, they go back too."""
    if isinstance(world.lock, Known) and not world.lock.value.ours:
        return stay(state)
    return stay(state, ReleaseLocks())


def _unresolved(state: State, world: World) -> Decision:
    """The profile cannot be launched as it stands (it was edited or removed since it was ordered)."""
    reason = state.order.problem or f"profile {name_of(state.order)} cannot be resolved"
    hint = "see `arcops profile check`"
    if not _stays(state):
        return _refuse(state, reason, ExitCode.INVALID, hint)
    stands = _commit(state, reason, ExitCode.INVALID, hint)
    failed = move(stands.state, world, Phase.FAILED, f"{reason}{back_from(state)}")
    return Decision(failed.state, stands.actions + failed.actions)


def _block(
    state: State,
    world: World,
    reason: str,
    *actions: TakeLocks | Look,
    todo: str = END_HOLDER,
    code: ExitCode = ExitCode.BLOCKED,
) -> Decision:
    """Somebody else is there, or the card is not. A switch that is not committed is refused; a standing order waits."""
    if not _stays(state):
        return _refuse(state, reason, code, f"{todo}, then try again")
    stands = _commit(state, reason, code, f"{todo}, and it goes ahead; or order something else")
    reason = f"{reason}{back_from(state)}"
    if state.phase is Phase.BLOCKED:
        return stay(state, *actions, reason=reason)
    blocked = move(stands.state, world, Phase.BLOCKED, reason, *actions)
    return Decision(blocked.state, stands.actions + blocked.actions)
