"""Plots with axes, where there is room for them: one panel a subject, each as high as it may be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arcops import wire, words
from arcops.core.rates import Rates
from arcops.tui import plot
from arcops.tui.ink import Ink, Line, Lines, length, quiet, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.past import Get, Mark, Point, Rollup
from arcops.tui.snapshot import Snapshot

GIB = 1024**3
_LEAST_ROWS = 3
"""Drawn lines below which a plot is not worth its axes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plot is about."""

    title: str
    unit: str
    """As it stands at the value axis: eight characters at most."""
    value: Callable[[Rates], str]
    """Now, or over the window, with its unit."""
    cells: int
    """Of the value, so that what stands behind it keeps its place."""
    series: tuple[Get, ...]
    """One, or two of which the second stands on the first."""
    most: bool = False
    """A column is the highest value within it; else the mean."""
    top: float | None = None
    """The fixed end of the value axis; None where it goes by what is shown."""
    windowed: bool = True
    """The value is over the window; else as of now."""
    remark: Callable[[Rates], str] = lambda _: ""
    applies: Callable[[Snapshot], bool] = lambda _: True
    scale: float = 1.0
    """What a value is multiplied with at the axis."""
    seen: Callable[[Snapshot], str] | None = None
    """The value, where it is none of the server's rates."""


class PlotPanel(Panel):
    """A heading with the number, the plot, and its axes."""

    fills = True

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.wanted = False
        """There is room for it on the screen."""
        self._rollups: tuple[Rollup, ...] = ()
        self.display = False

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not self.wanted or not snapshot.serves or not self.subject.applies(snapshot):
            return ()
        columns, rows = room.width - plot.SCALE, room.height - 2
        seconds = plot.seconds_per_column(snapshot.window, columns)
        head = heading(self.subject, snapshot, seconds, room.width)
        if rows < _LEAST_ROWS or columns < 8:
            return (head,)
        values = self._columns(snapshot, seconds, columns)
        if not any(value is not None for series in values for value in series):
            return (head, (quiet("no history yet"),))
        last = self._rollups[0].last(snapshot.now)
        return (head, *drawn(self.subject, values, rows, seconds, marked(snapshot.marks, last, columns, seconds)))

    def _columns(self, snapshot: Snapshot, seconds: int, columns: int) -> tuple[tuple[float | None, ...], ...]:
        if not self._rollups or self._rollups[0].step != seconds:
            self._rollups = tuple(Rollup(get, seconds, most=self.subject.most) for get in self.subject.series)
        for rollup in self._rollups:
            rollup.follow(snapshot.history, snapshot.minutes)
        return tuple(rollup.columns(snapshot.now, columns) for rollup in self._rollups)


