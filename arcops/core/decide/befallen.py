"""A backend whose card was given up while it ran: it is asked at once, and what fails then is the card's doing."""

from arcops.core.cards.incidents import Incident, fatal
from arcops.core.diagnosis.judge import remedy
from arcops.core.restart import recent
from arcops.core.state import State
from arcops.core.world import Backend, Cause, Ending, World

_BEHIND = frozenset({Cause.HANG, Cause.WRONG_ANSWER, Cause.START_STALLED})
"""What is seen of a backend from outside when its card is gone from under it."""


def given_up(world: World, backend: Backend) -> Incident | None:
    """The last word since the launch after which a card of the backend's does not work."""
    return fatal(world.incidents, backend.spawned_at)


def blamed(world: World, failure: Ending) -> Ending:
    """What is behind `failure`: the card, where it was given up since the launch."""
    wedged = None if world.backend is None else given_up(world, world.backend)
    if wedged is None or failure.cause not in _BEHIND:
        return failure
    summary = f"card {wedged.card} is wedged: {wedged.kind.words}; and of the backend on it: {failure.summary}"
    return Ending(
        failure.launch_id, Cause.GPU_WEDGED, summary, remedy(wedged), deterministic=True, evidence=wedged.text
    )


def way_out(state: State, failure: Ending, now: float) -> str:
    """What helps a wedged card and what was tried, to be put behind the reason; empty for any other failure."""
    if failure.cause is not Cause.GPU_WEDGED:
        return ""
    helps = "; a rebind of its driver, a reset or a reboot helps"
    if not failure.launch_id:
        return helps
    restarts = len(recent(state.failures, now)) + len(recent(state.card_faults, now)) - 1
    before = f"{restarts} restarts within the hour, and " if restarts > 0 else ""
    return f"{helps} (tried: {before}to end the backend, which frees the card and does not mend it)"
