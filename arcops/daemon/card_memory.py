"""What was seen of the cards' memory: the last look at each, and what each has in use when idle.

The latter is kept in the daemon's database, for as long as this boot and the card's driver last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import structlog

from arcops.core.cards.attribution import MIB
from arcops.core.cards.clean import Occupancy, unattributed
from arcops.core.cards.holders import Census
from arcops.core.cards.measures import Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card
from arcops.machine import proc
from arcops.machine.gpu import CardIdentity, reader_for
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.gpu.census import readings

KEPT_AS = "baselines"
"""The name under which the journal keeps them."""
APART = 0.1
"""Seconds that two looks have to be apart to be two: NVIDIA's driver gives memory back within that."""
_NOT_BEFORE = Unknown("not looked before", float("-inf"))

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one card has in use when idle, under one driver."""

    driver: str
    used: Annotated[int, msgspec.Meta(ge=0)]
    """Bytes that nobody is named for."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Of one boot, by PCI address."""

    boot_id: str
    cards: dict[str, Baseline]


def _nowhere(_text: str) -> None:
    """Where nothing is kept."""


class CardMemory:
    """The memory of the cards as it was seen. Looked at in threads, learnt and asked for on the loop."""

    def __init__(
        self,
        boot_id: str = "",
        kept: str | None = None,
        keep: Callable[[str], None] = _nowhere,
        roots: Roots = MACHINE,
    ) -> None:
        """`kept` is what an earlier supervisor has given to its `keep`."""
        self._boot_id = boot_id
        self._keep = keep
        self._roots = roots
        self._baselines = recalled(kept, boot_id)
        self._last: dict[str, Occupancy] = {}
        self._drivers: dict[str, str] = {}
        self._totals: dict[str, Reading[int]] = {}

    def look(
        self, cards: Sequence[CardIdentity], at: float, ours: Callable[[], frozenset[int]]
    ) -> Reading[tuple[Occupancy, ...]]:
        """Look at who has these cards' memory, and how much of it is in use. Raises OSError where `ours` does.

        Ours are asked for after the scan: a child that our backend forks meanwhile is no stranger.
        """
        seen = readings(cards, at, ours, roots=self._roots)
        living = bool(cards) and bool(ours())
        found: list[Occupancy] = []
        for card in cards:
            census = seen[card.address]
            if isinstance(census, Unknown):
                return census
            found.append(self._remembered(card, census.value, living))
        return Known(tuple(found), at)

    def _remembered(self, card: CardIdentity, census: Census, living: bool) -> Occupancy:
        last = self._last.get(card.address)
        found = Occupancy(
            census=census,
            total=self._total(card, census.at),
            ended=self._ended(census),
            living=living,
            earlier=_earlier(last, census.at),
        )
        if last is None or last.census.at < census.at:
            self._last[card.address] = found
            self._drivers[card.address] = card.driver or ""
        return found

    def census(self, address: str) -> Census | None:
        """The last look at everybody who has this card open; None where nobody has looked."""
        last = self._last.get(address)
        return None if last is None else last.census

    def baseline(self, address: str) -> int | None:
        """Bytes that nobody is named for when the card is idle; None where it was not learnt under this driver."""
        known = self._baselines.cards.get(address)
        return known.used if known is not None and self._drivers.get(address, known.driver) == known.driver else None

    def compared(self, card: Card) -> Card:
        """A look at the cards, with what it is held against as of now."""
        return replace(card, memory=tuple(replace(one, baseline=self.baseline(one.address)) for one in card.memory))

    def learn(self, address: str, used: int) -> None:
        """Keep what a card has in use when idle, in bytes, for this supervisor and the next ones."""
        driver = self._drivers.get(address)
        if driver is None:
            return
        cards = {**self._baselines.cards, address: Baseline(driver, used)}
        self._baselines = Baselines(self._boot_id, cards)
        _log.info("baseline", card=address, mib=round(used / MIB))
        self._keep(msgspec.json.encode(self._baselines).decode())

    def _total(self, card: CardIdentity, at: float) -> Reading[int]:
        """Asked for until it is known: a card's memory does not grow."""
        known, reader = self._totals.get(card.address, _NOT_BEFORE), reader_for(card.driver)
        if isinstance(known, Unknown) and reader is not None:
            total = reader.read(card, at, self._roots).reading(Quantity.MEMORY_TOTAL)
            known = Known(int(total.value), total.at) if isinstance(total, Known) else total
            self._totals[card.address] = known
        return known

    def _ended(self, census: Census) -> frozenset[int]:
        """Of the pids that are named, those that no process here has (any more)."""
        named = {(user.pid, user.start) for holding in census.holdings for user in holding.users}
        return frozenset(pid for pid, start in named if not self._is_here(pid, start))

    def _is_here(self, pid: int, start: int | None) -> bool:
        stat = proc.stat(pid, self._roots.proc)
        return stat is not None and not stat.ended and start in (None, stat.start)


def _earlier(last: Occupancy | None, at: float) -> Reading[int]:
    """What nobody was named for at the look before one made `at`."""
    if last is None:
        return _NOT_BEFORE
    return unattributed(last) if at - last.census.at >= APART else last.earlier


def recalled(kept: str | None, boot_id: str) -> Baselines:
    """What was kept, if it is of this boot; nothing where it is of another one, or damaged."""
    nothing = Baselines(boot_id, {})
    if kept is None:
        return nothing
    try:
        found = msgspec.json.decode(kept, type=Baselines)
    except (msgspec.MsgspecError, RecursionError):
        return nothing
    return found if found.boot_id == boot_id else nothing
