"""The way down: drain, stop, prove that everything is clear, and then what comes next."""

from dataclasses import replace

from arcops.core import restart
from arcops.core.action import Forget, KillEveryone, Look, Target, Terminate
from arcops.core.cards.clean import KEPT_AFTER
from arcops.core.decide.lasting import for_good, instead, may_return, may_stand_in
from arcops.core.decide.moves import (
    Decision,
    back_from,
    ended,
    failed_outcome,
    fresh,
    move,
    name_of,
    offer_of,
    patience,
    settle,
    stay,
    take_down,
    unborn,
    unread_ending,
    with_offer,
)
from arcops.core.decide.resting import launch_when_clear, stop_here
from arcops.core.decide.sight import left_on, lessons, now_and_then
from arcops.core.decide.standstill import spent
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import Goal, Order, Outcome, State, Stopping
from arcops.core.world import Backend, Ending, World

TERM_AGAIN = 2.0
"""Seconds between SIGTERMs: one during vLLM's engine start is ignored, a repeated one is not."""
LAST_WORDS = 5.0
"""Seconds that the API server has for its clients once its engine has ended. vLLM 0.24 waits without end for streams to
close that nobody feeds any more (35 s to the kill were seen, and an idle card for 30 of them); it holds nothing of the
card, so that its forced end does no harm there."""
KILL_PATIENCE = 10.0
"""Seconds that a process may outlive SIGKILL (it hangs in the driver) before it is called stuck."""
LOOKS_SHARE = 20
"""From look to look goes one part in so many of the time that was waited: each reads every process's descriptors."""
DIAGNOSIS_PATIENCE = 5.0
"""Seconds that the log of an ended backend is waited for before the makeshift diagnosis counts."""


def draining(state: State, world: World) -> Decision:
    """Open requests go on until they are done or their time is up."""
    backend = world.backend
    if backend is None or ended(backend):
        return take_down(state, world, "the backend ended while it drained")
    if fresh(world.requests, state.since) == 0:
        return take_down(state, world, "drained: no request is open")
    if world.now - state.since >= patience(state.order, backend):
        count = world.requests.value if isinstance(world.requests, Known) else "an unknown number of"
        seconds = backend.launch.limits.shutdown_timeout
        return take_down(state, world, f"drain time is up; {count} open requests get {seconds:.0f} s more")
    return stay(state)


def stopping(state: State, world: World) -> Decision:
    """SIGTERM, again and again; SIGKILL last. Every forced kill can make this hardware worse."""
    backend = world.backend
    state = _diagnosed(state, world)
    if backend is None or not (_lives(backend) or unborn(backend, world.now - state.unseen)):
        return move(state, world, Phase.CLEARING, f"{state.reason}; every process has ended")
    if not _lives(backend):
        return stay(state)
    progress = watched(state.stopping or Stopping(began=world.now), backend, world.now)
    state = replace(state, stopping=progress)
    limits = backend.launch.limits
    late = _overstays(progress, limits.shutdown_timeout + limits.stop_grace, world.now)
    if late or progress.killed_at is not None:
        return _kill(state, world, backend, progress, late)
    target = Target.MAIN if backend.main_alive else Target.EVERYONE
    told = progress.last_term is not None and world.now - progress.last_term < TERM_AGAIN
    if told and (target is Target.MAIN or progress.everyone):
        return stay(state)
    termed = replace(progress, last_term=world.now, everyone=target is Target.EVERYONE)
    return Decision(replace(state, stopping=termed), (Terminate(target),))


def _overstays(progress: Stopping, grace: float, now: float) -> str:
    """Why its time is over, in words; empty while it is not."""
    if now - progress.began > grace:
        return f"it had not ended within {grace:.0f} s"
    if progress.engineless_since is not None and now - progress.engineless_since > LAST_WORDS:
        return f"its API server was still there {LAST_WORDS:.0f} s after its engine had ended"
    return ""


