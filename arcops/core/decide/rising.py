"""The way up: a process was started, and has to become a backend whose first answer came."""

from dataclasses import replace

from arcops.core.action import Ask, Look, MarkProven
from arcops.core.decide.moves import (
    KEEPER_SILENT,
    Decision,
    back_from,
    ended,
    ending_of,
    fresh,
    lose,
    lost_ending,
    move,
    overtaken,
    own_ending,
    settle,
    stay,
    take_down,
    unwanted,
)
from arcops.core.decide.standstill import spent, worth_asking_again
from arcops.core.errors import ExitCode
from arcops.core.liveness import starting_progress
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Outcome, State
from arcops.core.world import AnswerState, Backend, Cause, Ending, Server, World

ANSWER_LATE = 5.0
"""Seconds past the deadline of a question after which its answer is not waited for any more."""


def starting(state: State, world: World) -> Decision:
    """The process is up; wait until HTTP answers, as long as there is progress."""
    backend = world.backend
    if backend is None:
        return _await_record(state, world)
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, ending.summary, ending)
    if backend.main is None and spent(state, world) > KEEPER_SILENT:
        silent = own_ending(backend, Cause.SPAWN_FAILED, "the backend's process did not come up", "see `arcops logs`")
        return take_down(state, world, silent.summary, silent)
    server = fresh(world.server, state.since)
    if server is not None and server.healthy:
        heard = replace(state, asked_at=world.now if state.asked_at is None else state.asked_at)
        return _admit_listener(heard, world, backend, heard.asked_at or 0.0)
    return _await_progress(replace(state, asked_at=None), world, backend)


def _await_record(state: State, world: World) -> Decision:
    """The launch was ordered a moment ago; if nothing comes of it, that is a failure like any other, and counted.

    Whoever has ordered something else since does not wait for it: nothing was written down, so nothing was started.
    """
    if overtaken(state):
        return take_down(state, world, "another order came before there was a launch record")
    if spent(state, world) <= KEEPER_SILENT:
        return stay(state)
    summary = f"nothing came of the launch within {KEEPER_SILENT:.0f} s: there is no launch record"
    hint = "see `arcops events`, and whether the runtime directory can be written"
    return lose(state, world, Ending("", Cause.SPAWN_FAILED, summary, hint, deterministic=False))


def _admit_listener(state: State, world: World, backend: Backend, heard: float) -> Decision:
    """Something has answered on the port since `heard`: is it ours, and ours alone (SO_REUSEPORT lets two listen)?"""
    port = fresh(world.port, heard)
    if port is not None and port.listeners:
        stranger = own_ending(
            backend,
            Cause.WRONG_LISTENER,
            f"somebody else answers on the port: {'; '.join(map(str, port.listeners))}",
            "end that server, or give the profile another port",
        )
        return take_down(state, world, stranger.summary, stranger)
    if port is not None and port.ours:
        return move(state, world, Phase.CHECKING, "HTTP answers; checking identity and first answer")
    if isinstance(world.port, Unknown):
        why = world.port.reason
    else:
        why = f"nobody is seen to listen on port {backend.launch.port}"
    limit = backend.launch.limits.probe
    if world.now - heard <= limit:
        return stay(state, Look(), reason=f"HTTP answers; looking who listens ({why})")
    nobody = own_ending(
        backend,
        Cause.WRONG_LISTENER,
        f"HTTP answers, but for {limit:.0f} s nobody could tell who listens: {why}",
        "the supervisor must be able to read /proc of its own processes; `hidepid` or a sandbox may forbid it",
    )
    return take_down(state, world, nobody.summary, nobody)


def _await_progress(state: State, world: World, backend: Backend) -> Decision:
    """A stall limit, never a total one: big models take minutes."""
    if backend.proven:
        return _await_return(state, world, backend)
    if isinstance(world.activity, Known) and starting_progress(
        state.activity, world.activity.value, world.now - state.progress_at
    ):
        return stay(replace(state, activity=world.activity.value, progress_at=world.now))
    limit = backend.launch.limits.start_stall
    if world.now - state.progress_at <= limit:
        return stay(state)
    stalled = own_ending(
        backend,
        Cause.START_STALLED,
        f"the start showed no progress for {limit:.0f} s (no log line, no processor time)",
        "see `arcops logs`; limits.start_stall in the profile sets the limit",
    )
    return take_down(state, world, stalled.summary, stalled)


def _await_return(state: State, world: World, backend: Backend) -> Decision:
    """It has served before this supervisor came: it is given what one that serves has to break a silence, no load's
    time, and what it writes or computes meanwhile is no answer."""
    limit = backend.launch.limits.stall_after + backend.launch.limits.probe
    if spent(state, world) <= limit:
        return stay(state, reason=f"launch {backend.launch_id} has served before; waiting for HTTP to answer")
    hang = own_ending(
        backend,
        Cause.HANG,
        f"it has served before, and did not answer over HTTP for {limit:.0f} s",
        "see `arcops logs` and the evidence kept (`arcops events`); limits.stall_after and limits.probe in the profile "
        "set the limit",
    )
    return take_down(state, world, hang.summary, hang)


