"""Who has how much of a card's memory: a bar, and a row for each that holds some."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from arcops import wire, words
from arcops.core.cards.measures import Quantity
from arcops.tui.ink import Ink, Line, Lines, Piece, length, plain, quiet, strong
from arcops.tui.panels.card_facts import (
    LABEL,
    CardFacts,
    absence,
    ago,
    dimmed,
    heading,
    missing,
    name_of,
    named,
    row,
    value_of,
    wrapped,
)

_TITLE = "Memory"
_MOST_ROWS = 8
"""Holders that have a row of their own; the rest is told together."""
_LONGEST_BAR = 60
_SHORTEST_BAR = 8
_SIZE = 11
"""Cells of a size: `127,104 MiB`."""
_KINDS = {"ours": ("█", Ink.BAR), "foreign": ("▒", Ink.WARN), "allowed": ("▓", Ink.PLAIN)}
"""How the parts of the bar look, and the signs of their rows; colour is not the only carrier."""
_UNATTRIBUTED = ("▚", Ink.WARN)
_FREE = ("░", Ink.QUIET)


def memory(facts: CardFacts, width: int) -> Lines:
    """Every card's."""
    nothing = missing(facts, _TITLE, width)
    if nothing or facts.cards is None:
        return nothing
    cards = facts.cards.cards
    title = f"{_TITLE} of {cards[0].address}, {name_of(cards[0])}" if len(cards) == 1 else _TITLE
    extent = _extent(facts, cards[0]) if len(cards) == 1 else ""
    rows = (line for card in cards for line in (*named(facts, card), *_rows(facts, card, width)))
    broken = f"no new word: {facts.cards_problem}" if facts.cards_problem else ""
    return (heading(title, (broken, extent), width), *dimmed(facts, tuple(rows)))


def _rows(facts: CardFacts, card: wire.CardInfo, width: int) -> Iterator[Line]:
    yield _in_use(card, width)
    census = card.census
    if census is None:
        why = words.unknown(words.clean(card.census_absent))
        yield from wrapped("held by", f"{why}; u looks at every process", width)
    else:
        yield from _holders(census, width)
    reserved = value_of(card, Quantity.MEMORY_RESERVED)
    if reserved:
        yield row("  reserved", (_size(reserved), quiet("  more, which the driver keeps for itself")))
    if card.baseline is None:
        yield from wrapped("  baseline", "unknown: it was not seen idle yet", width)
    else:
        yield row("  baseline", (_size(card.baseline), quiet("  in use while nobody holds any")))
    if len(facts.cards.cards if facts.cards else ()) > 1:
        extent = _extent(facts, card)
        yield from wrapped("  looked at", extent, width) if extent else ()
    for note in () if census is None else census.notes:
        yield from wrapped("! note", note, width, Ink.WARN)


def _in_use(card: wire.CardInfo, width: int) -> Line:
    """`in use  27,104 of 32,624 MiB  83.1 %  ████▒▚░░`."""
    used, total = value_of(card, Quantity.MEMORY_USED), value_of(card, Quantity.MEMORY_TOTAL)
    whole = "" if total is None else f" of {words.mebibytes(total)}"
    if used is None:
        why = words.unknown(absence(card, Quantity.MEMORY_USED))
        return row("in use", (plain(f"{why}{';' * bool(whole)}{whole.replace(' of', ' it has')}"),))
    told = words.mebibytes(used).removesuffix(" MiB" if whole else "") + whole
    if total is None or total <= 0:
        return row("in use", (strong(told), quiet(f"; all: {words.unknown(absence(card, Quantity.MEMORY_TOTAL))}")))
    line = row("in use", (strong(told), plain(f"  {words.percent(used / total)}  ")))
    room = min(_LONGEST_BAR, width - length(line))
    return (*line, *_bar(card.census, used, total, room)) if room >= _SHORTEST_BAR else line


def _bar(census: wire.CardCensus | None, used: float, total: float, width: int) -> tuple[Piece, ...]:
    """Parts side by side, each as long as its share of the whole card."""
    parts = [] if census is None else [(_KINDS[kind], held) for kind, held in _held(census).items()]
    told = sum(held for _, held in parts)
    if told > used:  # a buffer that two share counts in full in each
        parts = [(look, held * used / told) for look, held in parts]
    parts.append((_KINDS["ours"] if census is None else _UNATTRIBUTED, max(0.0, used - told)))
    ends = [0.0]
    for _, held in parts:
        ends.append(ends[-1] + held)
    cells = [max(0, min(width, round(end / total * width))) for end in ends]
    drawn = [(sign * (end - begin), ink) for ((sign, ink), _), (begin, end) in zip(parts, pairwise(cells), strict=True)]
    free, ink = _FREE
    return tuple(piece for piece in (*drawn, (free * (width - cells[-1]), ink)) if piece[0])


