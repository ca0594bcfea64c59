"""A backend that serves: watch it, doubt it, and let it go when another is ordered."""

from dataclasses import replace

from arcops.core.action import Ask
from arcops.core.decide.moves import (
    Decision,
    ended,
    ending_of,
    lose,
    lost_ending,
    move,
    own_ending,
    patience,
    stay,
    take_down,
    unwanted,
)
from arcops.core.liveness import serving_progress
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import State
from arcops.core.world import AnswerState, Backend, Cause, World


def serving(state: State, world: World) -> Decision:
    """All is well until it ends, is not wanted any more, or shows no progress."""
    backend = world.backend
    if backend is None:
        return lose(state, world, lost_ending())
    if why := unwanted(state.order, backend):
        return _let_go(state, world, backend, why)
    if ended(backend):
        return _fell(state, world, backend)
    return _watch(state, world, backend)


def suspect(state: State, world: World) -> Decision:
    """Work in flight without progress: one question with a deadline decides."""
    backend = world.backend
    if backend is None:
        return lose(state, world, lost_ending())
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        return _fell(state, world, backend)
    if isinstance(world.activity, Known) and serving_progress(state.activity, world.activity.value):
        return _recover(state, world, "progress again")
    deadline = backend.launch.limits.probe
    if state.asked_at is None:
        return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
    answer = world.answer
    fate = answer.state if answer is not None and answer.launch_id == backend.launch_id else AnswerState.NOT_ASKED
    if fate is AnswerState.RIGHT:
        return _recover(state, world, "it answered the probe")
    if fate is AnswerState.WRONG:
        return _hang(state, world, backend, f"the probe failed: {answer.detail if answer else ''}")
    if fate is AnswerState.LATE or world.now - state.asked_at > deadline:
        return _hang(state, world, backend, f"no answer to the probe within {deadline:.0f} s")
    return stay(state)


def _hang(state: State, world: World, backend: Backend, probe: str) -> Decision:
    """Doubted, asked, and no good answer: never one strike."""
    silent = world.now - state.progress_at
    hang = own_ending(
        backend,
        Cause.HANG,
        f"no progress for {silent:.0f} s, and {probe}",
        "see `arcops logs`; limits.stall_after and limits.probe in the profile set the limits",
    )
    return take_down(state, world, hang.summary, hang)


def _fell(state: State, world: World, backend: Backend) -> Decision:
    """It ended, and nobody had asked for it: exit code 0 does not mean a wanted stop."""
    ending = ending_of(world, backend)
    return take_down(state, world, ending.summary, ending)


def _let_go(state: State, world: World, backend: Backend, why: str) -> Decision:
    """Give open requests their time. vLLM's own --shutdown-timeout is the last part of it, when it refuses new ones."""
    if ended(backend):
        return take_down(state, world, f"{why}; the backend has ended already")
    if patience(state.order, backend) <= 0 or (isinstance(world.requests, Known) and world.requests.value == 0):
        return take_down(state, world, why)
    return move(state, world, Phase.DRAINING, f"{why}; {_open_requests(world)}")


def _open_requests(world: World) -> str:
    if isinstance(world.requests, Known):
        return f"{world.requests.value} requests are open"
    return f"open requests unknown ({world.requests.reason})"


def _watch(state: State, world: World, backend: Backend) -> Decision:
    """Idle is fine; work in flight must move something; a server that says nothing at all is doubted too."""
    activity, doubt = world.activity, _doubt(world)
    if isinstance(activity, Known) and (doubt is None or serving_progress(state.activity, activity.value)):
        return stay(replace(state, activity=activity.value, progress_at=world.now))
    silent = world.now - state.progress_at
    if silent <= backend.launch.limits.stall_after:
        return stay(state)
    moved = move(state, world, Phase.SUSPECT, f"{doubt} for {silent:.0f} s")
    return Decision(replace(moved.state, activity=state.activity, progress_at=state.progress_at), moved.actions)


def _doubt(world: World) -> str | None:
    """Why a backend that shows no progress is not simply idle; None if it is."""
    if isinstance(world.activity, Unknown):
        return f"no sign of life can be read ({world.activity.reason})"
    if isinstance(world.requests, Unknown):
        return f"nobody can tell whether requests are open ({world.requests.reason}), and there was no progress"
    if world.requests.value > 0:
        return f"{world.requests.value} requests in flight and no progress"
    return None


def _recover(state: State, world: World, reason: str) -> Decision:
    return move(state, world, Phase.SERVING, reason)
