"""The room that a launch's cards have: their memory, and what others hold of it now."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arcops.core.budget.bandwidth import bandwidth_of
from arcops.core.budget.plan import Room
from arcops.core.cards.attribution import least_in_use
from arcops.core.cards.holders import Census
from arcops.core.cards.measures import Quantity
from arcops.core.launch import Launch
from arcops.core.quantity import Known
from arcops.machine.gpu import CardIdentity, find_cards, reader_for
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.gpu.census import take

NOWHERE = Room(total=None, foreign=None)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch would run."""

    name: str
    """The cards in words; `the CPU`."""
    room: Room
    """Of the card with the least."""
    bandwidth: float | None
    """Bytes per second of the slowest card, by its data sheet; None where one is not known."""
    absent: str
    """Why the room is not known; empty where it is."""


def place_of(launch: Launch, ours: Callable[[], frozenset[int]], roots: Roots = MACHINE) -> Place:
    """Look at the launch's cards. It may take as long as their drivers do: for a thread, or a process of its own.

    `ours` are the processes of our backend: what they hold is given back before this launch begins.
    """
    if not launch.cards:
        return Place("the CPU", NOWHERE, None, "it takes the machine's own memory, and the room there is not planned")
    found = {card.address: card for card in find_cards(roots.sys)}
    cards = [found[address] for address in launch.cards if address in found]
    if len(cards) < len(launch.cards):
        missing = ", ".join(address for address in launch.cards if address not in found)
        return Place(missing, NOWHERE, None, f"there is no card {missing}")
    rooms = [_room(card, ours, roots) for card in cards]
    speeds = [bandwidth_of(card.vendor, card.device) for card in cards]
    known = [speed for speed in speeds if speed is not None]
    name = " and ".join(f"{card.name or 'card'} {card.address}" for card in cards)
    absent = next((why for _, why in rooms if why), "")
    return Place(
        name, _tightest([room for room, _ in rooms]), min(known) if len(known) == len(speeds) else None, absent
    )


def _room(card: CardIdentity, ours: Callable[[], frozenset[int]], roots: Roots) -> tuple[Room, str]:
    reader = reader_for(card.driver)
    if reader is None:
        return NOWHERE, f"arcops cannot read card {card.address} (driver: {card.driver or 'none'})"
    at = time.monotonic()
    reading = reader.read(card, at, roots)
    total, reserved = reading.reading(Quantity.MEMORY_TOTAL), reading.reading(Quantity.MEMORY_RESERVED)
    if not isinstance(total, Known):
        return NOWHERE, f"how much memory card {card.address} has: {total.reason}"
    usable = int(total.value - (reserved.value if isinstance(reserved, Known) else 0.0))
    return Room(usable, _foreign(card, at, ours, roots)), ""


def _foreign(card: CardIdentity, at: float, ours: Callable[[], frozenset[int]], roots: Roots) -> int | None:
    try:
        (census,) = take((card,), at, ours, None, roots)
    except OSError:
        return None
    return foreign_of(census)


def foreign_of(census: Census) -> int | None:
    """Bytes that others hold, whoever they are; None where that cannot be told.

    What is in use of the whole card counts, less what is surely ours: not everybody can be named. Where that is not
    known it is what can be named, which is too little at worst, and an absence where that is nothing and somebody could
    not be looked at.
    """
    mine = [holding for holding in census.holdings if holding.ours]
    if isinstance(census.used, Known) and all(holding.resident is not None for holding in mine):
        return max(0, census.used.value - least_in_use(mine))
    sizes = [holding.resident for holding in census.holdings if not holding.ours]
    named = sum(size for size in sizes if size is not None)
    everybody = not census.unreadable and all(size is not None for size in sizes)
    return named if named or everybody else None


def _tightest(rooms: Sequence[Room]) -> Room:
    """Every rank takes as much as the others: the card with the least free memory counts."""
    if any(room.total is None for room in rooms):
        return NOWHERE
    return min(rooms, key=lambda room: (room.total or 0) - (room.foreign or 0))
