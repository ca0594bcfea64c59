"""The way down: drain, stop, prove that everything is clear, and then what comes next."""

from dataclasses import replace

from arcops.core import restart
from arcops.core.action import Forget, KillEveryone, Look, Target, Terminate
from arcops.core.decide.moves import (
    Decision,
    ended,
    failed_outcome,
    fresh,
    move,
    name_of,
    patience,
    settle,
    stay,
    take_down,
)
from arcops.core.decide.rising import launch_when_clear, stop_here
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, State, Stopping
from arcops.core.world import Backend, Ending, World

TERM_AGAIN = 2.0
"""Seconds between SIGTERMs: one during vLLM's engine start is ignored, a repeated one is not."""
KILL_PATIENCE = 10.0
"""Seconds that a process may outlive SIGKILL (it hangs in the driver) before it is called stuck."""


def draining(state: State, world: World) -> Decision:
    """Open requests go on until they are done or their time is up."""
    backend = world.backend
    if backend is None or ended(backend):
        return take_down(state, world, "the backend ended while it drained")
    if isinstance(world.requests, Known) and world.requests.value == 0:
        return take_down(state, world, "drained: no request is open")
    if world.now - state.since >= patience(state.order, backend):
        count = world.requests.value if isinstance(world.requests, Known) else "an unknown number of"
        seconds = backend.launch.limits.shutdown_timeout
        return take_down(state, world, f"drain time is up; {count} open requests get {seconds:.0f} s more")
    return stay(state)


def stopping(state: State, world: World) -> Decision:
    """SIGTERM, again and again; SIGKILL last. Every forced kill can make this hardware worse."""
    backend = world.backend
    if backend is None or not (backend.processes or backend.main_alive or backend.keeper_alive):
        return move(state, world, Phase.CLEARING, f"{state.reason}; every process has ended")
    progress = state.stopping or Stopping(began=world.now)
    limits = backend.launch.limits
    if world.now - progress.began > limits.shutdown_timeout + limits.stop_grace:
        return _kill(state, world, backend, progress)
    target = Target.MAIN if backend.main_alive else Target.EVERYONE
    told = progress.last_term is not None and world.now - progress.last_term < TERM_AGAIN
    if told and (target is Target.MAIN or progress.everyone):
        return stay(state)
    termed = replace(progress, last_term=world.now, everyone=target is Target.EVERYONE)
    return Decision(replace(state, stopping=termed), (Terminate(target),))


def _kill(state: State, world: World, backend: Backend, progress: Stopping) -> Decision:
    """The grace is over."""
    if progress.killed_at is None:
        return Decision(replace(state, stopping=replace(progress, killed_at=world.now)), (KillEveryone(),))
    if world.now - progress.killed_at <= KILL_PATIENCE:
        return stay(state)
    pids = ", ".join(map(str, backend.processes)) or "the keeper"
    return move(state, world, Phase.STUCK, f"process {pids} outlived SIGKILL by {KILL_PATIENCE:.0f} s")


def clearing(state: State, world: World) -> Decision:
    """Every process is gone; port and memory come back later. Then the next thing."""
    backend = world.backend
    if backend is None:
        return _afterwards(state, world)
    if backend.processes or backend.keeper_alive:
        return stay(state, Terminate(Target.EVERYONE), reason="a late process of the launch turned up")
    remains = _remains(state, world, backend)
    if remains is None:
        return stay(state, Look())
    if not remains:
        return stay(state, Forget())
    limit = backend.launch.limits.clear
    if world.now - state.since > limit:
        return move(state, world, Phase.STUCK, f"not clear after {limit:.0f} s: {remains}")
    return stay(state, Look())


def _remains(state: State, world: World, backend: Backend) -> str | None:
    """What is not clear yet in words, empty when all is, None before the first look since the processes ended."""
    if isinstance(world.port, Unknown) and world.port.at >= state.since:
        return world.port.reason
    if isinstance(world.card, Unknown) and world.card.at >= state.since:
        return world.card.reason
    port, card = fresh(world.port, state.since), fresh(world.card, state.since)
    if port is None or card is None:
        return None
    if not port.bindable and not port.listeners:
        return f"port {backend.launch.port} is still held"
    # What a foreign process holds is no residue of ours: the next launch will be refused by its name.
    return ""


def _afterwards(state: State, world: World) -> Decision:
    """All clear: give the failed switch up, try again, go on to what was ordered, or rest."""
    order, failure = state.order, state.failure
    if order.goal is Goal.STOP:
        return stop_here(state, world)
    if failure is None:
        return launch_when_clear(state, world)
    if not order.committed:
        return _give_up(state, world, failure)
    failures = (*restart.recent(state.failures, world.now), world.now)
    state = replace(state, failures=failures)
    if order.launch is None:
        return move(state, world, Phase.FAILED, order.problem or failure.summary)
    match restart.judge(order.launch.restart, failure, failures, world.now, world.dice):
        case restart.Retry(at=at, reason=reason):
            waiting = move(state, world, Phase.BACKOFF, reason)
            return Decision(replace(waiting.state, retry_at=at), waiting.actions)
        case restart.Latch(reason=reason):
            return move(state, world, Phase.FAILED, reason)


def _give_up(state: State, world: World, failure: Ending) -> Decision:
    """A switch failed: back to what ran before, or stay failed if the operator said so (or nothing ran)."""
    order = state.order
    if order.returns and order.previous is not None and order.previous.goal is Goal.RUN:
        outcome = failed_outcome(order, failure, name_of(order.previous))
        done = settle(replace(state, order=order.previous, failure=None), outcome, stands=False)
        reason = f"{order.profile} failed ({failure.summary}); back to {name_of(order.previous)}"
        return Decision(replace(done.state, reason=reason), done.actions)
    committed = replace(state, order=replace(order, committed=True, previous=None))
    done = settle(committed, failed_outcome(order, failure, None), stands=True)
    latched = move(done.state, world, Phase.FAILED, failure.summary)
    return Decision(latched.state, done.actions + latched.actions)


def stuck(state: State, world: World) -> Decision:
    """Something would not go: look again and again, and go on when it has gone."""
    backend = world.backend
    if backend is not None and (backend.processes or backend.keeper_alive):
        return stay(state)
    return move(state, world, Phase.CLEARING, "what was stuck has gone; clearing again")
