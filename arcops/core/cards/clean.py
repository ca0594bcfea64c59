"""Is a card clean? Before a launch: has a stranger memory there, or is memory in use that nobody can be named for?
After a stop: did what was ours come back?

What is read of a card's memory comes from two sources that do not know each other: the holdings (fdinfo, NVML's lists)
and what is in use of the whole card. Where they differ, the difference is memory that nobody is named for; it is held
against what the card has in use when idle, its baseline. The numbers, and why: docs/decisions/0012-a-clean-card.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from arcops.core.cards import attribution
from arcops.core.cards.attribution import AGREES, MIB, mib
from arcops.core.cards.holders import Census, Holding
from arcops.core.quantity import Known, Reading, Unknown

SPARE = 64 * MIB
"""Bytes that strangers may have of a card all together, unless the profile says more: an empty Level Zero or OpenGL
context has some MiB, an X server without a screen on NVIDIA four; a CUDA context has hundreds, as has any model."""
NEAR = 256 * MIB
"""Bytes beyond the baseline that nobody has to be named for: what a driver keeps for itself differs from look to look,
and the smallest engine takes several times as much."""
DRIVERS_SHARE = 16
"""Without a baseline, one part in so many of the card is taken for the driver's own; at most `DRIVERS_MOST`."""
DRIVERS_MOST = 2048 * MIB
DRIVERS_LEAST = 512 * MIB
"""The same where nobody can tell how much memory the card has."""
OVERHEAD_SHARE = 32
"""One part in so many of what is named may be in use beside it, for page tables and the like, and for nobody's name."""
KEPT_AFTER = 10.0
"""Seconds after our last process has ended from which memory that stays as it is, and that is no more than a driver may
have, is taken for the driver's: xe gives back within seconds, NVIDIA's driver within 150 ms."""
NAMED_AT_MOST = 4
"""Holders that are named one by one in a sentence."""


_NOT_BEFORE = Unknown("not looked before", float("-inf"))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a launch bears beside itself on its cards."""

    allowed: tuple[str, ...] = ()
    """Commands (comm) whose memory is nobody's business."""
    spare: int = SPARE
    """Bytes that all others may have together."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The memory of one card at one look: whose it is, how much is in use, and what that is held against. In bytes."""

    census: Census
    total: Reading[int]
    ended: frozenset[int] = frozenset()
    """Pids that a source goes on naming, and that no process here has (any more)."""
    living: bool = False
    """Our backend lives: what nobody is named for may be its memory."""
    earlier: Reading[int] = _NOT_BEFORE
    """What nobody was named for at the look before this one."""
    baseline: int | None = None
    """What nobody is named for when the card is idle, as it was learnt; None while it was not."""

    @property
    def address(self) -> str:
        return self.census.address


@dataclass(frozen=True, slots=True)
class Objection:
    """What a card has against a launch."""

    words: str
    named: bool
    """Somebody is named. Memory that nobody is named for may be on its way back to the card."""
    moving: bool = False
    """It was another amount at the look before."""


def unattributed(card: Occupancy) -> Reading[int]:
    """Bytes in use that nobody living is named for, never negative; unknown where not all of it could be read."""
    living = tuple(one for one in card.census.holdings if not _gone(one, card))
    return attribution.unattributed(replace(card.census, holdings=living))


def objection(card: Occupancy, terms: Terms) -> Objection | None:
    """What speaks against a launch on this card, or against going on with an order; None where nothing does.

    A name comes first: whoever reads it can do something. Where how much is in use cannot be read, names are all there
    is to judge by, and `notes` says so: a process that may not be looked into is told, and holds no launch up.
    """
    strangers = in_the_way(card, terms)
    if strangers:
        return Objection(_named(strangers, card.address), named=True)
    limit, left, ghosts = _limit(card, terms), unattributed(card), _ghosts(card)
    if limit is None:
        return None
    if isinstance(left, Unknown):
        return Objection(_ghostly(ghosts, card.address), named=False) if ghosts else None
    if left.value <= limit or learnt(card, terms, float("-inf")) is not None:
        return None
    return Objection(_nobodys(card, left.value), named=False, moving=not _steady(card, left, float("-inf")))


