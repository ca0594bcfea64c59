"""Cards in lines of text."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from arcops import wire, words
from arcops.cli.bars import bar, gib
from arcops.cli.output import Style, paint
from arcops.core.cards.attribution import AGREES
from arcops.core.cards.measures import HAS_NONE, Quantity

NOT_THERE: Final = "not in this driver"
"""An absence that is no news: a card need not have everything."""
_UNKNOWN: Final = words.unknown("why").removesuffix("why")
_INDENT: Final = " " * 15
_BAR: Final = 20
_LAST_INCIDENTS: Final = 3
_LAST_NOTES: Final = 4
_OLD_AFTER: Final = 5.0
"""Seconds after which the age of what was seen is told."""
_TOLD_ELSEWHERE: Final = frozenset({"driver", "name", "pci_id", "subsystem", "link_max"})
"""Details that have a place of their own, or that only `--json` has."""
_NO_NEWS: Final = frozenset(
    {
        ("power_state", "active"),
        ("recovery_action", "none"),
        ("mig", "disabled"),
        ("remapped_rows", "0 (0 after uncorrected errors)"),
    }
)
_STYLES: Final = {"ours": Style.GREEN, "allowed": Style.DIM, "foreign": Style.YELLOW}

Row = tuple[str, str]


def card_lines(card: wire.CardInfo, now: float, width: int) -> list[str]:
    """A card for people, at most `width` characters a line: its name, then what there is to know."""
    lines = [paint(_head(card)[:width], Style.BOLD)]
    rows: list[Row] = [
        *_about(card),
        *_memory(card),
        *_gathered([*_sensors(card), *_link(card)]),
        *_place(card),
        *_past(card),
    ]
    for name, text in rows:
        lines += _wrapped(name, text, width)
        if name == "memory":
            lines += _holders(card, now, width)
    return lines


def watching_line(cards: wire.Cards, width: int) -> list[str]:
    """How resets are noticed."""
    return _wrapped("watched by", words.clean(cards.watching), width)


def _head(card: wire.CardInfo) -> str:
    pci = f"[{card.vendor:04x}:{card.device:04x}]"
    if card.vendor == 0:
        return f"{words.clean(card.address)}  not in this machine"
    return f"{words.clean(card.address)}  {words.clean(card.name) if card.name else 'a card without a name here'} {pci}"


def _about(card: wire.CardInfo) -> Iterator[Row]:
    details = _details(card)
    told = [_driver(card.driver, details.get("driver"))]
    told += [
        f"{words.clean(name).replace('_', ' ')} {words.clean(value)}"
        for name, value in details.items()
        if name not in _TOLD_ELSEWHERE and (name, value) not in _NO_NEWS
    ]
    yield "driver", "; ".join(told)


def _driver(name: str | None, version: str | None) -> str:
    """`nvidia 580.65`; where the version's words begin with the name, they do alone."""
    if name is None:
        return "none is bound to it"
    return words.clean(version if version and version.startswith(name) else f"{name} {version or ''}")


def _memory(card: wire.CardInfo) -> Iterator[Row]:
    used, total = first(card, Quantity.MEMORY_USED), first(card, Quantity.MEMORY_TOTAL)
    if used is None or used.value is None:
        whole = "" if total is None or total.value is None else f"{gib(total.value)} GiB; "
        yield "memory", f"{whole}in use: {_why(used)}"
    elif total is None or total.value is None:
        yield "memory", f"{gib(used.value)} GiB in use; total: {_why(total)}"
    else:
        share = words.percent(used.value / total.value) if total.value else "unknown"
        drawn = bar(used.value, total.value, _BAR).replace(" ", "░")
        yield "memory", f"{drawn} {gib(used.value)} of {gib(total.value)} GiB in use, {share}"
    reserved = first(card, Quantity.MEMORY_RESERVED)
    if reserved is not None and reserved.value:
        yield "reserved", f"{words.mebibytes(reserved.value)} more, which the driver keeps for itself"
    if card.baseline is not None:
        yield "baseline", f"{words.mebibytes(card.baseline)} in use while nobody holds any"


