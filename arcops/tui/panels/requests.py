"""The requests, together with the KV cache that they fill."""

from collections.abc import Iterator

from arcops import words
from arcops.core.rates import Rates
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, Piece, length, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_FULL = 0.9
"""Share of the KV cache from which on requests are about to wait or to be preempted."""
_LONGEST_BAR = 40


class RequestsPanel(Panel):
    """Running and waiting, KV usage; and in small what has finished, and how."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not snapshot.serves:
            return ()
        rates = snapshot.rates
        return (rule("Requests", room.width), _now(rates, room.width), _past(rates, room.width))


def _now(rates: Rates, width: int) -> Line:
    if rates.at is None:
        return (plain(words.unknown(rates.absent or "")),)
    head: Line = (
        quiet("running "),
        strong(words.count(rates.running)),
        quiet("   waiting "),
        strong(words.count(rates.waiting)),
        quiet("   KV cache "),
    )
    if rates.kv_usage is None:
        return (*head, plain("unknown: the server does not say"))
    remark = "  nearly full" if rates.kv_usage >= _FULL else ""
    ink = Ink.WARN if remark else Ink.BAR
    cells = min(_LONGEST_BAR, max(4, width - length(head) - len(" 100.0 %") - len(remark)))
    filled, empty = plot.bar(rates.kv_usage, cells)
    return (*head, (filled, ink), quiet(empty), strong(f" {words.percent(rates.kv_usage)}"), (remark, ink))


def _past(rates: Rates, width: int) -> Line:
    """As much as fits, the most important first."""
    line: list[Piece] = []
    for label, value in _facts(rates):
        piece = f"{' · ' if line else ''}{label} "
        if length(tuple(line)) + len(piece) + len(value) > width:
            break
        line += [quiet(piece), plain(value)]
    return tuple(line)


def _facts(rates: Rates) -> Iterator[tuple[str, str]]:
    yield "finished", "unknown" if rates.requests is None else f"{words.number(rates.requests)}/s"
    for reason, many in sorted((rates.finished or {}).items(), key=lambda item: -item[1]):
        if many:
            yield words.clean(reason), words.count(many)
    yield "preemptions", words.count(rates.preemptions)
    if rates.prefix_hit_rate is not None:
        yield "prefix hits", words.percent(rates.prefix_hit_rate)