def in_the_way(card: Occupancy, terms: Terms) -> tuple[Holding, ...]:
    """Strangers with more memory than they may have together, the largest first; a size that is not known is too much.

    What was evicted counts: it comes back as soon as its holder works. Who has ended holds nothing by its name: that
    memory is nobody's, and comes back, or somebody has inherited it.
    """
    strangers = tuple(
        one
        for one in card.census.holdings
        if one.holds and not one.ours and not _allowed(one, terms.allowed) and not _gone(one, card)
    )
    unknown = any(one.resident is None for one in strangers)
    together = sum(max(one.resident or 0, one.total or 0) for one in strangers)
    return strangers if unknown or together > terms.spare else ()


def remains(card: Occupancy, terms: Terms, since: float, waited: float) -> str:
    """What did not come back to this card after our last process ended at `since`, `waited` seconds ago, in words.

    Empty where all did: two looks since then agree, and see no more than the card has when idle. What a stranger holds
    is no residue of ours: the next launch is refused by its name.
    """
    ours = [holding for holding in card.census.holdings if holding.ours and holding.holds]
    if ours:
        return _named(ours, card.address)
    left, ghosts = unattributed(card), _ghosts(card)
    if isinstance(left, Unknown):
        return _ghostly(ghosts, card.address) if ghosts else ""
    limit = _idle_limit(card, terms)
    if waited >= KEPT_AFTER and not ghosts:
        limit = max(limit, _drivers_own(card))
    if left.value > limit:
        return _nobodys(card, left.value)
    if not _steady(card, left, since):
        return f"the memory in use of card {card.address} is still changing, or was seen once only"
    return ""


def learnt(card: Occupancy, terms: Terms, since: float, *, kept: bool = False) -> int | None:
    """The baseline that this look teaches, in bytes; None where it teaches none, or nothing new.

    Nothing of ours runs, nobody is in the way, and two looks since `since` agree. It goes down with every such look. It
    goes up only where nobody can hide behind it: every process could be looked into, or (`kept`) the memory has stayed
    as it is for long after our own end. More than a driver may have is never learnt.
    """
    left = unattributed(card)
    if card.living or not card.census.everybody or isinstance(left, Unknown) or in_the_way(card, terms):
        return None
    if _ghosts(card) or not _steady(card, left, since):
        return None
    if left.value > _drivers_own(card):
        return None
    if card.baseline is None or left.value < card.baseline - AGREES:
        return left.value
    may_rise = kept or card.census.unreadable == 0
    return left.value if may_rise and left.value > card.baseline + AGREES else None


def notes(card: Occupancy) -> tuple[str, ...]:
    """What a reader should know of this look, a sentence each: what could not be seen, and what contradicts itself."""
    found, used, left = list(card.census.notes), card.census.used, unattributed(card)
    if card.census.unreadable and isinstance(left, Known) and left.value:
        found.append(f"{mib(left.value)} of card {card.address} are in use, and nobody can be named for them")
    if isinstance(used, Unknown):
        how = f"how much of card {card.address} is in use cannot be read ({used.reason})"
        found.append(f"{how}: it is judged by its holders alone")
    elif isinstance(card.total, Known) and used.value > card.total.value:
        more = f"{mib(used.value)} are in use, and it has {mib(card.total.value)}"
        found.append(f"card {card.address} contradicts itself: {more}")
    return tuple(found)


# -- numbers ----------------------------------------------------------------------------------------------------------
def _limit(card: Occupancy, terms: Terms) -> int | None:
    """Bytes that nobody has to be named for; None where our own backend may have any of it, and is not named."""
    limit = _idle_limit(card, terms)
    ours = [one.resident for one in card.census.holdings if one.ours and one.resident]
    if card.living and not ours:
        return None
    return limit + _held(card) // OVERHEAD_SHARE


