"""One look at a card: which one it is, its measures, who has its lock. (machine/gpu/census looks at who holds it.)

Each may take as long as the card's driver does, and in one that hangs for ever: for a thread, or a process of its own.
"""

import os
import time
from dataclasses import dataclass, replace

from arcops.core.cards.derive import derived
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine import lock
from arcops.machine.gpu import CardIdentity, find_cards, reader_for
from arcops.machine.gpu.base import Roots

MOST_NAMED = 3
"""Holders of a lock that are named; a backend has several processes."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look at a card's measures showed."""

    identity: CardIdentity | None
    """None where there is no such card (any more)."""
    reading: Reading[CardReading]
    cost: float = 0.0
    """Seconds of processor time that it took."""


def measure(address: str, earlier: CardReading | None, at: float, roots: Roots) -> Sight:
    """Read a card's measures, as of `at` (seconds, monotonic); with an earlier look, rates of its counters as well.

    The card is found anew each time: after a rebind it may have another node, and its old node may be another card's.
    """
    before = time.thread_time()
    sight = _measured(address, earlier, at, roots)
    return replace(sight, cost=time.thread_time() - before)


def _measured(address: str, earlier: CardReading | None, at: float, roots: Roots) -> Sight:
    card = next((one for one in find_cards(roots.sys) if one.address == address), None)
    if card is None:
        return Sight(None, Unknown("there is no such card in this machine (any more)", at))
    reader = reader_for(card.driver)
    if reader is None:
        return Sight(card, Unknown(no_reader(card), at))
    try:
        return Sight(card, Known(derived(earlier, reader.read(card, at, roots)), at))
    except OSError as error:
        return Sight(card, Unknown(f"its driver cannot be asked: {error.strerror or error}", at))


def lock_path(address: str, roots: Roots) -> str:
    """What is flocked to own a card."""
    return os.path.join(roots.sys, "bus", "pci", "devices", address)


def lock_holder(address: str, roots: Roots) -> str | None:
    """Who has a card's lock, in words; None where nobody has. Reads every process's descriptors. Raises OSError."""
    holders = lock.holders_of(lock_path(address, roots))
    if not holders:
        return None
    who = [str(one).partition(" holds ")[0] for one in holders[:MOST_NAMED]]
    more = len(holders) - len(who)
    return ", ".join(who) + (f" and {more} more" if more else "")


def no_reader(card: CardIdentity) -> str:
    """Why nothing can be read of a card."""
    return "no driver is bound to it" if card.driver is None else f"arcops does not read the driver {card.driver}"
