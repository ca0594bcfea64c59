"""What must not be lost: orders before they are acknowledged, and every transition with its reason."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from arcops.core.action import Settle
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order, State
from arcops.core.world import Ending
from arcops.daemon.clock import Clock
from arcops.machine.store import Store, StoredEvent, StoredOrder, StoreError

_ATTEMPTS = "attempts"


@dataclass(frozen=True, slots=True)
class Attempts:
    """How the ordered launch has failed, as it is kept over supervisors."""

    order_id: int
    boot_id: str
    failures: tuple[float, ...]
    """When, within the last hour, in seconds since the epoch."""
    latched: bool
    reason: str
    failure: Ending | None


class Journal:
    """The store, with its faults turned into `trouble`: a full disk must not take the supervisor down.

    An order is different: it is acknowledged only once it is written, so `write_order` raises StoreError.
    """

    def __init__(self, store: Store, clock: Clock, boot_id: str) -> None:
        self._store = store
        self._clock = clock
        self._boot_id = boot_id
        self._next_order = store.highest_order_id() + 1
        self.trouble: str | None = None
        newest = store.last_events(1)
        self.newest_event = newest[0].id if newest else 0

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

    def write_order(self, order: Order) -> None:
        """Write an accepted order down. Raises StoreError: then it is not accepted."""
        previous = order.previous
        self._store.save_order(
            StoredOrder(
                id=order.id,
                goal=order.goal.value,
                profile=order.profile,
                fallback=previous.profile if previous is not None and order.returns else None,
                replaces=order.replaces,
                drain=order.drain,
                accepted_at=self._clock.wall(),
                state="accepted",
                why="",
            )
        )

    def settle(self, action: Settle) -> None:
        outcome = action.outcome
        state = "committed" if action.stands else ("superseded" if outcome.superseded else "failed")
        self._try(lambda: self._store.settle(outcome.order_id, state, outcome.summary))

    def event(self, kind: str, state: State, reason: str, launch_id: str | None = None) -> None:
        """One entry of the history."""
        profile = state.order.profile if state.order.goal is Goal.RUN else None
        entry = StoredEvent(
            id=0,
            at=self._clock.wall(),
            kind=kind,
            phase=state.phase.value,
            profile=profile,
            launch_id=launch_id,
            reason=reason,
            data="{}",
        )

        def write() -> None:
            self.newest_event = self._store.add_event(entry)

        self._try(write)

    def attempts(self, state: State) -> None:
        """Keep how the ordered launch has failed so far: a new supervisor must not begin to count anew."""
        kept = Attempts(
            order_id=state.order.id,
            boot_id=self._boot_id,
            failures=tuple(self._clock.to_wall(at) for at in state.failures),
            latched=state.phase is Phase.FAILED,
            reason=state.reason,
            failure=state.failure,
        )
        self._try(lambda: self._store.remember(_ATTEMPTS, msgspec.json.encode(kept).decode()))

    def recalled(self, state: State) -> State:
        """`state` with the failures of its order, and its latch if that was set in this boot.

        A reboot is worth one more attempt: it resets drivers and memory. It does not reset the count.
        """
        kept = self._recall()
        if kept is None or kept.order_id != state.order.id or state.order.goal is Goal.STOP:
            return state
        now, wall = self._clock.monotonic(), self._clock.wall()
        # A time in the future is a clock that was set back: it counts as now.
        failures = tuple(now - max(0.0, wall - at) for at in kept.failures)
        state = replace(state, failures=failures)
        if not kept.latched or kept.boot_id != self._boot_id:
            return state
        return replace(state, phase=Phase.FAILED, reason=kept.reason, failure=kept.failure)

    def _recall(self) -> "Attempts | None":
        try:
            text = self._store.recall(_ATTEMPTS)
            return None if text is None else msgspec.json.decode(text, type=Attempts)
        except (StoreError, msgspec.DecodeError):
            return None

    def events(self, after: int, limit: int) -> tuple[StoredEvent, ...]:
        """A page of the history, oldest first. Raises StoreError."""
        return self._store.events(after=after, limit=limit)

    def loaded(self, profile: str, seconds: float) -> None:
        """Remember how long a start took."""
        self._try(lambda: self._store.record_launch(profile, seconds))

    def usual_load_time(self, profile: str) -> float | None:
        try:
            return self._store.usual_load_time(profile)
        except StoreError:
            return None

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except StoreError as error:
            self.trouble = f"the history cannot be written: {error.reason}"
        else:
            self.trouble = None
