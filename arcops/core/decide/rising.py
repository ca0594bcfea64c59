"""The way up: from nothing to a backend whose first answer came."""

from dataclasses import replace

from arcops.core.action import Ask, Look, MarkProven, ReleaseLocks, Spawn, TakeLocks
from arcops.core.decide.moves import (
    Decision,
    ended,
    ending_of,
    fresh,
    move,
    name_of,
    own_ending,
    settle,
    stay,
    take_down,
    unwanted,
)
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.liveness import starting_progress
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, Outcome, State
from arcops.core.world import AnswerState, Backend, World

LOOK_KEEPS = 3.0
"""Seconds after which a look at port and card is too old to launch on."""
KEEPER_SILENT = 30.0
"""Seconds within which the keeper must have said the pid of the main process."""


def stopped(state: State, world: World) -> Decision:
    """Nothing runs, as far as we remember; but an earlier supervisor may have left a backend."""
    if world.backend is not None:
        return _find(state, world, world.backend)
    if state.order.goal is Goal.STOP:
        return _rest(state, world)
    return launch_when_clear(state, world)


def blocked(state: State, world: World) -> Decision:
    """Somebody else holds what the launch needs: wait for them, or for a new order."""
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    return launch_when_clear(state, world)


def backoff(state: State, world: World) -> Decision:
    """Wait before the next attempt."""
    if world.backend is not None:
        return take_down(state, world, f"launch {world.backend.launch_id} is still there")
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    if state.retry_at is not None and world.now < state.retry_at:
        return stay(state)
    return launch_when_clear(replace(state, failure=None, retry_at=None), world)


def latched(state: State, world: World) -> Decision:
    """Failed or wedged: nothing happens until somebody orders it (an order clears `failure`)."""
    if world.backend is not None:
        return take_down(state, world, f"launch {world.backend.launch_id} is still there")
    if state.order.goal is Goal.STOP:
        return stop_here(state, world)
    if state.failure is not None:
        return _release(state, world)
    return launch_when_clear(state, world)


def launch_when_clear(state: State, world: World) -> Decision:
    """Law 3: no launch without the lock, a clean card and a free port, all three seen after the lock was ours."""
    launch = state.order.launch
    if launch is None:
        return _unresolved(state, world)
    if isinstance(world.lock, Unknown):
        return _block(state, world, f"cannot tell who holds the lock: {world.lock.reason}")
    lock = world.lock.value
    if lock.holders:
        return _block(state, world, "; ".join(map(str, lock.holders)), TakeLocks(launch))
    if not lock.ours:
        return stay(state, TakeLocks(launch))
    since = max(lock.since, world.now - LOOK_KEEPS)
    return _launch_on_sight(state, world, launch, since)


def _launch_on_sight(state: State, world: World, launch: Launch, since: float) -> Decision:
    """The lock is ours; what do port and card say?"""
    if any(isinstance(reading, Unknown) and reading.at >= since for reading in (world.port, world.card)):
        reasons = [reading.reason for reading in (world.port, world.card) if isinstance(reading, Unknown)]
        return _block(state, world, "cannot tell whether port and card are free: " + "; ".join(reasons), Look())
    port, card = fresh(world.port, since), fresh(world.card, since)
    if port is None or card is None:
        return stay(state, Look())
    foreign = (*port.listeners, *(holder for holder in card.holders if holder.command not in launch.allow_holders))
    if foreign:
        return _block(state, world, "; ".join(map(str, foreign)), Look())
    if not port.bindable:
        return _block(state, world, f"{launch.host}:{launch.port} cannot be bound, and nobody seems to listen", Look())
    return move(state, world, Phase.STARTING, f"launching {launch.profile}", Spawn(launch))


def starting(state: State, world: World) -> Decision:
    """The process is up; wait until HTTP answers, as long as there is progress."""
    backend = world.backend
    if backend is None:
        return _lost(state, world)
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, ending.summary, ending)
    if backend.main is None and world.now - state.since > KEEPER_SILENT:
        silent = own_ending(backend, "spawn_failed", "the backend's process did not come up", "see `arcops logs`")
        return take_down(state, world, silent.summary, silent)
    if isinstance(world.server, Known) and world.server.value.healthy:
        return _admit_listener(state, world, backend)
    return _await_progress(state, world, backend)


def _admit_listener(state: State, world: World, backend: Backend) -> Decision:
    """Something answers on the port: is it ours?"""
    port = fresh(world.port, state.since)
    if port is None or not (port.ours or port.listeners):
        return _await_progress(state, world, backend).then(Look())
    if port.ours:
        return move(state, world, Phase.CHECKING, "HTTP answers; checking identity and first answer")
    stranger = own_ending(
        backend,
        "wrong_listener",
        f"somebody else answers on the port: {'; '.join(map(str, port.listeners))}",
        "end that server, or give the profile another port",
    )
    return take_down(state, world, stranger.summary, stranger)


def _await_progress(state: State, world: World, backend: Backend) -> Decision:
    """A stall limit, never a total one: big models take minutes."""
    if isinstance(world.activity, Known) and starting_progress(state.activity, world.activity.value):
        return stay(replace(state, activity=world.activity.value, progress_at=world.now))
    limit = backend.launch.limits.start_stall
    if world.now - state.progress_at <= limit:
        return stay(state)
    stalled = own_ending(
        backend,
        "start_stalled",
        f"the start showed no progress for {limit:.0f} s (no log line, no processor time)",
        "see `arcops logs`; limits.start_stall in the profile sets the limit",
    )
    return take_down(state, world, stalled.summary, stalled)