# -- who holds it -----------------------------------------------------------------------------------------------------
def _holders(card: wire.CardInfo, now: float, width: int) -> list[str]:
    census = card.census
    if census is None:
        return _wrapped("held by", words.unknown(words.clean(card.census_absent)), width)
    lines: list[str] = []
    for one in census.holdings:
        kind = one.kind
        size = "? MiB" if one.resident is None else words.mebibytes(one.resident)
        lines.append(f"{size:>13}  {paint(f'{kind:<8}', _STYLES[kind])} {_users(one.users)[: max(20, width - 38)]}")
    lines += _nobodys(census)
    lines += [f"! {words.clean(note)}" for note in census.notes[:_LAST_NOTES]]
    rest = [text for text in (_idle(census), _unreadable(census), _extent(census, now)) if text]
    if not census.holdings and not census.unattributed:
        rest.insert(0, "nobody that could be seen" if census.unreadable or not census.everybody else "nobody")
    if rest:
        lines.append("; ".join(rest))
    return [line for index, text in enumerate(lines) for line in _wrapped("held by" if index == 0 else "", text, width)]


def _nobodys(census: wire.CardCensus) -> Iterator[str]:
    """What is in use beside what the holders have. A little beside them is no holder that has gone unseen."""
    if census.unattributed is None:
        if census.everybody:
            yield f"{'? MiB':>13}  that nobody can be named for: {words.clean(census.unattributed_absent)}"
    elif census.unattributed:
        little = census.holdings and not census.unreadable and census.unattributed <= AGREES
        why = " (sources may differ)" if little else ""
        yield f"{words.mebibytes(census.unattributed):>13}  that nobody can be named for{why}"


def _users(users: Sequence[wire.CardUser]) -> str:
    if not users:
        return "by no process that could be seen"
    one = users[0]
    command = words.clean(one.command) if one.command else "?"
    whose = f" of {words.clean(one.user)}" if one.user else ""
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return f"pid {one.pid} {command}{whose}{more}"


def _idle(census: wire.CardCensus) -> str:
    return f"{len(census.idle)} have it only open" if census.idle else ""


def _unreadable(census: wire.CardCensus) -> str:
    many = census.unreadable
    told = many and not census.notes  # else a note says it, and more
    return f"{many} {'process' if many == 1 else 'processes'} may not be looked into" if told else ""


def _extent(census: wire.CardCensus, now: float) -> str:
    """What the look does not tell: others, or how it is now."""
    whom = "" if census.everybody else "only our backend was looked at"
    age = now - census.at
    old = f"seen {words.duration(age)} ago" if age > _OLD_AFTER else ""
    return ", ".join(part for part in (whom, old) if part)


# -- sensors ----------------------------------------------------------------------------------------------------------
def _sensors(card: wire.CardInfo) -> Iterator[Row]:
    yield from _row(card, "clock", Quantity.CLOCK, "MHz", limit=Quantity.CLOCK_MAX)
    yield "throttling", _throttling(card)
    yield from _row(card, "busy", Quantity.BUSY, "")
    yield from _row(card, "power", Quantity.POWER, "W", limit=Quantity.POWER_LIMIT)
    yield from _row(card, "temperature", Quantity.TEMPERATURE, "°C")
    yield from _row(card, "fan", Quantity.FAN, "rpm", optional=True)
    yield from _row(card, "job timeout", Quantity.JOB_TIMEOUT, "s", optional=True)
    yield from _row(card, "mem. errors", Quantity.MEMORY_ERRORS, "", optional=True)


def _row(
    card: wire.CardInfo,
    name: str,
    quantity: Quantity,
    unit: str,
    *,
    limit: Quantity | None = None,
    optional: bool = False,
) -> Iterator[Row]:
    """All parts of a quantity that are known, with their limits; else why none is."""
    limits = {} if limit is None else {one.part: one.value for one in _of(card, limit) if one.value is not None}
    known = [one for one in _of(card, quantity) if one.value is not None]
    if not known:
        one = next(iter(_of(card, quantity)), None)
        absent = _none(one) or _why(one)
        if not optional or (absent != words.unknown(NOT_THERE) and any(_of(card, quantity))):
            most = ", ".join(f"{words.clean(part)} {value:,.0f}".strip() for part, value in limits.items())
            yield name, absent + (f"; at most {most} {unit}" if most else "")
        return
    told: list[str] = []
    for one in known:
        most = limits.get(one.part)
        value = words.percent(one.value) if quantity is Quantity.BUSY else f"{one.value:,.0f}"
        of = "" if most is None else f" of {most:,.0f}"
        told.append(f"{words.clean(one.part)} {value}{of} {unit}".strip())
    yield name, ", ".join(told)