def _held(census: wire.CardCensus) -> dict[str, float]:
    """Bytes by kind, of what is known."""
    held = dict.fromkeys(_KINDS, 0.0)
    for one in census.holdings:
        held[one.kind] += one.resident or 0
    return held


def _holders(census: wire.CardCensus, width: int) -> Iterator[Line]:
    by_kind = sorted(census.holdings, key=lambda one: list(_KINDS).index(one.kind))
    for one in by_kind[:_MOST_ROWS]:
        yield _holder(one)
    rest = by_kind[_MOST_ROWS:]
    if rest:
        sizes = [one.resident for one in rest]
        held = words.mebibytes(sum(size for size in sizes if size is not None))
        least = "at least " if None in sizes else ""
        yield from wrapped("  and", f"{len(rest)} more, with {least}{held}", width)
    if not census.holdings:
        yield from wrapped("held by", _nobody(census), width)
    yield from _unattributed(census, width)
    if census.unreadable:
        many = "1 process" if census.unreadable == 1 else f"{census.unreadable:,} processes"
        yield from wrapped("? unreadable", f"{many} may not be looked into, and might hold some", width, Ink.WARN)
    if census.idle:
        yield row("· idle", (quiet(_idle(census.idle)),))


def _holder(one: wire.CardHolding) -> Line:
    kind = one.kind
    sign, ink = _KINDS[kind]
    size = (f"{'unknown':>{_SIZE}}", Ink.STRONG) if one.resident is None else _size(one.resident)
    return ((f"{sign} ", ink), (kind.ljust(LABEL - 2), ink), size, plain(f"  {_users(one.users)}"))


def _users(users: Sequence[wire.CardUser]) -> str:
    """`pid 4311 (VLLM::EngineCore) of user op in /user.slice, and 1 more`."""
    if not users:
        return "no process that can be seen"
    one = users[0]
    whose = f" of user {words.clean(one.user)}" if one.user else ""
    where = f" in {words.clean(one.cgroup)}" if one.cgroup else ""
    others = ", ".join(str(other.pid) for other in users[1:4]) + (", …" if len(users) > 4 else "")
    return f"{_process(one)}{whose}{f', shared with pid {others}' if others else ''}{where}"


def _process(user: wire.CardUser) -> str:
    return f"pid {user.pid} ({words.clean(user.command) if user.command else 'command unknown'})"


def _idle(idle: Sequence[wire.CardHolding]) -> str:
    """Who only has it open: in one line, which may be cut."""
    users = list({user.pid: user for one in idle for user in one.users}.values())
    told = ", ".join(_process(user) for user in users)
    return f"open, and without memory: {told or f'{len(idle)} that cannot be seen'}"


def _nobody(census: wire.CardCensus) -> str:
    if not census.everybody:
        return "our backend holds none; others were not looked at: u looks at every process"
    return "nobody that may be looked into" if census.unreadable else "nobody"


def _unattributed(census: wire.CardCensus, width: int) -> Iterator[Line]:
    sign, ink = _UNATTRIBUTED
    label = f"{sign} unattributed"
    if census.unattributed is None:
        yield from wrapped(label, words.unknown(words.clean(census.unattributed_absent)), width)
    elif census.unattributed:
        what = (
            "that nobody can be named for" if census.everybody else "of others, or nobody's: u looks at every process"
        )
        yield row(label, (_size(census.unattributed), plain(f"  {what}")), ink)


def _extent(facts: CardFacts, card: wire.CardInfo) -> str:
    """Who was looked at, and when."""
    if facts.looking:
        return "looking at every process…"
    if card.census is None:
        return ago(facts.age_of(card.at))
    whom = "every process" if card.census.everybody else "ours alone"
    return ", ".join(filter(None, (whom, ago(facts.age_of(card.census.at)))))


def _size(size: float) -> Piece:
    return strong(f"{words.mebibytes(size):>{_SIZE}}")
