"""The requests, together with the KV cache that they fill."""

from arcops import words
from arcops.core.rates import Rates
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, length, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_FULL = 0.9
"""Share of the KV cache from which on requests are about to wait or to be preempted."""
_LONGEST_BAR = 40
_SHORTEST_BAR = 4
_COUNT = 5
"""Cells of a number of requests: what is to its right does not move."""
_REASONS = ("error", "abort", "length", "stop")
"""vLLM's words for how a request ends, what is worth a look first."""


class RequestsPanel(Panel):
    """Running and waiting, KV usage; and what has finished over the window, and how."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not snapshot.serves:
            return ()
        title = rule("Requests", room.width, remark=_finished(snapshot, room.width - len("── Requests ·  ─")))
        backend = None if snapshot.status is None else snapshot.status.backend
        most = None if backend is None else backend.max_running
        return (title, _now(snapshot.rates, most, room.width), _past(snapshot.rates, room.width))


def _now(rates: Rates, most: int | None, width: int) -> Line:
    if rates.at is None:
        return (plain(words.unknown(rates.absent or "")),)
    heads = [_head(rates, most, gap) for gap in ("   ", "  ")]
    heads += [_head(rates, None, "  "), _head(rates, None, "  ", "KV")]
    if rates.kv_usage is None:
        return (*heads[0], plain("unknown: the server does not say"))
    full = rates.kv_usage >= _FULL
    held = "" if rates.kv_capacity is None else f" of {words.count(rates.kv_capacity)} tok"
    figure = f" {words.percent(rates.kv_usage):>7}"
    remark = " nearly full" if full else ""
    # The number is worth more than its bar, and than how many may run.
    head = next((one for one in heads if width - length(one) - len(figure) >= _SHORTEST_BAR), heads[-1])
    rest = width - length(head) - len(figure)
    forms = ((held + remark, 3 * _SHORTEST_BAR), (remark, _SHORTEST_BAR))
    tail = next((text for text, bar in forms if rest - len(text) >= bar), "")
    length_of_bar = min(_LONGEST_BAR, rest - len(tail)) if rest >= _SHORTEST_BAR else 0
    filled, empty = plot.bar(rates.kv_usage, length_of_bar)
    ink = Ink.WARN if full else Ink.BAR
    return (*head, (filled, ink), quiet(empty), strong(figure), (tail, Ink.WARN if full else Ink.QUIET))


def _head(rates: Rates, most: int | None, gap: str, cache: str = "KV cache") -> Line:
    return (
        quiet("running"),
        strong(f" {words.count(rates.running):>{_COUNT}}"),
        *(() if most is None else (quiet(f" of {most:,}"),)),
        quiet(f"{gap}waiting"),
        strong(f" {words.count(rates.waiting):>{_COUNT}}"),
        quiet(f"{gap}{cache} "),
    )


def _past(rates: Rates, width: int) -> Line:
    """Each number keeps its place; the last ones are left out where there is no room."""
    finished = "unknown" if rates.requests is None else f"{words.number(rates.requests)} req/s"
    hits = "unseen" if rates.prefix_hit_rate is None else words.percent(rates.prefix_hit_rate)
    line: Line = (quiet("finished"), strong(f" {finished:>10}"))
    for label, value in (("preempted", f"{words.count(rates.preemptions):>{_COUNT}}"), ("prefix hits", f"{hits:>7}")):
        longer = (*line, quiet(f"  {label}"), plain(f" {value}"))
        if length(longer) > width:
            break
        line = longer
    return line


def _finished(snapshot: Snapshot, width: int) -> str:
    """The window, and how many requests ended how within it: as much as fits, in an order that does not change."""
    found = snapshot.rates.finished
    text = snapshot.window_words
    if snapshot.rates.absent is not None or found is None:
        return text
    if not any(found.values()):
        return f"{text} · none finished"
    for name in (*(name for name in _REASONS if name in found), *sorted(set(found) - {*_REASONS})):
        longer = f"{text} · {words.clean(name)} {words.count(found[name])}"
        if found[name] and len(longer) <= width:
            text = longer
    return text
