"""How fast tokens go in and come out, now and lately."""

from collections.abc import Callable

from arcops import wire, words
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 9
_VALUE = 13
_PEAK = 16
_AXIS = 10
_ROWS = 3
"""Lines of a plot where there is room."""


class RatesPanel(Panel):
    """Prefill and decode over the window, each with a plot of the seconds behind it."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not snapshot.serves:
            return ()
        rates = snapshot.rates
        title = rule("Rates", room.width, remark=snapshot.window_words)
        if rates.at is None or rates.absent is not None:
            return (title, (plain(words.unknown(rates.absent or "")),))
        speed = "" if rates.prefill_speed is None else f"{words.tokens_per_second(rates.prefill_speed)} while at it; "
        prefill = speed + "counted when complete"
        rows = (
            ("prefill", rates.prefill, _prefill, prefill),
            ("decode", rates.decode, _decode, "all requests together"),
        )
        draw = _tall if room.tall else _flat
        lines = (draw(snapshot, room.width, label, value, get, remark) for label, value, get, remark in rows)
        return (title, *(line for block in lines for line in block))


def _prefill(point: wire.HistoryPoint) -> float | None:
    return point.prefill


def _decode(point: wire.HistoryPoint) -> float | None:
    return point.decode


Getter = Callable[[wire.HistoryPoint], float | None]


def _past(snapshot: Snapshot, get: Getter, columns: int) -> tuple[tuple[float | None, ...], float | None]:
    """What to plot, and its peak; None without any known value."""
    seconds = plot.seconds_per_column(snapshot.window, columns)
    values = plot.buckets(snapshot.history, get, snapshot.now, columns, seconds)
    return values, max((value for value in values if value is not None), default=None)


def _flat(snapshot: Snapshot, width: int, label: str, value: float | None, get: Getter, _: str) -> Lines:
    values, peak = _past(snapshot, get, max(1, width - _LABEL - _VALUE - 2 - _PEAK))
    (drawn,) = plot.plot(values, peak or 0.0, 1)
    tail = "  no history" if peak is None else f"  peak {words.number(peak)}"
    if get is _prefill and snapshot.rates.prefilling is not None:
        tail = "  counted at end"  # the 0 before it is true, and would mislead
    return ((*_head(label, value), plain("  "), (drawn, Ink.BAR), quiet(tail)),)


def _tall(snapshot: Snapshot, width: int, label: str, value: float | None, get: Getter, remark: str) -> Lines:
    columns = max(1, width - _AXIS - 2)
    values, peak = _past(snapshot, get, columns)
    head = (*_head(label, value), quiet(f"  {remark}"))
    if peak is None:
        return (head, (quiet("no history"),), *((plain(""),) for _ in range(_ROWS - 1)))
    scale = [f"{words.number(peak)} ┤", *[" │"] * (_ROWS - 2), "0 ┤"]
    drawn = plot.plot(values, peak, _ROWS)
    return (head, *((quiet(mark.rjust(_AXIS)), (row, Ink.BAR)) for mark, row in zip(scale, drawn, strict=True)))


def _head(label: str, value: float | None) -> Line:
    return (quiet(label.ljust(_LABEL)), strong(words.tokens_per_second(value).rjust(_VALUE)))