def watched(progress: Stopping, backend: Backend, now: float) -> Stopping:
    """`progress`, with what this look says of the processes that run the model.

    One that comes up has no clients yet, and workers on the card that are not named after the model's engine yet.
    """
    if backend.engines is None or not backend.proven:
        return progress
    if backend.engines:
        return replace(progress, ran=True, engineless_since=None)
    gone = progress.ran and progress.engineless_since is None
    return replace(progress, engineless_since=now) if gone else progress


def _kill(state: State, world: World, backend: Backend, progress: Stopping, late: str) -> Decision:
    """The grace is over. SIGKILL is repeated: without a cgroup a process may fork between the look and the signal."""
    if progress.killed_at is None:
        state = replace(state, reason=f"{state.reason}; killed: {late}")
    killed_at = world.now if progress.killed_at is None else progress.killed_at
    if world.now - killed_at > KILL_PATIENCE:
        pids = ", ".join(map(str, backend.processes))
        who = f"process {pids}" if pids else "the keeper"
        return _get_stuck(state, world, f"{who} outlived SIGKILL by {KILL_PATIENCE:.0f} s")
    if progress.killed_at is not None and world.now - (progress.last_term or killed_at) < TERM_AGAIN:
        return stay(state)
    killed = replace(progress, killed_at=killed_at, last_term=world.now)
    return Decision(replace(state, stopping=killed), (KillEveryone(),))


def _get_stuck(state: State, world: World, reason: str) -> Decision:
    """Something will not go. Whoever waits is told so; the order stands, and a new one tries once more."""
    moved = move(state, world, Phase.STUCK, reason)
    state = replace(moved.state, stopping=state.stopping or Stopping(began=world.now))
    order = state.order
    if order.committed:
        return Decision(state, moved.actions)
    state = replace(state, order=replace(order, committed=True, previous=None, returns=False))
    hint = "a process that hangs in the driver may need a reboot; a new order tries once more"
    done = settle(state, Outcome(order.id, ExitCode.FAILED, f"stuck: {reason}", hint), stands=True)
    return Decision(done.state, moved.actions + done.actions)


def clearing(state: State, world: World) -> Decision:
    """Every process is gone; port and memory come back later. Then the next thing."""
    backend = world.backend
    if backend is None:
        return _afterwards(state, world)
    state = _diagnosed(state, world)
    if _lives(backend):
        return take_down(state, world, f"a late process of launch {backend.launch_id} turned up")
    remains = _remains(state, world, backend)
    undiagnosed = state.failure == unread_ending(backend.launch_id)
    if spent(state, world) > backend.launch.limits.clear:
        why = remains or ("the launch record cannot be removed" if remains == "" else "nobody could look")
        return _get_stuck(state, world, f"not clear after {backend.launch.limits.clear:.0f} s: {why}")
    if remains == "" and not (undiagnosed and spent(state, world) <= DIAGNOSIS_PATIENCE):
        return _forget(state, world, backend)
    return stay(state, *now_and_then(world, spent(state, world) / LOOKS_SHARE))


def _forget(state: State, world: World, backend: Backend) -> Decision:
    """All is clear: what the cards have in use now, they have when idle."""
    kept = spent(state, world) >= KEPT_AFTER
    return stay(state, *lessons(backend.launch, world.card, state.since, kept=kept), Forget())


def _lives(backend: Backend) -> bool:
    """A process of the launch is there; the keeper's end is the proof that none is."""
    return len(backend.processes) > 0 or backend.main_alive or backend.keeper_alive


def _diagnosed(state: State, world: World) -> State:
    """The log is read a moment after the process ended: the diagnosis then takes the makeshift one's place."""
    failure, ending = state.failure, world.ending
    if failure is None or ending is None or failure != unread_ending(ending.launch_id):
        return state
    return replace(state, failure=ending, reason=ending.summary)


def _remains(state: State, world: World, backend: Backend) -> str | None:
    """What is not clear yet in words, empty when all is, None before the first look since the processes ended."""
    for reading in (world.port, world.card):
        if isinstance(reading, Unknown) and reading.at >= state.since:
            return reading.reason
    port, card = fresh(world.port, state.since), fresh(world.card, state.since)
    if port is None or card is None:
        return None
    if not port.bindable and not port.listeners:
        return f"port {backend.launch.port} is still held"
    return left_on(backend.launch, card, state.since, spent(state, world))


