"""A backend that serves: watch it, doubt it, and let it go when another is ordered."""

from dataclasses import replace
from typing import assert_never

from arcops.core.action import Ask, KeepEvidence
from arcops.core.decide.befallen import given_up
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
from arcops.core.decide.standstill import cut_short, worth_asking_again
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
    """Doubted for its silence or for an answer: one more question with a deadline decides, never one strike."""
    backend = world.backend
    if backend is None:
        return lose(state, world, lost_ending())
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        return _fell(state, world, backend)
    if isinstance(world.activity, Known) and serving_progress(state.activity, world.activity.value):
        if not state.by_answer:
            return _recover(state, world, "progress again")
        state = replace(state, activity=world.activity.value, progress_at=world.now)
    if state.asked_at is None:
        return Decision(replace(state, asked_at=world.now), (Ask(backend.launch.limits.probe),))
    return _conclude(state, world, backend, state.asked_at)


def _conclude(state: State, world: World, backend: Backend, asked_at: float) -> Decision:
    """What the answer to the one question means. Another answer than the known one is an answer."""
    fate, deadline = _fate(world, backend, asked_at), backend.launch.limits.probe
    match fate:
        case AnswerState.RIGHT | AnswerState.OTHER:
            return _recover(state, world, "it answered the probe")
        case AnswerState.DEGENERATE:
            return _worthless(state, world, backend)
        case AnswerState.WRONG | AnswerState.REFUSED:
            return _hang(state, world, backend, f"the probe failed: {_detail(world)}")
        case AnswerState.LATE if state.progress_at > asked_at:
            return _recover(state, world, "no answer to the probe, but the work of others goes on")
        case AnswerState.LATE if worth_asking_again(state, world, asked_at, deadline):
            return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
        case AnswerState.LATE:
            return _hang(state, world, backend, f"no answer to the probe within {deadline:.0f} s")
        case AnswerState.NOT_ASKED | AnswerState.WAITING:
            return stay(state)
        case _:  # pragma: no cover - pyright proves that it is never reached
            assert_never(fate)


def _fate(world: World, backend: Backend, asked_at: float) -> AnswerState:
    """What came of the question that was put at `asked_at`; one that is not heard of in time is late."""
    answer = world.answer
    fate = answer.state if answer is not None and answer.launch_id == backend.launch_id else AnswerState.NOT_ASKED
    open_still = fate in (AnswerState.NOT_ASKED, AnswerState.WAITING)
    return AnswerState.LATE if open_still and world.now - asked_at > backend.launch.limits.probe else fate


def _detail(world: World) -> str:
    return world.answer.detail if world.answer is not None else ""


def _hang(state: State, world: World, backend: Backend, probe: str) -> Decision:
    """Doubted, asked, and no good answer."""
    before = "a bad answer before" if state.by_answer else f"no progress for {world.now - state.progress_at:.0f} s"
    hang = own_ending(
        backend,
        Cause.HANG,
        probe if given_up(world, backend) is not None else f"{before}, and {probe}",
        "see `arcops logs` and the evidence kept (`arcops events`); limits.stall_after, limits.probe and "
        "checks.idle_probe in the profile set the limits",
    )
    return take_down(state, world, hang.summary, hang)


def _worthless(state: State, world: World, backend: Backend) -> Decision:
    """Asked twice, and both times one token over and over: HTTP says 200, and every answer is worth nothing."""
    bad = own_ending(
        backend,
        Cause.WRONG_ANSWER,
        f"the answers are worthless: {_detail(world)}",
        "see `arcops logs`; if it comes back, suspect a compile cache, a kernel, or the card",
    )
    return take_down(state, world, bad.summary, bad)


def _fell(state: State, world: World, backend: Backend) -> Decision:
    """It ended, and nobody had asked for it: exit code 0 does not mean a wanted stop."""
    ending = ending_of(world, backend)
    return take_down(state, world, ending.summary, ending)


def _let_go(state: State, world: World, backend: Backend, why: str) -> Decision:
    """Give open requests their time. vLLM's own --shutdown-timeout is the last part of it, when it refuses new ones.

    That none was open at the last scrape says nothing of one that has come since: `draining` has it looked at anew.
    """
    if ended(backend):
        return take_down(state, world, f"{why}; the backend has ended already")
    if patience(state.order, backend) <= 0:
        return take_down(state, world, why)
    return move(state, world, Phase.DRAINING, f"{why}; {_open_requests(world)}")


