"""A launch has failed for good: something else takes its place, or nothing runs until somebody orders it."""

from dataclasses import replace

from arcops.core.decide.befallen import way_out
from arcops.core.decide.moves import Decision, back_from, move, offer_of
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.state import Order, StandIn, State
from arcops.core.world import Cause, Ending, World


def for_good(state: State, world: World, failure: Ending, reason: str) -> Decision:
    """The standing order's launch is given up for `failure`: its profile's `on_failure` runs, once, or the latch falls.

    What stands in is launched from where the state is now, by the next turn, like any other launch.
    """
    order, fallback = state.order, state.order.fallback
    if fallback is not None and may_stand_in(order, failure):
        replaced = replace(order, stand_in=StandIn(fallback.profile, reason))
        why = f"{order.profile} failed ({reason}); {fallback.profile} takes its place, as its on_failure says"
        # What failed so far is not held against the one that takes its place: it is counted for itself.
        free = replace(state, order=replaced, failure=None, failures=(), asked_at=None, retry_at=None, reason=why)
        return Decision(free)
    awaited = order.stand_in is None and order.unread
    behind = back_from(state) if order.stand_in is None else _and_before(order, order.stand_in)
    mending = way_out(state, failure, world.now)
    latched = move(state, world, _latch(failure), f"{reason}{mending}{offer_of(order, failure)}{behind}")
    return Decision(replace(latched.state, failure=failure, fallback_awaited=awaited), latched.actions)


def for_good_after_all(state: State, world: World) -> Decision | None:
    """The latch fell while the `on_failure` was still being read, and now it is known; None as long as it is not.

    Only of a launch that has failed since this supervisor took it up: its profile has named what stands in all along.
    """
    failure = state.failure
    if not state.fallback_awaited or failure is None or not may_stand_in(state.order, failure):
        return None
    stands_in = for_good(state, world, failure, failure.summary)
    return move(stands_in.state, world, Phase.STOPPED, stands_in.state.reason)


def may_stand_in(order: Order, failure: Ending) -> bool:
    """The profile has an `on_failure` that is not in force yet, and needs no card that does not answer."""
    return order.stand_in is None and order.fallback is not None and not _needs_wedged(order.fallback, order, failure)


def instead(order: Order, failure: Ending) -> str:
    """What whoever ordered it is told of what stands in; empty where nothing does."""
    if order.fallback is None or not may_stand_in(order, failure):
        return ""
    return f"{order.fallback.profile} is started in its place (on_failure)"


def may_return(previous: Order, order: Order, failure: Ending) -> bool:
    """What ran before needs no card that `order` has found wedged. Where nobody knows yet what it needs, it may."""
    return failure.cause is not Cause.GPU_WEDGED or (
        previous.wanted is not None and not _needs_wedged(previous.wanted, order, failure)
    )


def _needs_wedged(launch: Launch, failed: Order, failure: Ending) -> bool:
    if failure.cause is not Cause.GPU_WEDGED:
        return False
    return failed.wanted is None or not set(launch.locks).isdisjoint(failed.wanted.locks)


def _latch(failure: Ending) -> Phase:
    return Phase.WEDGED if failure.cause is Cause.GPU_WEDGED else Phase.FAILED


def _and_before(order: Order, failed: StandIn) -> str:
    """What stood in has failed too: the first failure is told with the second."""
    return f"; it stood in for {order.profile}, which had failed before: {failed.because}"
