"""What is known of a card as messages: `wire.CardInfo`, and `wire.CardGlance` for a line of a status."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from arcops import wire
from arcops.config.cards import counted_cards, kind_of
from arcops.core.affinity import mask
from arcops.core.cards.attribution import unattributed
from arcops.core.cards.derive import Glance, chosen
from arcops.core.cards.figures import Figures
from arcops.core.cards.holders import Census, Holding, User
from arcops.core.cards.incidents import Incident
from arcops.core.cards.measures import CardReading, Detail, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown, value_or_none
from arcops.machine.gpu import CardIdentity

GLANCED: Mapping[str, Quantity] = {
    "memory_used": Quantity.MEMORY_USED,
    "memory_total": Quantity.MEMORY_TOTAL,
    "power": Quantity.POWER,
    "temperature": Quantity.TEMPERATURE,
    "clock": Quantity.CLOCK,
    "busy": Quantity.BUSY,
}
"""What a glance shows, by the names of its fields."""
NOBODY_LOOKED = Unknown("nobody has looked yet", float("-inf"))


@dataclass(frozen=True, slots=True)
class Card:
    """All that is known of one card, as of its last looks. Times are monotonic."""

    identity: CardIdentity
    reading: Reading[CardReading] = NOBODY_LOOKED
    census: Reading[Census] = NOBODY_LOOKED
    baseline: int | None = None
    """Bytes in use when nobody held any."""
    lock: Reading[str | None] = NOBODY_LOOKED
    """Who has its lock, in words."""
    incidents: tuple[Incident, ...] = ()
    """The last ones since boot, oldest first."""
    resets: int | None = None


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers of the cards as the runtimes of their devices count them."""

    cards: tuple[CardIdentity, ...]
    """Every display controller of the machine: a card's number depends on the others."""

    def ordinal(self, card: CardIdentity) -> int | None:
        """None for a card that no runtime offers."""
        kind = kind_of(card)
        counted = [] if kind is None else counted_cards(kind, self.cards)
        return counted.index(card.address) if card.address in counted else None

    def mask(self, card: CardIdentity) -> str | None:
        """What a launch on that card alone sets."""
        kind, ordinal = kind_of(card), self.ordinal(card)
        return None if kind is None or ordinal is None else mask(kind, ordinal)


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes cards as messages. `wall` gives the time since the epoch of a monotonic moment."""

    wall: Callable[[float], float]
    numbering: Numbering
    allowed: Collection[str] = field(default_factory=frozenset[str])
    """Commands that the profile lets hold memory beside us."""

    def info(self, card: Card) -> wire.CardInfo:
        """All that is known of one card."""
        identity, reading = card.identity, card.reading
        known = reading.value if isinstance(reading, Known) else None
        throttling = Unknown(_why(reading), 0.0) if known is None else known.throttling
        census = value_or_none(card.census)
        return wire.CardInfo(
            address=identity.address,
            vendor=identity.vendor,
            device=identity.device,
            name=_name(card),
            driver=identity.driver,
            render_node=identity.render_node,
            at=self._at(reading.at),
            measures=unread(_why(reading)) if known is None else tuple(_measure(one) for one in known.measures),
            throttling=value_or_none(throttling),
            throttling_absent=_why(throttling),
            details=() if known is None else tuple(_detail(one) for one in known.details),
            census=None if census is None else self.census(census),
            census_absent=_why(card.census),
            baseline=card.baseline,
            lock_holder=value_or_none(card.lock),
            lock_absent=_why(card.lock),
            ordinal=self.numbering.ordinal(identity),
            mask=self.numbering.mask(identity),
            incidents=tuple(self._incident(one) for one in card.incidents),
            resets=card.resets,
        )

    def glance(self, card: Card) -> wire.CardGlance:
        """What fits a line of a status."""
        shown = values(glance_of(card.reading))
        throttling = card.reading.value.throttling if isinstance(card.reading, Known) else card.reading
        absent = {name: _why(reading) for name, reading in shown.items() if isinstance(reading, Unknown)}
        if isinstance(throttling, Unknown):
            absent["throttling"] = throttling.reason
        return wire.CardGlance(
            address=card.identity.address,
            name=_name(card),
            at=self._at(card.reading.at),
            throttling=value_or_none(throttling),
            resets=card.resets,
            absent=absent,
            **{name: value_or_none(reading) for name, reading in shown.items()},
        )

    def census(self, census: Census) -> wire.CardCensus:
        """Who holds a card's memory."""
        rest = unattributed(census)
        return wire.CardCensus(
            at=self._at(census.at),
            everybody=census.everybody,
            holdings=tuple(self._holding(one) for one in census.holdings),
            idle=tuple(self._holding(one) for one in census.idle),
            unreadable=census.unreadable,
            unattributed=value_or_none(rest),
            unattributed_absent=_why(rest),
            notes=census.notes,
        )

    def _holding(self, one: Holding) -> wire.CardHolding:
        commands = {user.command for user in one.users}
        return wire.CardHolding(
            client=one.client,
            users=tuple(_user(user) for user in one.users),
            resident=one.resident,
            total=one.total,
            ours=one.ours,
            allowed=not one.ours and bool(commands) and commands <= set(self.allowed),
        )

    def _incident(self, one: Incident) -> wire.CardIncident:
        return wire.CardIncident(
            at=self._at(one.at),
            kind=one.kind.label,
            text=one.text,
            engine=one.engine,
            pid=one.pid,
            command=one.command,
            source=one.source.value,
        )

    def _at(self, monotonic: float) -> float:
        """Since the epoch; 0 for a moment that never was."""
        return self.wall(monotonic) if monotonic > float("-inf") else 0.0


