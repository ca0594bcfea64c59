"""What must not be lost: orders before they are acknowledged, and every transition with its reason.

Everything is written by one thread, in the order in which it was told, so that a disk that hangs never holds up the
loop. What the store does not take for now waits and is tried again; until then it is `trouble`.
"""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

import msgspec
import structlog

from arcops.core.action import Settle
from arcops.core.phase import LATCHED, Phase
from arcops.core.state import Goal, Order, StandIn, State
from arcops.core.world import Ending
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.clock import Clock
from arcops.machine.store import Store, StoredEvent, StoredOrder, StoreError

MOST_WAITING = 1_000
"""Events that wait for the store; later ones are lost, and said to be. Outcomes of orders are never lost."""
_ATTEMPTS = "attempts"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attempts:
    """How the ordered launch has failed, as it is kept over supervisors."""

    order_id: int
    boot_id: str
    failures: tuple[float, ...]
    """When, within the last hour, in seconds since the epoch."""
    latched: bool
    """In `failed`, or in `wedged` where that is said."""
    reason: str
    failure: Ending | None
    monotonic: tuple[float, ...] = ()
    """The same moments on the clock of this boot, which nobody sets."""
    wedged: bool = False
    stand_in: StandIn | None = None
    fallback_awaited: bool = False
    """The latch fell before the `on_failure` was read."""
    card_faults: tuple[float, ...] = ()
    """When the card failed a backend, on the clock of this boot: of another boot's nothing is to be held against it."""
    doubted: tuple[str, ...] = ()
    """Cards that are to be tried before a launch, whatever was ordered since; of this boot as well."""
    doubted_since: float = 0.0


@dataclass(frozen=True, slots=True)
class _Loaded:
    """How long a start took."""

    profile: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value of somebody else's, under its name."""

    key: str
    value: str


_Entry: TypeAlias = StoredEvent | Settle | Attempts | _Loaded | _Kept


