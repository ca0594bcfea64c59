"""The census of cards: who has them open, by whatever their drivers say it with."""

import errno
from collections.abc import Callable, Collection, Sequence

from arcops.core.cards.holders import Census
from arcops.core.cards.measures import Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import reader_for
from arcops.machine.gpu.base import MACHINE, CardIdentity, CensusTaker, Roots
from arcops.machine.gpu.drm import DrmCensus
from arcops.machine.gpu.nvidia import NvidiaReader

TAKERS: tuple[CensusTaker, ...] = (DrmCensus(), NvidiaReader())
"""A driver whose cards are counted in another way is one line here."""


def take(
    cards: Sequence[CardIdentity],
    at: float,
    ours: Callable[[], frozenset[int]],
    among: Collection[int] | None = None,
    roots: Roots = MACHINE,
) -> tuple[Census, ...]:
    """Who has these cards open, one census for each in their order, as of `at` (seconds, monotonic).

    `ours` gives the pids of our backend; it is called after the scan, and only where somebody has a card open. `among`
    are the only pids that are looked at, all of them without it. Raises OSError where it cannot be said of one of them:
    a card that nobody can count is not free.
    """
    found = readings(cards, at, ours, among, roots)
    for card in cards:
        one = found[card.address]
        if isinstance(one, Unknown):
            raise OSError(errno.ENOTSUP, one.reason)
    return tuple(one.value for one in found.values() if isinstance(one, Known))


def readings(
    cards: Sequence[CardIdentity],
    at: float,
    ours: Callable[[], frozenset[int]],
    among: Collection[int] | None = None,
    roots: Roots = MACHINE,
) -> dict[str, Reading[Census]]:
    """The same by address, an absence for each card that cannot be counted: it says nothing about another one.

    All cards of one taker are counted in one pass.
    """
    found: dict[str, Reading[Census]] = {card.address: Unknown(why_nobody_counts(card), at) for card in cards}

    def used(card: CardIdentity) -> Reading[int]:
        return in_use(card, at, roots)

    for taker in TAKERS:
        of = tuple({card.address: card for card in cards if card.driver in taker.drivers}.values())
        if of:
            found.update(_together(taker, of, at, ours, used, among, roots))
    return found


def in_use(card: CardIdentity, at: float, roots: Roots = MACHINE) -> Reading[int]:
    """Bytes in use of the whole card, by its reader's word."""
    reader = reader_for(card.driver)
    if reader is None:
        return Unknown(why_nobody_counts(card), at)
    try:
        found = reader.read(card, at, roots).reading(Quantity.MEMORY_USED)
    except OSError as error:
        return Unknown(f"how much of it is in use cannot be read: {error.strerror or error}", at)
    return found if isinstance(found, Unknown) else Known(int(found.value), found.at)


def why_nobody_counts(card: CardIdentity) -> str:
    """Of a card that has no taker."""
    if card.driver is None:
        return f"no driver is bound to card {card.address}"
    return f"arcops cannot read who holds card {card.address} (driver: {card.driver})"


def _together(
    taker: CensusTaker,
    cards: Sequence[CardIdentity],
    at: float,
    ours: Callable[[], frozenset[int]],
    used: Callable[[CardIdentity], Reading[int]],
    among: Collection[int] | None,
    roots: Roots,
) -> dict[str, Reading[Census]]:
    """In one pass; where that fails, one by one, to learn of which it cannot be said."""
    try:
        return {one.address: Known(one, at) for one in taker.census(cards, at, ours, used, among, roots)}
    except OSError as error:
        if len(cards) == 1:
            why = f"who holds card {cards[0].address} cannot be looked at: {error.strerror or error}"
            return {cards[0].address: Unknown(why, at)}
    found: dict[str, Reading[Census]] = {}
    for card in cards:
        found.update(_together(taker, (card,), at, ours, used, among, roots))
    return found
