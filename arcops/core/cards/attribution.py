"""From what was seen of single descriptors to who holds a card's memory. Pure.

A client is known by its card and its number, which is unique per card only. It counts once, however many processes and
descriptors share it (a fork, a descriptor that was passed on). A buffer that several clients share counts in full in
each of them, so that what they hold may add up to more than is in use; by how much is bounded, and what is beyond is a
contradiction, which is said and never averaged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from arcops.core.cards.holders import Census, Holding, User
from arcops.core.quantity import Known, Reading, Unknown

MIB = 1024 * 1024
AGREES = 16 * MIB
"""Bytes by which two sources may differ: they are read one after the other, while the card works."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One client of a card as one descriptor of one process showed it."""

    client: int
    pid: int
    resident: int | None
    """Bytes on the card; None where the driver does not say how much."""
    total: int | None
    """Bytes allocated there, evicted ones included; None where it does not say."""
    shared: int = 0
    """Bytes of its buffers that others have as well."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a card was looked at, apart from what was seen."""

    address: str
    at: float
    """Seconds, monotonic."""
    used: Reading[int]
    """Bytes in use of the whole card."""
    unreadable: int = 0
    everybody: bool = True
    notes: tuple[str, ...] = ()


def census(look: Look, sightings: Iterable[Sighting], users: Mapping[int, User], ours: frozenset[int]) -> Census:
    """Who has the card open. `users` are the processes by pid, `ours` the pids of our backend and of this supervisor.

    A client is ours if one of its processes is: whoever it passed a descriptor on to holds our memory, not its own.
    """
    every = tuple(_holding(client, seen, users, ours) for client, seen in _by_client(sightings).items())
    holdings = tuple(sorted((one for one in every if one.holds), key=_largest_first))
    idle = tuple(sorted((one for one in every if not one.holds), key=lambda one: one.client))
    return Census(
        address=look.address,
        at=look.at,
        holdings=holdings,
        idle=idle,
        unreadable=look.unreadable,
        used=look.used,
        everybody=look.everybody,
        notes=(*look.notes, *_notes(look, holdings)),
    )


def unattributed(census: Census) -> Reading[int]:
    """Bytes in use that nobody can be named for, never negative.

    Unknown where how much is in use is, or what a holder has, or where not everybody was looked at.
    """
    if isinstance(census.used, Unknown):
        return Unknown(census.used.reason, census.at)
    if not census.everybody:
        return Unknown("only our own processes were looked at", census.at)
    for one in census.holdings:
        if one.resident is None:
            return Unknown(f"the driver does not say how much {_who(one)} holds", census.at)
    return Known(max(0, census.used.value - (census.held or 0)), census.at)


def least_in_use(holdings: Iterable[Holding]) -> int:
    """The fewest bytes that these can have together: each its own buffers, and shared ones once.

    Those whose size is unknown count for nothing.
    """
    known = [(one.resident, min(one.shared, one.resident)) for one in holdings if one.resident is not None]
    return sum(resident - shared for resident, shared in known) + max((shared for _, shared in known), default=0)


def _by_client(sightings: Iterable[Sighting]) -> dict[int, list[Sighting]]:
    found: dict[int, list[Sighting]] = {}
    for one in sightings:
        found.setdefault(one.client, []).append(one)
    return found


def _holding(client: int, seen: list[Sighting], users: Mapping[int, User], ours: frozenset[int]) -> Holding:
    """Every descriptor of a client shows the same memory, read a little later: the larger reading stands for it."""
    pids = sorted({one.pid for one in seen})
    return Holding(
        client=client,
        users=tuple(users.get(pid, User(pid, None, None, None, None)) for pid in pids),
        resident=_largest(one.resident for one in seen),
        total=_largest(one.total for one in seen),
        ours=not ours.isdisjoint(pids),
        shared=max(one.shared for one in seen),
    )


def _largest(sizes: Iterable[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


def _largest_first(one: Holding) -> tuple[bool, int, int]:
    """One whose size is unknown comes before all others: it may be the largest."""
    return one.resident is not None, -(one.resident or 0), one.client


def _notes(look: Look, holdings: tuple[Holding, ...]) -> tuple[str, ...]:
    found: list[str] = []
    if look.unreadable:
        one = look.unreadable == 1
        found.append(
            f"{look.unreadable} {'process' if one else 'processes'} may not be looked into: memory of card"
            f" {look.address} that nobody is named for may be {'its' if one else 'theirs'}"
        )
    least = least_in_use(holdings)
    if isinstance(look.used, Known) and least > look.used.value + AGREES:
        who, whose = ("1 holder has", "its") if len(holdings) == 1 else (f"{len(holdings)} holders have", "their")
        found.append(
            f"card {look.address} contradicts itself: {who} at least {mib(least)} of it by {whose} own account, and"
            f" {mib(look.used.value)} are in use by the driver's"
        )
    return tuple(found)


def _who(one: Holding) -> str:
    if not one.users:
        return "a process that nobody can name"
    first = one.users[0]
    return f"pid {first.pid} ({first.command})" if first.command else f"pid {first.pid}"


def mib(size: int) -> str:
    """Bytes for a person, in the unit that cards are spoken of in."""
    return f"{size / MIB:,.0f} MiB"
