"""The loop: the only code that changes the state. Observe, decide, write down, act; again."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import structlog

from arcops.core.action import Settle
from arcops.core.admit import AlreadySo, Refusal, Request, admit
from arcops.core.decide import Decision, decide
from arcops.core.errors import ArcopsError
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order, State
from arcops.core.world import World
from arcops.daemon.act import Actor
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.observe import Observer

SETTLED_EVERY = 1.0
"""Seconds between two turns in a phase that lasts."""
MOVING_EVERY = 0.05
"""Seconds between two turns in a phase that is a means to an end."""
_LASTING = frozenset({Phase.STOPPED, Phase.BLOCKED, Phase.SERVING, Phase.BACKOFF, Phase.FAILED, Phase.WEDGED})

_log = structlog.get_logger(__name__)


class Loop:
    """Owns the State. Everybody else reads it, or asks for a change with `submit`."""

    def __init__(self, state: State, clock: Clock, observer: Observer, actor: Actor, journal: Journal) -> None:
        self.state = state
        self.world: World | None = None
        self._clock = clock
        self._observer = observer
        self._actor = actor
        self._journal = journal
        self._woken = asyncio.Event()
        self._listeners: set[asyncio.Event] = set()
        self._leaving = False
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

    def submit(self, request: Request) -> Order | str:
        """Take an order: the Order once it is written down, or why there is nothing to do. Raises ArcopsError."""
        if self._leaving:
            raise ArcopsError("the daemon is stopping", hint="start it again, then repeat the order")
        order_id = self._journal.next_order_id()
        running = self._actor.live.record.launch_id if self._actor.live is not None else None
        match admit(self.state, request, order_id, running):
            case Refusal(reason=reason, hint=hint, exit_code=code):
                raise ArcopsError(reason, hint=hint, exit_code=code)
            case AlreadySo(summary=summary):
                return summary
            case Decision() as accepted:
                self._journal.write_order(accepted.state.order)
                self._take(accepted)
                return accepted.state.order

    def _take(self, accepted: Decision) -> None:
        self.state = accepted.state
        order = accepted.state.order
        self._journal.event("order", self.state, f"order {order.id}: {request_words(order)}")
        for action in accepted.actions:
            match action:
                case Settle():
                    self._journal.settle(action)
                case _:
                    raise AssertionError(f"accepting an order only settles what it overtakes, not {action}")
        self.wake()
        self._tell()

    def leave(self, drain: float | None) -> None:
        """Stop the backend without touching the operator's order: the next supervisor starts it again."""
        self._leaving = True
        order = Order(0, Goal.STOP, drain=drain, previous=self.state.order)
        self.state = replace(self.state, order=order, failure=None, retry_at=None)
        self.wake()

    # -- the loop -----------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Turn until cancelled, or until a `leave` has come to its end."""
        while True:
            self._woken.clear()
            again = await self.turn()
            if self._leaving and self._has_left():
                return
            if not again:
                await self._rest()

    def _has_left(self) -> bool:
        """Nothing is left to end, or it would not be ended."""
        return self.state.phase is Phase.STUCK or (self.state.phase is Phase.STOPPED and self._actor.live is None)

    async def turn(self) -> bool:
        """One look, one decision, its actions; true if the world is different at once."""
        self.turns += 1
        before = self.state
        world = self._observer.look(before)
        decision = decide(before, world)
        self.world = world
        self.state = decision.state
        self._record(before, decision.state)
        changed = decision.state.phase is not before.phase
        for action in decision.actions:
            changed = await self._actor.perform(action, self.state) or changed
        self._tell()
        return changed

    def resolved(self, order: Order) -> None:
        """The profile of an order that was waiting for it has been read (or cannot be)."""
        current = self.state.order
        if current.id == order.id and current.resolving:
            read = replace(current, launch=order.launch, problem=order.problem, resolving=False)
            self.state = replace(self.state, order=read)
        elif current.previous is not None and current.previous.id == order.id and current.previous.resolving:
            self.state = replace(self.state, order=replace(current, previous=order))
        self.wake()

    def _record(self, before: State, after: State) -> None:
        if after.failures != before.failures or (after.phase is Phase.FAILED) != (before.phase is Phase.FAILED):
            self._journal.attempts(after)
        if after.phase is before.phase and after.settled == before.settled:
            return
        launch_id = self._actor.live.record.launch_id if self._actor.live is not None else None
        if after.phase is not before.phase:
            _log.info("phase", phase=after.phase.value, reason=after.reason, launch=launch_id)
            self._journal.event("phase", after, after.reason, launch_id)
        for outcome in after.settled:
            if outcome not in before.settled:
                _log.info("outcome", order=outcome.order_id, exit_code=int(outcome.exit_code), summary=outcome.summary)
                self._journal.event("outcome", after, f"order {outcome.order_id}: {outcome.summary}", launch_id)

    async def _rest(self) -> None:
        seconds = SETTLED_EVERY if self.state.phase in _LASTING else MOVING_EVERY
        if self.state.phase is Phase.BACKOFF and self.state.retry_at is not None:
            seconds = min(seconds, max(0.0, self.state.retry_at - self._clock.monotonic()))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def _tell(self) -> None:
        for event in self._listeners:
            event.set()


def request_words(order: Order) -> str:
    """An order in words, for the history."""
    if order.goal is Goal.STOP:
        return "stop"
    return f"run {order.profile}"
