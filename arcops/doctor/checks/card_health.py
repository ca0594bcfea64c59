"""Does every configured card compute? It is tried, where nobody uses it: see `machine/gpu/health.py`."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import assert_never

from arcops.core.cards.health import Health, Verdict
from arcops.core.errors import BlockedError
from arcops.core.launch import Launch, environment_of
from arcops.core.quantity import Known
from arcops.doctor import finding
from arcops.doctor.checks.holders import ours
from arcops.doctor.finding import Outcome, ok, together, unknown
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import environment
from arcops.machine.gpu.base import Roots
from arcops.machine.gpu.census import readings
from arcops.machine.gpu.health import LOADS_WITHIN, STEP_WITHIN, Examiner, Subject
from arcops.machine.lock import Locks, name_holders

NAME = "card-health"
SETUP_WITHIN = 60.0
"""Seconds for a setup script."""
TAKES = "it takes some hundred MiB of the card for some seconds"


def chosen(launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """As few launches as try every card: of those with fewer cards first."""
    covered: set[str] = set()
    found: list[Launch] = []
    for launch in sorted(launches, key=lambda one: len(one.cards)):
        if not covered.issuperset(launch.cards):
            found.append(launch)
            covered.update(launch.cards)
    return tuple(found)


def card_health(sight: Sight, examine: Callable[[Subject], Health] | None = None) -> Outcome:
    """`examine` is another trial in a test."""
    launches = chosen(sight.usable().launches)
    if not launches:
        return ok("no profile that can run here has a card")
    return together([_one(sight, launch, examine or Examiner().examine) for launch in launches])


def judge(health: Health) -> Outcome:
    match health.verdict:
        case Verdict.HEALTHY:
            return ok(health.words)
        case Verdict.WEDGED:
            return Outcome(finding.Verdict.PROBLEM, health.words, (), health.hint)
        case Verdict.INCONCLUSIVE:
            return unknown(health.words, remedy=health.hint)
        case _:
            assert_never(health.verdict)


def judge_busy(cards: tuple[str, ...], who: tuple[str, ...]) -> Outcome:
    """A card that somebody uses is left alone, unless somebody asks for this very check."""
    summary = f"card {', '.join(cards)} is in use, and was not tried"
    return unknown(summary, *who, remedy=f"arcops doctor {NAME}   (tries it all the same; {TAKES})")


def _one(sight: Sight, launch: Launch, examine: Callable[[Subject], Health]) -> Outcome:
    if NAME in sight.asked:
        return judge(examine(_subject(sight, launch)))
    users = _users(sight, launch)
    if users:
        return judge_busy(launch.cards, users)
    # While it is tried nobody launches on it: whoever wants to waits for the lock.
    with _locked(launch) as taken:
        if taken:
            return judge_busy(launch.cards, taken)
        return judge(examine(_subject(sight, launch)))


def _users(sight: Sight, launch: Launch) -> tuple[str, ...]:
    """Who is seen to have memory of the cards, ours or not. Whom nobody can see is not waited for: it is no launch."""
    there = [card for card in sight.found_cards() if card.address in launch.cards]
    roots = Roots(proc=sight.roots.proc, sys=sight.roots.sys, dev=sight.roots.dev)
    counted = readings(there, monotonic(), lambda: ours(sight), roots=roots)
    censuses = [found.value for found in counted.values() if isinstance(found, Known)]
    users = [user for census in censuses for holding in census.holdings for user in holding.users[:1]]
    return tuple(dict.fromkeys(f"pid {user.pid} ({user.command or '?'}) has memory of it" for user in users))


@contextmanager
def _locked(launch: Launch) -> Generator[tuple[str, ...]]:
    """With the locks of a launch; who has them where they are not to be had."""
    locks = Locks()
    try:
        yield _taken(locks, launch)
    finally:
        locks.release()


def _taken(locks: Locks, launch: Launch) -> tuple[str, ...]:
    try:
        taken = locks.try_take(launch.locks)
    except BlockedError as error:
        return (error.message,)
    if taken is None:
        return ()
    return tuple(map(str, name_holders(taken))) or (f"{taken} is locked",)


def _subject(sight: Sight, launch: Launch) -> Subject:
    """With the environment that a launch would have. Raises ArcopsError where its setup script fails."""
    drivers = {card.address: card.driver for card in sight.found_cards()}
    made: Mapping[str, str] = {}
    if launch.setup is not None:
        made = environment.sourced(launch.setup, os.environ, SETUP_WITHIN)
    variables = environment_of(os.environ, made, launch)
    return Subject(launch.argv[0], launch.cards, tuple(drivers.get(card) for card in launch.cards), variables)


CARD_HEALTH = Check(
    NAME,
    "Does every configured card compute?",
    card_health,
    within=SETUP_WITHIN + LOADS_WITHIN + 4 * STEP_WITHIN,
)