def _throttling(card: wire.CardInfo) -> str:
    if card.throttling is None:
        return words.unknown(words.clean(card.throttling_absent))
    return ", ".join(words.clean(reason) for reason in card.throttling) or "none"


def _gathered(rows: list[Row]) -> Iterator[Row]:
    """Where several are unknown for one reason, it is told once, in the place of the first."""
    shared: dict[str, list[str]] = {}
    for name, text in rows:
        if text.startswith(_UNKNOWN):
            shared.setdefault(text, []).append(name)
    for name, text in rows:
        together = shared.get(text, [name])
        if len(together) == 1:
            yield name, text
        elif name == together[0]:
            yield "unknown", f"{', '.join(together)}: {text.removeprefix(_UNKNOWN)}"


def _link(card: wire.CardInfo) -> Iterator[Row]:
    width, speed = first(card, Quantity.LINK_WIDTH), first(card, Quantity.LINK_SPEED)
    if (width is not None and width.value is not None) or (speed is not None and speed.value is not None):
        lanes = "? lanes" if width is None or width.value is None else f"{width.value:.0f} lanes"
        rate = "? GT/s" if speed is None or speed.value is None else f"{speed.value:g} GT/s"
        most = _details(card).get("link_max")
        yield "link", f"{lanes} at {rate}" + (f"; at most {words.clean(most)}" if most else "")
    else:
        yield "link", _why(width)


# -- where it is, and what befell it ----------------------------------------------------------------------------------
def _place(card: wire.CardInfo) -> Iterator[Row]:
    if card.render_node:
        yield "node", words.clean(card.render_node)
    if card.ordinal is None:
        yield "number", "none: no runtime that vLLM uses counts this card as it is"
    else:
        yield "number", f"{card.ordinal}: a launch on it sets {words.clean(card.mask or '?')}"
    if card.lock_absent:
        yield "lock", words.unknown(words.clean(card.lock_absent))
    else:
        yield "lock", words.clean(card.lock_holder) if card.lock_holder else "nobody has it"


def _past(card: wire.CardInfo) -> Iterator[Row]:
    yield "resets", "unknown" if card.resets is None else f"{card.resets} since boot"
    for one in card.incidents[-_LAST_INCIDENTS:]:
        where = f" on {words.clean(one.engine)}" if one.engine else ""
        who = f", {words.clean(one.command or 'process')} [{one.pid}]" if one.pid is not None else ""
        yield "", f"{_stamp(one.at)} {words.clean(one.kind).replace('_', ' ')}{where}{who}: {words.clean(one.text)}"


# -- small things -----------------------------------------------------------------------------------------------------
def _details(card: wire.CardInfo) -> dict[str, str]:
    """Those that are known, by name."""
    return {one.name: one.value for one in card.details if one.value is not None}


def first(card: wire.CardInfo, quantity: Quantity) -> wire.CardMeasure | None:
    """A quantity of a card: a known one before an absence."""
    found = list(_of(card, quantity))
    return next((one for one in found if one.value is not None), found[0] if found else None)


def _of(card: wire.CardInfo, quantity: Quantity) -> Iterable[wire.CardMeasure]:
    return [one for one in card.measures if one.quantity == quantity.label]


def _none(one: wire.CardMeasure | None) -> str:
    """`none: this card has no fan of its own`; empty where an absence leaves something unknown."""
    return f"none: {words.clean(one.absent)}" if one is not None and one.absent.startswith(HAS_NONE) else ""


def _why(one: wire.CardMeasure | None) -> str:
    return words.unknown(words.clean(one.absent) if one is not None else NOT_THERE)


def _stamp(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC).astimezone():%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "at no time"


def _wrapped(name: str, text: str, width: int) -> list[str]:
    """`  name         text`, gone on below where it does not fit. A painted line is short enough already."""
    first_indent = f"  {name:<12} "
    if len(first_indent) + len(text) <= width or "\x1b" in text:
        return [first_indent + text]
    return textwrap.wrap(text, width, initial_indent=first_indent, subsequent_indent=_INDENT, break_on_hyphens=False)