def _open_requests(world: World) -> str:
    if isinstance(world.requests, Known):
        count = world.requests.value
        some = "1 request is open" if count == 1 else f"{count} requests are open"
        return some if count else "seeing whether a request is open"
    return f"open requests unknown ({world.requests.reason})"


def _watch(state: State, world: World, backend: Backend) -> Decision:
    """Work in flight must move something, an idle backend answers when it is asked, and silence of all is doubted."""
    activity, doubt = world.activity, _doubt(world)
    if (wedged := given_up(world, backend)) is not None and wedged.at > state.asked_over:
        moved = _suspect(state, world, f"{wedged}; asking whether it still answers")
        return Decision(replace(moved.state, by_answer=True, asked_over=wedged.at), moved.actions)
    if isinstance(activity, Known) and serving_progress(state.activity, activity.value):
        state = replace(state, activity=activity.value, progress_at=world.now, shown_at=world.now)
    if state.asked_at is not None:
        heard = _hear(state, world, backend, state.asked_at)
        if heard is not None:
            return heard
    if isinstance(activity, Known) and doubt is None:
        return _ask_after(backend.launch.checks.idle_probe, replace(state, progress_at=world.now), world, backend)
    if isinstance(activity, Known) and isinstance(world.requests, Unknown):
        # This vLLM does not say whether it works, and never will: no reason to doubt it, and one to ask.
        return _ask_after(backend.launch.limits.stall_after, state, world, backend)
    # Up to the last reading, and not up to now: it may be long ago.
    silent = activity.at - state.progress_at
    if silent <= backend.launch.limits.stall_after:
        return stay(state)
    return _suspect(state, world, f"{doubt} for {silent:.0f} s")


def _ask_after(seconds: float, state: State, world: World, backend: Backend) -> Decision:
    """Nothing tells whether it would answer: where it has shown nothing for so long, it is asked. 0 is for never."""
    if seconds <= 0 or state.asked_at is not None or world.now - state.shown_at < seconds:
        return stay(state)
    return Decision(replace(state, asked_at=world.now), (Ask(backend.launch.limits.probe),))


def _quiet(world: World) -> str:
    """Why it was asked. (That a request is open by now does not count: the question is one.)"""
    return "it showed no work" if isinstance(world.requests, Unknown) else "it was idle"


def _hear(state: State, world: World, backend: Backend, asked_at: float) -> Decision | None:
    """What came of asking a backend that was quiet; None while nothing did. Its own tokens are progress meanwhile."""
    fate = _fate(world, backend, asked_at)
    match fate:
        case AnswerState.RIGHT | AnswerState.OTHER | AnswerState.REFUSED:
            # A refusal says nothing of the engine, so nothing is held against it; the status tells of it.
            return stay(replace(state, asked_at=None, progress_at=world.now, shown_at=world.now))
        case AnswerState.LATE if state.shown_at > asked_at:
            # It may stand behind somebody's prefill of ten minutes; and that moves.
            return stay(replace(state, asked_at=None))
        case AnswerState.LATE if cut_short(world, asked_at, backend.launch.limits.probe):
            return stay(replace(state, asked_at=None))
        case AnswerState.LATE:
            late = f"{_quiet(world)}, and gave no answer within {backend.launch.limits.probe:.0f} s"
            return _suspect(state, world, late)
        case AnswerState.WRONG | AnswerState.DEGENERATE:
            moved = _suspect(state, world, f"{_quiet(world)}, and its answer was bad: {_detail(world)}")
            return Decision(replace(moved.state, by_answer=True), moved.actions)
        case AnswerState.NOT_ASKED | AnswerState.WAITING:
            return None
        case _:  # pragma: no cover - pyright proves that it is never reached
            assert_never(fate)


def _suspect(state: State, world: World, why: str) -> Decision:
    """Doubt it, and keep what can be seen of it while it is as it is."""
    moved = move(state, world, Phase.SUSPECT, why, KeepEvidence("suspect"))
    # Since it last showed that it works: while nobody asks for anything `progress_at` says only that nobody did.
    quiet_since = state.progress_at if state.asked_at is None else state.shown_at
    return Decision(replace(moved.state, activity=state.activity, progress_at=quiet_since), moved.actions)


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
