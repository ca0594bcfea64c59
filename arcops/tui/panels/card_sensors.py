"""What a card's sensors say, and what the card is."""

from collections.abc import Iterator
from dataclasses import dataclass

from arcops import wire, words
from arcops.core.cards.measures import HAS_NONE, Quantity
from arcops.tui.ink import Ink, Line, Lines, length, plain, quiet, rule, strong
from arcops.tui.panels.card_facts import (
    CardFacts,
    absence,
    ago,
    dimmed,
    heading,
    measures,
    name_of,
    named,
    row,
    value_of,
    wrapped,
)

_GAP = "   "


@dataclass(frozen=True, slots=True)
class _Sensor:
    """One row."""

    name: str
    quantity: Quantity
    unit: str
    limit: Quantity | None = None
    """What it is at most, for each part or for the card."""


_FIRST = (
    _Sensor("temperature", Quantity.TEMPERATURE, "°C"),
    _Sensor("power", Quantity.POWER, "W", Quantity.POWER_LIMIT),
    _Sensor("clock", Quantity.CLOCK, "MHz", Quantity.CLOCK_MAX),
    _Sensor("busy", Quantity.BUSY, "%"),
)
_LAST = (
    _Sensor("fan", Quantity.FAN, "rpm"),
    _Sensor("job timeout", Quantity.JOB_TIMEOUT, "s"),
    _Sensor("memory errors", Quantity.MEMORY_ERRORS, ""),
)


def sensors(facts: CardFacts, width: int) -> Lines:
    """Every card's, now."""
    title = "Sensors"
    if facts.cards is None or not facts.cards.cards:
        return ()
    cards = facts.cards.cards
    rows = (line for card in cards for line in (*named(facts, card), *_rows(card, width)))
    age = ago(max(facts.age_of(card.at) for card in cards))
    return (heading(title, (f"read {age}" if age else "",), width), *dimmed(facts, tuple(rows)))


def _rows(card: wire.CardInfo, width: int) -> Iterator[Line]:
    absent: dict[str, list[str]] = {}
    for sensor in _FIRST:
        yield from _sensor(card, sensor, width, absent)
    if card.throttling is None:
        absent.setdefault(words.clean(card.throttling_absent) or "not in this driver", []).append("throttling")
    elif card.throttling:
        yield from wrapped("! throttled", ", ".join(map(words.clean, card.throttling)), width, Ink.WARN)
    else:
        yield row("throttled", (plain("no"),))
    for sensor in _LAST:
        yield from _sensor(card, sensor, width, absent)
    yield from _link(card, absent)
    told = "; ".join(f"{', '.join(names)} ({why})" for why, names in absent.items())
    if told:
        yield from wrapped("unknown", told, width)


def _sensor(card: wire.CardInfo, sensor: _Sensor, width: int, absent: dict[str, list[str]]) -> Iterator[Line]:
    """All its parts side by side, in as many lines as they need; where none is known, that goes to `absent`."""
    known = [(one, one.value) for one in measures(card, sensor.quantity) if one.value is not None]
    if not known:
        why = absence(card, sensor.quantity)
        if why.startswith(HAS_NONE):
            yield row(sensor.name, (quiet(f"none: {why}"),))
            return
        absent.setdefault(why, []).append(sensor.name)
        limit = _limit(card, sensor, "")
        if limit is not None:
            yield row(sensor.name, (plain(f"at most {_figure(sensor, limit)}"),))
        return
    line = row(sensor.name, ())
    empty = length(line)
    for one, value in known:
        limit = _limit(card, sensor, one.part)
        of = "" if limit is None else f" of {limit:,.0f}"
        part = quiet(f"{words.clean(one.part)} ") if one.part else plain("")
        cell = (part, strong(_figure(sensor, value, of)))
        if length(line) == empty:
            line = (*line, *cell)
        elif length((*line, plain(_GAP), *cell)) <= width:
            line = (*line, plain(_GAP), *cell)
        else:
            yield line
            line = (*row("", ()), *cell)
    yield line


def _figure(sensor: _Sensor, value: float, of: str = "") -> str:
    if sensor.quantity is Quantity.BUSY:
        return words.percent(value)
    return f"{value:,.0f}{of} {sensor.unit}".rstrip()


def _limit(card: wire.CardInfo, sensor: _Sensor, part: str) -> float | None:
    """The part's own, or the only one that there is."""
    if sensor.limit is None:
        return None
    limits = {one.part: one.value for one in measures(card, sensor.limit) if one.value is not None}
    return limits.get(part, next(iter(limits.values())) if len(limits) == 1 else None)


def _link(card: wire.CardInfo, absent: dict[str, list[str]]) -> Iterator[Line]:
    lanes, speed = value_of(card, Quantity.LINK_WIDTH), value_of(card, Quantity.LINK_SPEED)
    if lanes is None and speed is None:
        absent.setdefault(absence(card, Quantity.LINK_WIDTH), []).append("link")
        return
    wide = "lanes unknown" if lanes is None else f"x{lanes:.0f}"
    fast = "speed unknown" if speed is None else f"{speed:g} GT/s"
    yield row("link", (strong(wide), plain(f" at {fast}")))


def identity(facts: CardFacts, width: int) -> Lines:
    """What each card is called and counted as, and who has its lock."""
    if facts.cards is None or not facts.cards.cards:
        return ()
    title = "Cards" if len(facts.cards.cards) > 1 else "Card"
    rows = (line for card in facts.cards.cards for line in _about(card, width))
    return (rule(title, width), *dimmed(facts, tuple(rows)))


def _about(card: wire.CardInfo, width: int) -> Iterator[Line]:
    node = f", {words.clean(card.render_node)}" if card.render_node else ""
    yield from wrapped("card", f"{card.address}, {name_of(card)}{node}", width)
    details = {one.name: one for one in card.details}
    driver = details.pop("driver", None)
    told = [words.clean((driver.value if driver else None) or card.driver or "none is bound to it")]
    known = [one for one in details.values() if one.value is not None]
    told += [f"{one.name.replace('_', ' ')} {words.clean(one.value or '')}" for one in known]
    yield from wrapped("driver", "; ".join(told), width)
    if card.ordinal is None:
        yield from wrapped("number", "none: no runtime that vLLM uses counts this card as it is", width)
    else:
        mask = f": a launch on it sets {words.clean(card.mask)}" if card.mask else ""
        yield from wrapped("number", f"{card.ordinal}{mask}", width)
    if card.lock_absent:
        yield from wrapped("lock", words.unknown(words.clean(card.lock_absent)), width)
    else:
        holder = f"held by {words.clean(card.lock_holder)}" if card.lock_holder else "nobody holds it"
        yield from wrapped("lock", holder, width)
