"""How fast tokens go in and come out, now and lately, where there is no room for plots with axes of their own."""

from arcops import words
from arcops.core.rates import Rates
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.panels.plots import DECODE, PREFILL, Subject, column_words, marked
from arcops.tui.past import Rollup
from arcops.tui.snapshot import Snapshot

_LABEL = 8
_VALUE = 13
_PEAK = 15


class RatesPanel(Panel):
    """Prefill and decode over the window, a row each with the time behind it, above one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = True
        """There are no plots of their own."""
        self._rollups: tuple[Rollup, ...] = ()

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not self.wanted or not snapshot.serves:
            return ()
        rates = snapshot.rates
        if rates.at is None or rates.absent is not None:
            title = rule("Rates", room.width, remark=snapshot.window_words)
            return (title, (plain(words.unknown(rates.absent or "")),))
        columns = max(1, room.width - _LABEL - _VALUE - 2 - _PEAK)
        seconds = plot.seconds_per_column(snapshot.window, columns)
        title = rule("Rates", room.width, remark=f"{snapshot.window_words} · {column_words(PREFILL, seconds)}")
        self._follow(snapshot, seconds)
        rows = (
            _row(subject, rates, rollup.columns(snapshot.now, columns))
            for subject, rollup in zip((PREFILL, DECODE), self._rollups, strict=True)
        )
        marks = marked(snapshot.marks, self._rollups[0].last(snapshot.now), columns, seconds)
        axis = plot.time_axis(columns, seconds, marks)
        return (title, *rows, (quiet(" " * (_LABEL + _VALUE + 1) + "└" + axis),))

    def _follow(self, snapshot: Snapshot, seconds: int) -> None:
        if not self._rollups or self._rollups[0].step != seconds:
            self._rollups = tuple(
                Rollup(subject.series[0], seconds, most=subject.most) for subject in (PREFILL, DECODE)
            )
        for rollup in self._rollups:
            rollup.follow(snapshot.history, snapshot.minutes)


def _row(subject: Subject, rates: Rates, values: tuple[float | None, ...]) -> Line:
    peak = max((value for value in values if value is not None), default=None)
    top = 0.0 if peak is None else plot.round_top(peak)
    (drawn,) = plot.plot(values, top, 1)
    tail = " no history" if peak is None else f" to {plot.scale_number(top)}"
    if subject is PREFILL and rates.prefilling is not None:
        # The number before it is true, and would mislead: vLLM counts a prompt when its prefill is complete.
        live = rates.prefilling.rate
        tail = " counted at end" if live is None else f" now {words.number(live)}"
    label, value = subject.title.lower().ljust(_LABEL), subject.value(rates).rjust(_VALUE)
    return (quiet(label), strong(value), plain("  "), (drawn, Ink.BAR), quiet(tail))