def glance_of(reading: Reading[CardReading]) -> Glance:
    """What a line shows of a reading; of one that could not be made, why."""
    if isinstance(reading, Known):
        return chosen(reading.value)
    return Glance(**dict.fromkeys(GLANCED, reading))


def values(glance: Glance) -> dict[str, Reading[float]]:
    """The readings of a glance by the names of its fields."""
    return {name: getattr(glance, name) for name in GLANCED}


def figures_of(reading: Reading[CardReading]) -> Figures:
    """What the history keeps of a card."""
    glance = glance_of(reading)
    return Figures(
        memory=value_or_none(glance.memory_used),
        power=value_or_none(glance.power),
        temperature=value_or_none(glance.temperature),
        clock=value_or_none(glance.clock),
    )


def unread(why: str) -> tuple[wire.CardMeasure, ...]:
    """The measures of a card that could not be read: what a reader looks for first is there, with the reason."""
    return tuple(
        wire.CardMeasure(quantity=one.label, part="", unit=one.unit.value, value=None, absent=why, source="")
        for one in GLANCED.values()
    )


def _measure(one: Measure) -> wire.CardMeasure:
    return wire.CardMeasure(
        quantity=one.quantity.label,
        part=one.part,
        unit=one.quantity.unit.value,
        value=value_or_none(one.reading),
        absent=_why(one.reading),
        source=one.source,
    )


def _name(card: Card) -> str | None:
    """What a card is called: by its PCI id, else by its driver."""
    reading = card.reading
    details = reading.value.details if isinstance(reading, Known) else ()
    return card.identity.name or next((value_or_none(one.reading) for one in details if one.name == "name"), None)


def _detail(one: Detail) -> wire.CardDetail:
    return wire.CardDetail(name=one.name, value=value_or_none(one.reading), absent=_why(one.reading), source=one.source)


def _user(user: User) -> wire.CardUser:
    return wire.CardUser(pid=user.pid, command=user.command, user=user.user, cgroup=user.cgroup)


def _why(reading: object) -> str:
    """Why a reading could not be made; empty where it was."""
    return reading.reason if isinstance(reading, Unknown) else ""