def checking(state: State, world: World) -> Decision:
    """HTTP answers: is it the model that was ordered, and does it answer?"""
    backend = world.backend
    if backend is None:
        return _lost(state, world)
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, ending.summary, ending)
    server = fresh(world.server, state.since)
    if server is None:
        return _await_identity(state, world, backend)
    if backend.launch.served_name not in server.models:
        served = ", ".join(server.models) or "nothing"
        wrong = own_ending(
            backend,
            "wrong_identity",
            f"the server serves {served}, not {backend.launch.served_name}",
            "compare model.served_name in the profile with /v1/models",
            deterministic=True,
        )
        return take_down(state, world, wrong.summary, wrong)
    if backend.proven:
        return _serve(state, world, f"adopted launch {backend.launch_id}, which serves")
    if not backend.launch.checks.first_answer:
        return _serve(state, world, f"serving {backend.launch.served_name} (first answer not asked for)")
    return _await_answer(state, world, backend)


def _await_identity(state: State, world: World, backend: Backend) -> Decision:
    """/health answered a moment ago; /v1/models has as long as a first answer."""
    limit = backend.launch.limits.probe
    if world.now - state.since <= limit:
        return stay(state)
    silent = own_ending(backend, "wrong_identity", f"/v1/models did not answer for {limit:.0f} s", "see `arcops logs`")
    return take_down(state, world, silent.summary, silent)


def _await_answer(state: State, world: World, backend: Backend) -> Decision:
    """One short question, one deadline."""
    deadline = backend.launch.limits.probe
    if state.asked_at is None:
        return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
    answer = world.answer
    if answer is not None and answer.launch_id == backend.launch_id:
        if answer.state is AnswerState.RIGHT:
            return _serve(state, world, f"serving {backend.launch.served_name}")
        if answer.state in (AnswerState.WRONG, AnswerState.LATE):
            bad = own_ending(backend, "wrong_answer", f"the first answer failed: {answer.detail}", "see `arcops logs`")
            return take_down(state, world, bad.summary, bad)
    if world.now - state.asked_at > deadline + 5:
        late = own_ending(backend, "wrong_answer", f"no first answer within {deadline:.0f} s", "see `arcops logs`")
        return take_down(state, world, late.summary, late)
    return stay(state)


def _serve(state: State, world: World, reason: str) -> Decision:
    """It serves: the order is what the machine is for now."""
    served = move(state, world, Phase.SERVING, reason, MarkProven())
    order = state.order
    if order.committed:
        return served
    committed = replace(served.state, order=replace(order, committed=True, previous=None, returns=False))
    done = settle(committed, Outcome(order.id, ExitCode.DONE, f"{order.profile} serves"), stands=True)
    return Decision(done.state, served.actions + done.actions)


def _find(state: State, world: World, backend: Backend) -> Decision:
    """A backend of an earlier supervisor: go on with it, or end it."""
    why = unwanted(state.order, backend)
    if why is None and not ended(backend) and (backend.main_alive or backend.keeper_alive):
        return move(state, world, Phase.STARTING, f"adopting launch {backend.launch_id}, found running")
    if why is not None and backend.proven and backend.main_alive:
        return move(state, world, Phase.DRAINING, why)
    if why is None and ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, f"found dead: {ending.summary}", ending)
    return take_down(state, world, why or f"launch {backend.launch_id} is half started")


def _lost(state: State, world: World) -> Decision:
    """The launch record went away under a backend: nothing is left to judge, so clear up and begin again."""
    return take_down(state, world, "the launch is not to be found any more")


def _rest(state: State, world: World) -> Decision:
    """Stopped, and meant to be: hold nothing, and tell whoever waits."""
    released = _release(state, world)
    if released.state.order.committed:
        return released
    order = replace(state.order, committed=True, previous=None)
    done = settle(replace(released.state, order=order), Outcome(order.id, ExitCode.DONE, "stopped"), stands=True)
    return Decision(done.state, released.actions + done.actions)


def stop_here(state: State, world: World) -> Decision:
    """An order to stop, and nothing runs (any more)."""
    moved = move(replace(state, failure=None, retry_at=None), world, Phase.STOPPED, "stopped as ordered")
    rested = _rest(moved.state, world)
    return Decision(rested.state, moved.actions + rested.actions)


def _release(state: State, world: World) -> Decision:
    """Nothing of ours runs: the locks go back."""
    if isinstance(world.lock, Known) and world.lock.value.ours:
        return stay(state, ReleaseLocks())
    return stay(state)


def _unresolved(state: State, world: World) -> Decision:
    """The profile cannot be launched as it stands (it was edited or removed since it was ordered)."""
    reason = state.order.problem or f"profile {state.order.profile} cannot be resolved"
    if state.phase is Phase.FAILED:
        return stay(state, reason=reason)
    return move(state, world, Phase.FAILED, reason)


def _block(state: State, world: World, reason: str, *actions: TakeLocks | Look) -> Decision:
    """Somebody else is there. A switch that is not committed is refused; a standing order waits."""
    order = state.order
    if not order.committed and order.previous is not None:
        refused = Outcome(
            order.id, ExitCode.BLOCKED, reason, "end the holder, then try again", returned_to=name_of(order.previous)
        )
        done = settle(replace(state, order=order.previous), refused, stands=False)
        return Decision(replace(done.state, reason=f"{order.profile} was refused: {reason}"), done.actions)
    if state.phase is Phase.BLOCKED:
        return stay(state, *actions, reason=reason)
    return move(state, world, Phase.BLOCKED, reason, *actions)