def checking(state: State, world: World) -> Decision:
    """HTTP answers: is it the model that was ordered, and does it answer?"""
    backend = world.backend
    if backend is None:
        return lose(state, world, lost_ending())
    if why := unwanted(state.order, backend):
        return take_down(state, world, why)
    if ended(backend):
        ending = ending_of(world, backend)
        return take_down(state, world, ending.summary, ending)
    server = fresh(world.server, state.since)
    if server is None or not server.healthy:
        return _await_identity(state, world, backend, server)
    if backend.proven:
        # It has shown who it is, and nobody else listens: a new supervisor ends no healthy backend (law 8).
        return _serve(state, world, f"adopted launch {backend.launch_id}, which serves{_doubt(backend, server)}")
    if not server.models:
        return _await_identity(state, world, backend, server)
    if backend.launch.served_name not in server.models:
        served = ", ".join(server.models)
        wrong = own_ending(
            backend,
            Cause.WRONG_IDENTITY,
            f"the server serves {served}, not {backend.launch.served_name}",
            "compare model.served_name in the profile with /v1/models",
            deterministic=True,
        )
        return take_down(state, world, wrong.summary, wrong)
    if not backend.launch.checks.asks_first:
        return _serve(state, world, f"serving {backend.launch.served_name} (first answer not asked for)")
    return _await_answer(state, world, backend)


def _await_identity(state: State, world: World, backend: Backend, server: Server | None) -> Decision:
    """/health answered a moment ago; /v1/models has as long as a first answer. An empty list names no wrong model."""
    limit = backend.launch.limits.probe
    if server is not None:
        why = server.unread or ("it lists no model" if server.healthy else "it calls itself unhealthy")
    else:
        why = world.server.reason if isinstance(world.server, Unknown) else "it was not asked again yet"
    if spent(state, world) <= limit:
        return stay(state, reason=f"HTTP answers; waiting to be told which model it serves ({why})")
    silent = own_ending(
        backend,
        Cause.WRONG_IDENTITY,
        f"for {limit:.0f} s the server did not say which model it serves: {why}",
        "see `arcops logs`; if a key is refused, compare server.api_key_file in the profile with what vLLM was given",
    )
    return take_down(state, world, silent.summary, silent)


def _doubt(backend: Backend, server: Server) -> str:
    """What /v1/models has against the served name, to be put behind the reason; empty if nothing."""
    name = backend.launch.served_name
    if server.unread:
        return f" (but which model cannot be checked: {server.unread})"
    return "" if name in server.models else f" (but lists {', '.join(server.models) or 'no model'}, not {name})"


def _await_answer(state: State, world: World, backend: Backend) -> Decision:
    """One short question, one deadline."""
    deadline = backend.launch.limits.probe
    if state.asked_at is None:
        return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
    answer = world.answer
    if answer is not None and answer.launch_id == backend.launch_id:
        if answer.state is AnswerState.RIGHT:
            return _serve(state, world, f"serving {backend.launch.served_name}")
        if answer.state is AnswerState.LATE and worth_asking_again(state, world, state.asked_at, deadline):
            return Decision(replace(state, asked_at=world.now), (Ask(deadline),))
        if answer.state not in (AnswerState.NOT_ASKED, AnswerState.WAITING):
            bad = own_ending(
                backend, Cause.WRONG_ANSWER, f"the first answer failed: {answer.detail}", _answer_hint(answer.state)
            )
            return take_down(state, world, bad.summary, bad)
    if world.now - state.asked_at > deadline + ANSWER_LATE:
        late = own_ending(backend, Cause.WRONG_ANSWER, f"no first answer within {deadline:.0f} s", "see `arcops logs`")
        return take_down(state, world, late.summary, late)
    return stay(state)


def _answer_hint(fate: AnswerState) -> str:
    if fate is AnswerState.OTHER:
        return "compare checks.known_answer in the profile with what the model is known to say"
    return "see `arcops logs`"


def _serve(state: State, world: World, reason: str) -> Decision:
    """It serves: the order is what the machine is for now, and what failed under another one is forgotten."""
    order = state.order
    served = move(state, world, Phase.SERVING, f"{reason}{back_from(state)}", MarkProven())
    if order.committed:
        return served
    committed = replace(order, committed=True, previous=None, returns=False)
    done = settle(
        replace(served.state, order=committed, failures=(), card_faults=()),
        Outcome(order.id, ExitCode.DONE, f"{order.profile} serves"),
        stands=True,
    )
    return Decision(done.state, served.actions + done.actions)
