"""The loop: the only code that changes the state. Observe, decide, write down, act; again."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import structlog

from arcops.core import quality
from arcops.core.action import (
    Action,
    Ask,
    Forget,
    KeepBaseline,
    KeepEvidence,
    KillEveryone,
    Look,
    MarkProven,
    Prepare,
    ReleaseLocks,
    Settle,
    Spawn,
    TakeLocks,
    Terminate,
)
from arcops.core.admit import AlreadySo, Refusal, Request, admit
from arcops.core.decide import Decision, decide
from arcops.core.decide.moves import patience
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.launch import Launch
from arcops.core.phase import LATCHED, Phase
from arcops.core.state import Goal, Order, Outcome, State
from arcops.core.world import World
from arcops.daemon.act import Actor
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point, after, before, decided, recorded
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal, stored_order
from arcops.daemon.observe import Observer

SETTLED_EVERY = 1.0
"""Seconds between two turns in a phase that lasts; what ends it, a process or an order, wakes the loop by itself."""
MOVING_EVERY = 0.05
"""Seconds between two turns in a phase that is a means to an end."""
_LASTING = frozenset(
    {
        Phase.STOPPED,
        Phase.BLOCKED,
        Phase.SERVING,
        Phase.DRAINING,
        Phase.BACKOFF,
        Phase.FAILED,
        Phase.STUCK,
        Phase.WEDGED,
    }
)
_DOING: Mapping[type[Action], str] = {
    TakeLocks: "take the locks",
    ReleaseLocks: "let the locks go",
    Prepare: "run the setup script",
    Look: "look at port and card",
    Spawn: "spawn the backend",
    Terminate: "send SIGTERM to the backend",
    KillEveryone: "kill the backend's processes",
    Ask: "ask the backend",
    KeepEvidence: "keep evidence",
    MarkProven: "mark the launch as proven",
    KeepBaseline: "keep what a card has in use when idle",
    Forget: "remove the launch record",
    Settle: "write an outcome down",
}

_log = structlog.get_logger(__name__)


class Loop:
    """Owns the State. Everybody else reads it, or asks for a change with `submit`."""

    def __init__(
        self,
        state: State,
        clock: Clock,
        observer: Observer,
        actor: Actor,
        journal: Journal,
        checkpoints: Checkpoints = NOWHERE,
    ) -> None:
        self.state = state
        self.world: World | None = None
        self._clock = clock
        self._observer = observer
        self._actor = actor
        self._journal = journal
        self._checkpoints = checkpoints
        self._woken = asyncio.Event()
        self._listeners: set[asyncio.Event] = set()
        self._leaving = False
        self._keeping = False
        self._admitting = asyncio.Lock()
        self._failed: type[Action | World] | None = None
        """What failed last and is still `trouble`: an action, or the look at the world."""
        self.turns = 0
        """For the watchdog: a loop that really turns."""

    # -- from outside -------------------------------------------------------------------------------------------------
    def wake(self) -> None:
        """Something may have changed: look again."""
        self._woken.set()

    def listen(self) -> asyncio.Event:
        """An event that is set after every turn and every order. Give it back with `unlisten`."""
        event = asyncio.Event()
        self._listeners.add(event)
        return event

    def unlisten(self, event: asyncio.Event) -> None:
        self._listeners.discard(event)

    async def submit(self, request: Request) -> Order | str:
        """Take an order: the Order once it is written down, or why there is nothing to do. Raises ArcopsError."""
        async with self._admitting:
            while True:
                admitted = self._admit(request, self._journal.next_order_id())
                if isinstance(admitted, str):
                    return admitted
                order = admitted.state.order
                taken = await self._write(request, order)
                if taken is not None:
                    self._take(taken)
                    self._checkpoints.reach(Point.ORDER_TAKEN)
                    return taken.state.order
                self._withdraw(order)

    def _admit(self, request: Request, order_id: int) -> Decision | str:
        """What the order does to the state as it is now. Raises ArcopsError where it is refused."""
        if self._leaving:
            raise ArcopsError("the daemon is stopping", hint="start it again, then repeat the order")
        match admit(self.state, request, order_id, self._launch_id(), as_ordered=self._runs_as_ordered()):
            case Refusal(reason=reason, hint=hint, exit_code=code):
                raise ArcopsError(reason, hint=hint, exit_code=code)
            case AlreadySo(summary=summary):
                return summary
            case Decision() as accepted:
                return accepted

    async def _write(self, request: Request, order: Order) -> Decision | None:
        """Write an order down while the loop turns on; then what it does, or None where it would read otherwise now.

        Raises ArcopsError where it cannot be written, or would be refused now.
        """
        self._checkpoints.reach(Point.ORDER_UNWRITTEN)
        try:
            await self._journal.write_order(order)
            self._checkpoints.reach(Point.ORDER_WRITTEN)
        except asyncio.CancelledError:
            self._withdraw(order)
            raise
        try:
            again = self._admit(request, order.id)
        except ArcopsError:
            self._withdraw(order)
            raise
        if isinstance(again, Decision) and stored_order(again.state.order, 0.0) == stored_order(order, 0.0):
            return again
        return None

    def _withdraw(self, order: Order) -> None:
        """It was written down, but nobody was told that it is accepted."""
        summary = "the state changed while the order was written down"
        self._journal.settle(Settle(Outcome(order.id, ExitCode.FAILED, summary, superseded=True), stands=False))

    def _take(self, accepted: Decision) -> None:
        self.state = accepted.state
        order = accepted.state.order
        self._journal.event("order", self.state, f"order {order.id}: {request_words(order)}")
        for action in accepted.actions:
            match action:
                case Settle(outcome=outcome):
                    self._journal.settle(action)
                    self._tell_outcome(outcome)
                case _:
                    raise AssertionError(f"accepting an order only settles what it overtakes, not {action}")
        self.wake()
        self._tell()

    def leave(self, drain: float | None) -> None:
        """Stop the backend without touching the operator's order: the next supervisor starts it again."""
        self._leaving = True
        order = Order(0, Goal.STOP, drain=drain, previous=self.state.order)
        self.state = replace(self.state, order=order, failure=None, retry_at=None)
        self._checkpoints.reach(Point.LEAVING)
        self.wake()

    def keep(self) -> None:
        """End after this turn, and leave the backend as it is: the next supervisor takes it up."""
        self._leaving = self._keeping = True
        self.wake()

    # -- the loop -----------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Turn until cancelled, or until a `leave` has come to its end."""
        while True:
            self._woken.clear()
            again = await self.turn()
            if self._leaving and self._has_left():
                self._checkpoints.reach(Point.LEFT)
                return
            if not again:
                await self._rest()

    def _has_left(self) -> bool:
        """Nothing is left to end, or it would not be ended."""
        if self._keeping:
            return True
        return self.state.phase is Phase.STUCK or (self.state.phase is Phase.STOPPED and self._actor.live is None)

    async def turn(self) -> bool:
        """One look, one decision, its actions; true if the world is different at once."""
        self.turns += 1
        self._journal.retry()
        earlier = self.state
        try:
            world = self._observer.look(earlier)
        except OSError as error:
            # What cannot be seen is not judged: the state stays as it is until somebody can look.
            self._fail(World, "look at the backend", error)
            return False
        self._succeed(World)
        decision = decide(earlier, world)
        self._tell_quality(world)
        self.world = world
        self.state = decision.state
        changed = decision.state.phase is not earlier.phase
        if changed:
            self._checkpoints.reach(decided(decision.state.phase))
        self._record(earlier, decision.state)
        if changed:
            self._checkpoints.reach(recorded(decision.state.phase))
        for action in decision.actions:
            changed = await self._perform(action) or changed
        self._actor.tell_record(self.state.order, world.backend)
        self._tell()
        return changed

    def _tell_quality(self, world: World) -> None:
        """What has become wrong with a backend that serves, or right again: an event for a change, not for a turn."""
        for words in quality.changes(self.world, world):
            _log.warning("quality", words=words)
            self._journal.event("quality", self.state, words, self._launch_id())

    async def _perform(self, action: Action) -> bool:
        """Do it. What the machine refuses is trouble, told and judged by what is seen next, and not our end."""
        kind = type(action)
        self._checkpoints.reach(before(kind))
        try:
            changed = await self._actor.perform(action, self.state)
        except OSError as error:
            self._fail(kind, _DOING.get(kind, kind.__name__), error)
            return False
        self._succeed(kind)
        self._checkpoints.reach(after(kind))
        return changed

    def _fail(self, what: type[Action | World], doing: str, error: OSError) -> None:
        trouble = f"the supervisor could not {doing}: {error}"
        if self._actor.trouble != trouble:
            _log.warning("trouble", trouble=trouble)
        self._actor.trouble, self._failed = trouble, what

    def _succeed(self, what: type[Action | World]) -> None:
        if self._failed is what:
            self._actor.trouble = self._failed = None

    def resolved(self, order: Order) -> None:
        """The profile of an order that was waiting for it has been read (or cannot be)."""
        current = self.state.order
        if current.id == order.id:
            # What runs already, ordered or in place of it, is what it is, whatever the file says now.
            read = replace(current, fallback=current.fallback or order.fallback, unguarded=order.unguarded)
            if current.resolving:
                read = replace(read, launch=order.launch, problem=order.problem, resolving=False)
            self.state = replace(self.state, order=read)
            if read.unguarded:
                self._journal.event("trouble", self.state, read.unguarded)
        elif current.previous is not None and current.previous.id == order.id and current.previous.resolving:
            self.state = replace(self.state, order=replace(current, previous=order))
        self.wake()

    def renew(self, order_id: int, launch: Launch, fallback: Launch | None) -> None:
        """The files of the standing order were read anew: what it launches the next time it launches anything.

        What stands in goes on to, whatever `on_failure` names now: the next order, or a reboot, ends that.
        """
        order = self.state.order
        if order.id == order_id and order.committed:
            stays = order.stand_in is not None and (fallback is None or fallback.profile != order.stand_in.profile)
            renewed = replace(
                order, launch=launch, problem="", fallback=order.fallback if stays else fallback, unguarded=""
            )
            self.state = replace(self.state, order=renewed)
            self.wake()

    def _runs_as_ordered(self) -> bool:
        """The backend is what the order would launch now; its files may have been read anew since it was launched."""
        return self._actor.live is None or self._actor.live.record.launch == self.state.order.wanted

    def _launch_id(self) -> str | None:
        return self._actor.live.record.launch_id if self._actor.live is not None else None

    def _record(self, earlier: State, later: State) -> None:
        latch_moved = (later.phase in LATCHED) != (earlier.phase in LATCHED)
        stand_in_moved = later.order.stand_in != earlier.order.stand_in
        # An end of the daemon is no forgiveness: what it clears in memory stays written down for the next one.
        if not self._leaving and (_count(later) != _count(earlier) or latch_moved or stand_in_moved):
            self._journal.attempts(later)
        if stand_in_moved and later.order.id == earlier.order.id:
            self._journal.event("stand_in", later, later.reason)
        if later.phase is not earlier.phase:
            launch_id = self._launch_id()
            _log.info("phase", phase=later.phase.value, reason=later.reason, launch=launch_id)
            self._journal.event("phase", later, later.reason, launch_id)
        for outcome in later.settled:
            if outcome not in earlier.settled:
                self._tell_outcome(outcome)

    def _tell_outcome(self, outcome: Outcome) -> None:
        _log.info("outcome", order=outcome.order_id, exit_code=int(outcome.exit_code), summary=outcome.summary)
        summary = f"order {outcome.order_id}: {outcome.summary}"
        self._journal.event("outcome", self.state, summary, self._launch_id())

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._woken.wait()

    def _pause(self) -> float:
        """Seconds until the next turn, if nothing wakes the loop before."""
        state = self.state
        if state.phase not in _LASTING:
            return MOVING_EVERY
        due = None
        if state.phase is Phase.BACKOFF:
            due = state.retry_at
        elif state.phase is Phase.DRAINING and self.world is not None and self.world.backend is not None:
            due = state.since + patience(state.order, self.world.backend)
        if due is None:
            return SETTLED_EVERY
        return min(SETTLED_EVERY, max(0.0, due - self._clock.monotonic()))

    def _tell(self) -> None:
        for event in self._listeners:
            event.set()


def _count(state: State) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is counted against the order's profile, and against its card."""
    return state.failures, state.card_faults


def request_words(order: Order) -> str:
    """An order in words, for the history."""
    if order.goal is Goal.STOP:
        return "stop"
    return f"run {order.profile}"