class Journal:
    """The store, with its faults turned into `trouble`: a full disk must not take the supervisor down.

    An order is different: it is acknowledged only once it is written, so `write_order` raises StoreError.
    """

    def __init__(self, store: Store, clock: Clock, boot_id: str, checkpoints: Checkpoints = NOWHERE) -> None:
        self._store = store
        self._clock = clock
        self._boot_id = boot_id
        self._checkpoints = checkpoints
        self._next_order = store.highest_order_id() + 1
        newest = store.last_events(1)
        self.newest_event = newest[0].id if newest else 0
        """Id of the last event, written or not."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._guard = threading.Lock()
        self._waiting: deque[_Entry] = deque()
        self._is_writing = False
        self._fault: str | None = None
        self._lost = 0

    @property
    def trouble(self) -> str | None:
        """What is not written (yet), in words; None when everything is."""
        with self._guard:
            waiting, fault, lost = len(self._waiting), self._fault, self._lost
        if fault is not None and waiting:
            also = f", and {lost} could not be kept" if lost else ""
            return f"the history cannot be written: {fault} ({waiting} entries wait{also})"
        return f"{lost} entries of the history could not be kept: {fault or 'too many waited'}" if lost else None

    # -- orders -------------------------------------------------------------------------------------------------------
    @property
    def knows_no_order(self) -> bool:
        """Not one order was ever written: the database is new, or the old one was lost."""
        return self._store.highest_order_id() == 0

    @property
    def order_in_force(self) -> StoredOrder | None:
        """The newest order that was accepted and did not fail."""
        return self._store.order_in_force()

    def order_before(self, order_id: int) -> StoredOrder | None:
        """The committed order that a failing `order_id` returns to."""
        return self._store.order_in_force(before=order_id, states=("committed",))

    def next_order_id(self) -> int:
        number = self._next_order
        self._next_order += 1
        return number

    async def write_order(self, order: Order) -> None:
        """Write an order down, behind all that was told before. Raises StoreError: then it is not accepted."""
        stored = stored_order(order, self._clock.wall())
        await asyncio.wrap_future(self._writer.submit(self._write_order, stored))

    def settle(self, action: Settle) -> None:
        """Write down what became of an order."""
        self._tell(action)

    # -- the history --------------------------------------------------------------------------------------------------
    def event(
        self, kind: str, state: State, reason: str, launch_id: str | None = None, *, cause: str | None = None
    ) -> None:
        """One entry of the history; `cause` where it is another one than that of the phase's failure."""
        with self._guard:
            if len(self._waiting) >= MOST_WAITING:
                self._lost += 1
                return
        self.newest_event += 1
        self._tell(
            StoredEvent(
                id=self.newest_event,
                at=self._clock.wall(),
                kind=kind,
                phase=state.phase.value,
                profile=state.order.wanted_profile if state.order.goal is Goal.RUN else None,
                launch_id=launch_id,
                reason=reason,
                data=_data(kind, state, cause),
            )
        )

    def events(self, after: int, limit: int) -> tuple[StoredEvent, ...]:
        """A page of the history, oldest first, with what waits to be written. Raises StoreError."""
        # In this order: what is written between the two is then found twice, never missed.
        with self._guard:
            waiting = [entry for entry in self._waiting if isinstance(entry, StoredEvent)]
        written = self._store.events(after=after, limit=limit)
        last = written[-1].id if written else after
        return (*written, *(event for event in waiting if event.id > last))[:limit]

    def loaded(self, profile: str, seconds: float) -> None:
        """Remember how long a start took."""
        self._tell(_Loaded(profile, seconds))

    def usual_load_time(self, profile: str) -> float | None:
        try:
            return self._store.usual_load_time(profile)
        except StoreError:
            return None

    def pasts(self) -> tuple[tuple[StoredEvent, ...], dict[str, tuple[float, ...]]]:
        """How each profile's last start has ended, and how long its last ones took, in seconds. Raises StoreError."""
        return self._store.last_results(), self._store.loads_by_profile()

    # -- for others ----------------------------------------------------------------------------------------------------
    def keep(self, key: str, value: str) -> None:
        """Keep a value under a name, in the place of the last one."""
        self._tell(_Kept(key, value))

    def kept(self, key: str) -> str | None:
        """What was kept under a name by this supervisor or an earlier one; None where nothing was, or can be read."""
        try:
            return self._store.recall(key)
        except StoreError:
            return None

    # -- attempts -----------------------------------------------------------------------------------------------------
    def attempts(self, state: State) -> None:
        """Keep how the ordered launch has failed so far: a new supervisor must not begin to count anew."""
        kept = Attempts(
            order_id=state.order.id,
            boot_id=self._boot_id,
            failures=tuple(self._clock.to_wall(at) for at in state.failures),
            latched=state.phase in LATCHED,
            reason=state.reason,
            failure=state.failure,
            monotonic=state.failures,
            wedged=state.phase is Phase.WEDGED,
            stand_in=state.order.stand_in,
            fallback_awaited=state.fallback_awaited,
            card_faults=state.card_faults,
            doubted=state.doubted,
            doubted_since=state.doubted_since,
        )
        self._tell(kept)

    def recalled(self, state: State, *, latch: bool) -> State:
        """`state` with the failures of its order, what stands in for it, and with `latch` its latch too.

        The latter two are of one boot. A reboot is worth one more attempt at what was ordered: it resets drivers and
        memory. It does not reset the count, which is of what ran last.
        """
        kept = self._recall()
        if kept is None:
            return state
        this_boot = kept.boot_id == self._boot_id
        if this_boot:
            state = replace(state, doubted=kept.doubted, doubted_since=kept.doubted_since)
        previous = state.order.previous
        if this_boot and previous is not None and previous.id == kept.order_id:
            # The order under way, if it fails, returns to what stood in for the one before.
            before = replace(previous, stand_in=kept.stand_in)
            return replace(state, order=replace(state.order, previous=before))
        if kept.order_id != state.order.id or state.order.goal is Goal.STOP:
            return state
        if not this_boot:
            return state if kept.stand_in is not None else replace(state, failures=self._by_the_wall(kept.failures))
        failures = kept.monotonic or self._by_the_wall(kept.failures)
        order = replace(state.order, stand_in=kept.stand_in)
        state = replace(state, failures=failures, card_faults=kept.card_faults, order=order)
        if not latch or not kept.latched:
            return state
        phase = Phase.WEDGED if kept.wedged else Phase.FAILED
        awaited = kept.fallback_awaited
        return replace(state, phase=phase, reason=kept.reason, failure=kept.failure, fallback_awaited=awaited)

    def _by_the_wall(self, failures: tuple[float, ...]) -> tuple[float, ...]:
        """Wall times of another boot on this one's clock. One in the future is a clock that was set back: it is now."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        return tuple(now - max(0.0, wall - at) for at in failures)

    def _recall(self) -> "Attempts | None":
        try:
            text = self._store.recall(_ATTEMPTS)
            return None if text is None else msgspec.json.decode(text, type=Attempts)
        except (StoreError, msgspec.DecodeError, RecursionError):
            return None

    # -- writing ------------------------------------------------------------------------------------------------------
    def retry(self) -> None:
        """Try again to write what waits, if anything does."""
        with self._guard:
            if self._waiting:
                self._set_off()

    async def close(self) -> None:
        """Write what waits, with some patience, and end the thread. The store may be closed afterwards."""
        await asyncio.wrap_future(self._writer.submit(self._write_last))
        self._writer.shutdown()
        if self.trouble is not None:
            _log.warning("journal", trouble=self.trouble)

    def _tell(self, entry: _Entry) -> None:
        with self._guard:
            self._waiting.append(entry)
            self._set_off()

    def _set_off(self) -> None:
        """Have the thread write, unless it does already. The guard is held."""
        if not self._is_writing:
            self._is_writing = True
            self._writer.submit(self._write_waiting).add_done_callback(_complain)

    def _write_waiting(self) -> None:
        """On the writer's thread: write until nothing waits, or the store takes no more for now."""
        try:
            while (entry := self._next()) is not None:
                try:
                    self._write(entry)
                except StoreError as error:
                    self._fault = error.reason
                    if error.may_pass:
                        return
                    self._lost += 1
                    _log.warning("journal", lost=str(entry), reason=error.reason)
                with self._guard:
                    self._waiting.popleft()
        finally:
            self._is_writing = False

    def _next(self) -> _Entry | None:
        """What is to be written next. That nothing is, is settled under the guard: what comes then sets off anew."""
        with self._guard:
            if self._waiting:
                return self._waiting[0]
            self._is_writing = False
            if self._lost == 0:
                self._fault = None
            return None

    def _write(self, entry: _Entry) -> None:
        match entry:
            case StoredEvent():
                self._store.add_event(entry)
            case Settle(outcome=outcome, stands=stands):
                state = "committed" if stands else ("superseded" if outcome.superseded else "failed")
                self._checkpoints.reach(Point.SETTLE_UNWRITTEN)
                self._store.settle(outcome.order_id, state, outcome.summary)
                self._checkpoints.reach(Point.SETTLE_WRITTEN)
            case Attempts():
                self._store.remember(_ATTEMPTS, msgspec.json.encode(entry).decode())
            case _Loaded(profile=profile, seconds=seconds):
                self._store.record_launch(profile, seconds)
            case _Kept(key=key, value=value):
                self._store.remember(key, value)
            case _:
                assert_never(entry)

    def _write_order(self, order: StoredOrder) -> None:
        """On the writer's thread. What became of earlier orders comes first: a later one is read in its light."""
        with self._store.patiently():
            self._write_waiting()
            with self._guard:
                if any(isinstance(entry, Settle) for entry in self._waiting):
                    raise StoreError(self._fault or "it takes nothing", may_pass=True)
            self._store.save_order(order)

    def _write_last(self) -> None:
        """On the writer's thread."""
        try:
            with self._store.patiently():
                self._write_waiting()
        except StoreError as error:
            self._fault = error.reason