def _afterwards(state: State, world: World) -> Decision:
    """All clear: give the failed switch up, try again, go on to what was ordered, or rest."""
    order, failure = state.order, state.failure
    if order.goal is Goal.STOP:
        return stop_here(state, world)
    if order.resolving:
        return stay(state)
    if failure is None:
        return launch_when_clear(state, world)
    failure = with_offer(order, failure)
    state = replace(state, failure=failure)
    return _try_again(state, world, failure) if order.committed else _give_up(state, world, failure)


def _try_again(state: State, world: World, failure: Ending) -> Decision:
    """The standing order's backend failed: once more after a while, or never again, as the profile's policy says.

    Where something can stand in, a draft that is to blame gets no second try: without it there is service now.
    """
    order = state.order
    state = _counted(state, failure, world.now)
    if order.wanted is None:
        return for_good(state, world, failure, order.problem or failure.summary)
    count = state.card_faults if failure.card_fault else state.failures
    verdict = restart.judge(order.wanted.restart, failure, count, world.now, world.dice)
    if isinstance(verdict, restart.Latch):
        return for_good(state, world, failure, verdict.reason)
    if failure.points_at_draft and may_stand_in(order, failure):
        return for_good(state, world, failure, failure.summary)
    waiting = move(state, world, Phase.BACKOFF, f"{verdict.reason}{offer_of(order, failure)}{back_from(state)}")
    return Decision(replace(waiting.state, retry_at=verdict.at), waiting.actions)


def _counted(state: State, failure: Ending, now: float) -> State:
    """A card that was reset is counted for itself, and not among the failures of the profile."""
    if failure.card_fault:
        return replace(state, card_faults=(*restart.recent(state.card_faults, now), now))
    return replace(state, failures=(*restart.recent(state.failures, now), now))


def _give_up(state: State, world: World, failure: Ending) -> Decision:
    """A switch failed: back to what was in force, or stay failed if the operator said so (or nothing was to run)."""
    order, previous = state.order, state.order.previous
    again = previous is not None and previous.wanted == order.launch and failure.deterministic
    if order.returns and previous is not None and previous.goal is Goal.RUN and not again:
        return _return_to(previous, state, world, failure)
    stands = replace(order, committed=True, previous=None, returns=False)
    committed = replace(state, order=stands, failures=(), card_faults=())
    outcome = failed_outcome(order, failure, None, instead(order, failure))
    done = settle(committed, outcome, stands=True)
    given_up = for_good(done.state, world, failure, failure.summary)
    return Decision(given_up.state, done.actions + given_up.actions)


def _return_to(previous: Order, state: State, world: World, failure: Ending) -> Decision:
    """What was in force is in force again; on a card that needs a rebind or a reboot it is not launched, though."""
    order, name = state.order, name_of(previous)
    may = may_return(previous, order, failure)
    unable = "" if may else f"{name} is ordered again, and not started: it needs the same card"
    done = settle(replace(state, order=previous), failed_outcome(order, failure, name, unable), stands=False)
    if not may:
        wedged = move(done.state, world, Phase.WEDGED, f"{order.profile} failed: {failure.summary}; {unable}")
        return Decision(wedged.state, done.actions + wedged.actions)
    reason = f"{order.profile} failed ({failure.summary}); back to {name}"
    return Decision(replace(done.state, failure=None, reason=reason), done.actions)


def stuck(state: State, world: World) -> Decision:
    """Something would not go: look now and then, go on when it has gone; a new order tries once more to end it."""
    backend = world.backend
    if backend is None:
        return move(state, world, Phase.CLEARING, "what was stuck has gone; clearing again")
    if _lives(backend):
        if state.stopping is None:
            return take_down(state, world, f"trying once more to end launch {backend.launch_id}")
        return stay(state)
    remains = _remains(state, world, backend)
    if remains is None:
        return stay(state, Look())
    if remains:
        return stay(state, *now_and_then(world), reason=f"every process has ended, but it is not clear: {remains}")
    return _forget(state, world, backend)