def _idle_limit(card: Occupancy, terms: Terms) -> int:
    """The same when nothing of ours runs."""
    if card.baseline is None:
        return max(_drivers_own(card), terms.spare)
    return card.baseline + max(NEAR, terms.spare)


def _drivers_own(card: Occupancy) -> int:
    """Bytes that a driver may have for itself."""
    if isinstance(card.total, Unknown):
        return DRIVERS_LEAST
    return min(card.total.value // DRIVERS_SHARE, DRIVERS_MOST)


def _steady(card: Occupancy, left: Known[int], since: float) -> bool:
    """The look before this one was made since then too, and saw the same."""
    earlier = card.earlier
    return isinstance(earlier, Known) and earlier.at >= since and abs(left.value - earlier.value) <= AGREES


def _held(card: Occupancy) -> int:
    """Bytes that somebody living is named for, as far as they are known."""
    return sum(one.resident or 0 for one in card.census.holdings if not _gone(one, card))


# -- who --------------------------------------------------------------------------------------------------------------
def _allowed(holding: Holding, allowed: tuple[str, ...]) -> bool:
    """All who share it are."""
    return bool(holding.users) and all(user.command in allowed for user in holding.users)


def _gone(holding: Holding, card: Occupancy) -> bool:
    """No process that is named for it is here (any more)."""
    return not holding.ours and all(user.pid in card.ended for user in holding.users)


def _ghosts(card: Occupancy) -> tuple[Holding, ...]:
    """Memory whose holders have all ended, or are nowhere to be seen from here."""
    return tuple(one for one in card.census.holdings if one.holds and _gone(one, card))


def _named(holdings: Sequence[Holding], address: str) -> str:
    """Who holds how much, the largest first; those that are too many to name are counted."""
    words = [f"{_who(one)} holds {_size(one)} of card {address}" for one in holdings[:NAMED_AT_MOST]]
    more = len(holdings) - NAMED_AT_MOST
    return "; ".join([*words, f"and {more} more hold memory there"] if more > 0 else words)


def _who(holding: Holding) -> str:
    if not holding.users:
        return "somebody"
    first, others = holding.users[0], len(holding.users) - 1
    command = f" ({first.command})" if first.command else ""
    owner = f" of user {first.user}" if first.user else ""
    shared = f", together with {others} more," if others else ""
    return f"pid {first.pid}{command}{owner}{shared}"


def _ghostly(ghosts: Sequence[Holding], address: str) -> str:
    """Memory that is named after somebody who is not here."""
    named = dict.fromkeys(f"{user.pid}" for one in ghosts for user in one.users)
    pids = f"pid {', '.join(list(named)[:NAMED_AT_MOST])}" if named else "nobody"
    held = _size(max(ghosts, key=lambda one: one.resident or 0))
    return (
        f"{held} of card {address} go by {pids}, and no such process is here: it has ended, or is in another container"
    )


def _nobodys(card: Occupancy, left: int) -> str:
    """Memory that nobody is named for: how much, held against what, and why nobody is."""
    if card.baseline is None:
        against = f"more than the {mib(_drivers_own(card))} that a driver may have for itself"
    else:
        against = f"{mib(max(0, left - card.baseline))} more than when it is idle"
    ghosts, hidden = _ghosts(card), card.census.unreadable
    if ghosts:
        why = _ghostly(ghosts, card.address)
    elif hidden:
        why = f"{hidden} processes of other users may not be looked into"
    else:
        why = "everybody here was looked at, so that another container has it, or the driver keeps it"
    return f"{mib(left)} of card {card.address} are in use, {against}, and nobody can be named for it: {why}"


def _size(holding: Holding) -> str:
    if holding.resident is None:
        return "memory"
    evicted = (holding.total or 0) - holding.resident
    return f"{mib(holding.resident)}{f' (and {mib(evicted)} evicted)' if evicted >= MIB else ''}"
