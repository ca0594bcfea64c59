"""The cards of what runs or is ordered in a line each: memory, power, temperature, clock; what is wrong comes first."""

from arcops import wire, words
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, Piece, length, padded, plain, quiet, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

OLD = 8.0
"""Seconds from which on a reading is not told as if it were of now: the daemon reads every two."""
_LABEL = 9
_BAR = 12
_SHORTEST_BAR = 4
_FEW = 2
"""Cards that have a line where the screen is not tall."""
_FULL = 0.97
"""Share of a card's memory from which on nothing else finds room."""
_DOMAIN = "0000:"


class CardsPanel(Panel):
    """Whether a server runs or not: what else holds the card matters just then."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = True
        """There is room for it on the screen."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        cards = () if snapshot.status is None else snapshot.status.cards
        if not self.wanted or not cards:
            return ()
        most = len(cards) if room.tall else _FEW
        shown = cards[:most] if len(cards) <= most else cards[: most - 1]
        lines = tuple(card_line(card, snapshot, room.width, several=len(cards) > 1) for card in shown)
        rest = len(cards) - len(shown)
        return (*lines, (quiet(padded("cards", _LABEL)), plain(f"{rest} more: 5 shows them"))) if rest else lines


def card_line(card: wire.CardGlance, snapshot: Snapshot, width: int, *, several: bool) -> Line:
    """`card     26.5 of 31.9 GiB ████▎░  83.1 %   187 W   61 °C   2,400 MHz   busy 93.0 %`; what does not fit is left
    out, from the end; why something is unknown comes last."""
    label = card.address.removeprefix(_DOMAIN) if several else "card"
    line: Line = (quiet(padded(words.clean(label), max(_LABEL, len(label) + 1))),)
    tails = [*_warnings(card, snapshot), *_numbers(card)]
    why = _absent(card)
    if why:
        tails.append(((why, Ink.QUIET),))
    line = (*line, *_memory(card, width - length(line) - sum(length((plain("   "), *tail)) for tail in tails[:3])))
    for tail in tails:
        longer = (*line, plain("   "), *tail)
        if length(longer) <= width:
            line = longer
    return line


def _memory(card: wire.CardGlance, room: int) -> Line:
    """Figures, and a bar where there is room for it."""
    used, total = card.memory_used, card.memory_total
    if used is None:
        whole = "" if total is None else f" of {_gib(total)} GiB"
        why = words.clean(card.absent.get("memory_used", ""))
        return (strong(f"?{whole}"), quiet(f" in use{f': {why}' if why else ''}"))
    if total is None or total <= 0:
        return (strong(f"{_gib(used)} GiB"), quiet(" in use"))
    share = used / total
    whole = _gib(total)
    figures = f"{_gib(used):>{len(whole)}} of {whole} GiB"
    percent = f" {words.percent(share):>7}"
    bar = min(_BAR, room - len(figures) - len(percent) - 1)
    ink = Ink.WARN if share >= _FULL else Ink.BAR
    if bar < _SHORTEST_BAR:
        return (strong(figures), strong(percent))
    filled, empty = plot.bar(share, bar)
    return (strong(figures), plain(" "), (filled, ink), quiet(empty), strong(percent))


def _warnings(card: wire.CardGlance, snapshot: Snapshot) -> list[tuple[Piece, ...]]:
    """What an operator should know before any number."""
    found: list[tuple[Piece, ...]] = []
    age = snapshot.now - card.at
    if card.at and age > OLD:  # 0: it was never read, and says so itself
        found.append(((f"read {words.duration(age)} ago", Ink.WARN),))
    if card.resets:
        found.append(((f"{card.resets:,} reset{'s' * (card.resets > 1)}", Ink.WARN),))
    if card.throttling:
        found.append(((f"throttled: {', '.join(map(words.clean, card.throttling))}", Ink.WARN),))
    return found


def _numbers(card: wire.CardGlance) -> list[tuple[Piece, ...]]:
    """The most telling first. Each keeps its place while it changes."""
    known = (
        (card.power, "W", 4, ""),
        (card.temperature, "°C", 3, ""),
        (card.clock, "MHz", 5, ""),
        (None if card.busy is None else card.busy * 100, "%", 3, "busy "),
    )
    return [
        (quiet(name), plain(f"{value:>{cells},.0f} {unit}")) for value, unit, cells, name in known if value is not None
    ]


def _absent(card: wire.CardGlance) -> str:
    """`no power, clock: not in this driver`."""
    reasons: dict[str, list[str]] = {}
    for name, why in card.absent.items():
        if not name.startswith("memory"):
            reasons.setdefault(words.clean(why), []).append(words.clean(name).replace("_", " "))
    return "; ".join(f"no {', '.join(names)}: {why}" for why, names in reasons.items())


def _gib(size: float) -> str:
    return f"{size / 1024**3:,.1f}"