def marked(marks: Sequence[Mark], last: int, columns: int, seconds: int) -> tuple[int, ...]:
    """The columns in which other launches began; `last` is the newest stretch."""
    found = (columns - 1 - last + int(mark.at // seconds) for mark in marks)
    return tuple(column for column in found if 0 <= column < columns)


def drawn(
    subject: Subject, values: tuple[tuple[float | None, ...], ...], rows: int, seconds: int, marks: tuple[int, ...]
) -> Lines:
    """The plot and its axes, `rows` lines and one."""
    sums = [sum(known) for known in ([v for v in at if v is not None] for at in zip(*values, strict=True)) if known]
    top = subject.top or max(plot.round_top(max(sums)), 4.0 if subject.most else 0.0)
    picture = plot.stacked(values[0], values[1], top, rows) if len(values) == 2 else plot.plot(values[0], top, rows)
    axis = plot.time_axis(len(values[0]), seconds, marks)
    upper, half = top * subject.scale, top * subject.scale / 2
    middle = "" if subject.most and half % 1 else plot.scale_number(half)  # there is no half a request
    return plot.framed(picture, plot.scale_number(upper), middle, subject.unit, axis, marks)


def heading(subject: Subject, snapshot: Snapshot, seconds: int, width: int) -> Line:
    """`── Decode 412 tok/s · last 1 min ────── columns: 1 s mean ─`; what does not fit is left out."""
    rates = snapshot.rates
    if subject.seen is not None:
        value = subject.seen(snapshot).rjust(subject.cells)
    else:
        value = words.unknown(rates.absent) if rates.absent else subject.value(rates).rjust(subject.cells)
    line: Line = (quiet("── "), (subject.title, Ink.TITLE), quiet(" "), strong(value), quiet(" "))
    tail = f" {column_words(subject, seconds)} ─"
    window = snapshot.window_words if subject.windowed and not rates.absent else ""
    for remark in (window, subject.remark(rates)):
        longer = (*line, quiet(f"· {remark} "))
        if remark and length(longer) + len(tail) < width:
            line = longer
    rest = width - length(line) - len(tail)
    return (*line, quiet("─" * rest + tail)) if rest > 0 else (*line, quiet("─" * (width - length(line))))


def column_words(subject: Subject, seconds: int) -> str:
    """What a column of a plot is."""
    stretch = f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
    return f"columns: {stretch} {'peak' if subject.most else 'mean'}"


def _requests(point: wire.HistoryPoint) -> float | None:
    return point.requests if isinstance(point, Point) else None


def _tokens_per_step(point: wire.HistoryPoint) -> float | None:
    return point.tokens_per_step if isinstance(point, Point) else None


def _memory(point: wire.HistoryPoint) -> float | None:
    return point.card_memory / GIB if isinstance(point, Point) and point.card_memory is not None else None


def _power(point: wire.HistoryPoint) -> float | None:
    return point.card_power if isinstance(point, Point) else None


def _has_cards(snapshot: Snapshot) -> bool:
    return snapshot.status is not None and bool(snapshot.status.cards)


def _together(snapshot: Snapshot, get: Callable[[wire.CardGlance], float | None]) -> float | None:
    """Of all cards of what runs; unknown where it is of one."""
    values = [get(card) for card in (() if snapshot.status is None else snapshot.status.cards)]
    return None if not values or None in values else sum(value for value in values if value is not None)


def _memory_now(snapshot: Snapshot) -> str:
    used = _together(snapshot, lambda card: card.memory_used)
    return "unknown" if used is None else f"{used / GIB:.1f} GiB"


def _power_now(snapshot: Snapshot) -> str:
    power = _together(snapshot, lambda card: card.power)
    return "unknown" if power is None else f"{power:,.0f} W"


def _speculates(snapshot: Snapshot) -> bool:
    backend = None if snapshot.status is None else snapshot.status.backend
    return backend is not None and (backend.speculates or snapshot.rates.speculation is not None)


def _prefill_remark(rates: Rates) -> str:
    if rates.prefilling is not None and rates.prefilling.rate is not None:
        return f"now {words.number(rates.prefilling.rate)}"
    if rates.prefill_speed is not None:
        return f"{words.number(rates.prefill_speed)} while at it"
    return "counted when complete"


PREFILL = Subject(
    title="Prefill",
    unit="tok/s",
    value=lambda r: words.tokens_per_second(r.prefill),
    cells=11,
    series=(lambda p: p.prefill,),
    remark=_prefill_remark,
)
DECODE = Subject(
    title="Decode",
    unit="tok/s",
    value=lambda r: words.tokens_per_second(r.decode),
    cells=11,
    series=(lambda p: p.decode,),
)
CONCURRENCY = Subject(
    title="Running and waiting",
    unit="req",
    value=lambda r: f"█ {words.count(r.running)} ▒ {words.count(r.waiting)}",
    cells=0,
    series=(lambda p: p.running, lambda p: p.waiting),
    most=True,
    windowed=False,
)
KV_CACHE = Subject(
    title="KV cache",
    unit="%",
    value=lambda r: words.percent(r.kv_usage),
    cells=7,
    series=(lambda p: p.kv_usage,),
    most=True,
    windowed=False,
    top=1.0,
    scale=100.0,
    remark=lambda r: "" if r.kv_capacity is None else f"holds {words.count(r.kv_capacity)} tokens",
)
FINISHED = Subject(
    title="Finished",
    unit="req/s",
    value=lambda r: "unknown" if r.requests is None else f"{words.number(r.requests)} req/s",
    cells=10,
    series=(_requests,),
)
STEPS = Subject(
    title="Tokens per step",
    unit="tokens",
    value=lambda r: "unknown" if r.speculation is None else f"{r.speculation.tokens_per_step:.2f}",
    cells=5,
    series=(_tokens_per_step,),
    applies=_speculates,
)
CARD_MEMORY = Subject(
    title="Card memory",
    unit="GiB",
    value=lambda _: "",
    seen=_memory_now,
    cells=10,
    series=(_memory,),
    windowed=False,
    applies=_has_cards,
)
CARD_POWER = Subject(
    title="Card power",
    unit="W",
    value=lambda _: "",
    seen=_power_now,
    cells=7,
    series=(_power,),
    windowed=False,
    applies=_has_cards,
)
