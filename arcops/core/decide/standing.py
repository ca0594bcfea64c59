"""A backend that serves: watch it, doubt it, and let it go when another is ordered."""

from dataclasses import replace

from arcops.core.action import Ask
from arcops.core.decide.moves import (
    Decision,
    ended,
    ending_of,
    move,
    own_ending,
    patience,
    stay,
    take_down,
    unwanted,
)
from arcops.core.liveness import serving_progress
from arcops.core.phase import Phase
from arcops.core.quantity import Known
from arcops.core.state import State
from arcops.core.world import AnswerState, Backend, World


def serving(state: State, world: World) -> Decision:
    """All is well until it ends, is not wanted any more, or shows no progress."""
    backend = world.backend
    if backend is None:
        return take_down(state, world, "the launch is not to be found any more")
    if ended(backend):
        return _fell(state, world, backend)
    if why := unwanted(state.order, backend):
        return _let_go(state, world, backend, why)
    return _watch(state, world, backend)


def suspect(state: State, world: World) -> Decision:
    """Work in flight without progress: one question with a deadline decides."""
    backend = world.backend
    if backend is None:
        return take_down(state, world, "the launch is not to be found any more")
    if ended(backend):
        return _fell(state, world, backend)
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if isinstance(world.activity, Known) and serving_progress(state.activity, world.activity.value):
        return _recover(state, world, "progress again")
    deadline = backend.launch.limits.probe
    if state.asked_at is None:
        return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
    answer = world.answer
    if answer is not None and answer.launch_id == backend.launch_id and answer.state is AnswerState.RIGHT:
        return _recover(state, world, "it answered the probe")
    if world.now - state.asked_at <= deadline:
        return stay(state)
    silent = world.now - state.progress_at
    hang = own_ending(
        backend,
        "hang",
        f"no progress for {silent:.0f} s, and no answer to the probe within {deadline:.0f} s",
        "see `arcops logs`; limits.stall_after and limits.probe in the profile set the limits",
    )
    return take_down(state, world, hang.summary, hang)


def _fell(state: State, world: World, backend: Backend) -> Decision:
    """It ended, and nobody had asked for it: exit code 0 does not mean a wanted stop."""
    ending = ending_of(world, backend)
    return take_down(state, world, ending.summary, ending)


def _let_go(state: State, world: World, backend: Backend, why: str) -> Decision:
    """Give open requests their time. vLLM's own --shutdown-timeout is the last part of it, when it refuses new ones."""
    if patience(state.order, backend) <= 0 or (isinstance(world.requests, Known) and world.requests.value == 0):
        return take_down(state, world, why)
    return move(state, world, Phase.DRAINING, f"{why}; {_open_requests(world)}")


def _open_requests(world: World) -> str:
    if isinstance(world.requests, Known):
        return f"{world.requests.value} requests are open"
    return f"open requests unknown ({world.requests.reason})"


def _watch(state: State, world: World, backend: Backend) -> Decision:
    """Idle is fine; work in flight must move something; a server that says nothing at all is doubted too."""
    activity, requests = world.activity, world.requests
    if isinstance(activity, Known) and isinstance(requests, Known):
        if serving_progress(state.activity, activity.value) or requests.value == 0:
            return stay(replace(state, activity=activity.value, progress_at=world.now))
        doubt = f"{requests.value} requests in flight and no progress"
    else:
        doubt = "the server does not answer"
    silent = world.now - state.progress_at
    if silent <= backend.launch.limits.stall_after:
        return stay(state)
    moved = move(state, world, Phase.SUSPECT, f"{doubt} for {silent:.0f} s")
    return Decision(replace(moved.state, activity=state.activity, progress_at=state.progress_at), moved.actions)


def _recover(state: State, world: World, reason: str) -> Decision:
    return move(state, world, Phase.SERVING, reason)
