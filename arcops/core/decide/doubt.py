"""A card that a backend was lost to is tried before something is launched on it again."""

from dataclasses import replace
from typing import assert_never

from arcops.core.action import Look
from arcops.core.cards.health import Health, Verdict
from arcops.core.decide.moves import Decision, stay
from arcops.core.decide.sight import LOOK_KEEPS
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.state import State
from arcops.core.world import Cause, Ending, World

CARD_FAULTS = frozenset({Cause.DEVICE_LOST, Cause.GPU_WEDGED})
"""Endings that speak against the card, and not against the backend."""
TRIAL_KEEPS = 600.0
"""Seconds for which a trial stands: longer than any wait before a retry, and one costs memory and some ten seconds."""


def remembered(before: State, after: State, world: World) -> State:
    """`after`, with the cards that are doubted from here on: a fault begins it, a backend that serves there ends it."""
    backend, failure = world.backend, after.failure
    if backend is None:
        return after
    cards = backend.launch.cards
    if cards and failure is not None and failure != before.failure and failure.cause in CARD_FAULTS:
        return replace(after, doubted=tuple(sorted({*after.doubted, *cards})), doubted_since=world.now)
    if after.phase is Phase.SERVING and not set(after.doubted).isdisjoint(cards):
        return replace(after, doubted=tuple(card for card in after.doubted if card not in cards))
    return after


def oldest_look(state: State, world: World, launch: Launch, began: float) -> float:
    """How old a look at port and card may be, of an attempt to launch that `began` (seconds, monotonic).

    While a trial has memory of the card nobody looks, and afterwards somebody looks again: who came meanwhile?
    """
    if not _doubted(state, launch):
        return max(began, world.now - LOOK_KEEPS)
    return began if _untried(state, world) else max(began, world.now - LOOK_KEEPS, world.examined.at)


def _doubted(state: State, launch: Launch) -> bool:
    return not set(state.doubted).isdisjoint(launch.cards)


def _untried(state: State, world: World) -> bool:
    """The doubted card was not tried since.

    What speaks against it counts only for the attempt that it was found in: somebody may have brought the card back.
    """
    examined = world.examined
    if examined.at < max(state.doubted_since, world.now - TRIAL_KEEPS):
        return True
    against = isinstance(examined, Known) and examined.value.verdict is Verdict.WEDGED
    return against and state.asked_at is not None and examined.at < state.asked_at


def trial(state: State, world: World, launch: Launch) -> Decision | Ending | str:
    """What a doubted card of `launch` needs before it may be launched.

    A Decision where the trial is still to come; an Ending where the card does not compute; else what the trial came to,
    in words to be put behind a reason (empty where no card is doubted). A trial from which nothing was learnt stands in
    nobody's way: launching is a trial as well, and the restart policy bounds it.
    """
    if not _doubted(state, launch):
        return ""
    if _untried(state, world):
        cards = ", ".join(launch.cards)
        return stay(state, Look(deep=True), reason=f"a backend was lost to card {cards}: trying whether it computes")
    if isinstance(world.examined, Unknown):
        return f"; whether the card computes could not be tried: {world.examined.reason}"
    return _judged(world.examined.value)


def _judged(health: Health) -> Ending | str:
    match health.verdict:
        case Verdict.HEALTHY | Verdict.INCONCLUSIVE:
            return f"; {health.words}"
        case Verdict.WEDGED:
            return Ending("", Cause.GPU_WEDGED, health.words, health.hint, deterministic=True)
        case _:  # pragma: no cover - pyright proves that it is never reached
            assert_never(health.verdict)