def stored_order(order: Order, accepted_at: float) -> StoredOrder:
    """An order as it is written down."""
    previous = order.previous
    return StoredOrder(
        id=order.id,
        goal=order.goal.value,
        profile=order.profile,
        fallback=previous.profile if previous is not None and order.returns else None,
        replaces=order.replaces,
        drain=order.drain,
        accepted_at=accepted_at,
        state="committed" if order.committed else "accepted",
    )


def _complain(done: "Future[None]") -> None:
    """A fault of ours on the writer's thread would otherwise be seen by nobody."""
    fault = done.exception()
    if fault is not None:
        _log.error("journal", exc_info=fault)


class EventData(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an event says beside its words, for programs that read the history."""

    cause: str | None = None
    """Of the failure that a phase was entered with; of an event of the kernel's, the kind of incident."""


def data_of(event: StoredEvent) -> EventData:
    """What was stored beside an event; nothing where it was written by another version, or is damaged."""
    try:
        return msgspec.json.decode(event.data, type=EventData)
    except msgspec.MsgspecError:
        return EventData()


def _data(kind: str, state: State, cause: str | None) -> str:
    if cause is None and kind == "phase" and state.failure is not None:
        cause = state.failure.cause.value
    return msgspec.json.encode(EventData(cause)).decode()
