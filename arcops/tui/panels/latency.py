"""How long requests wait: what the histograms of the server really tell, and no more."""

from arcops import words
from arcops.core.rates import Quantiles
from arcops.tui.ink import Line, Lines, Piece, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 16
_COLUMN = 12
_HEADS = ("p50", "p90", "p99", "mean")


class LatencyPanel(Panel):
    """TTFT, inter-token and queue latency over the window."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not snapshot.serves:
            return ()
        rates = snapshot.rates
        columns = 4 if room.width >= _LABEL + 4 * _COLUMN else 3
        window = snapshot.window_words
        title = _title(rule("Latency", room.width, remark=window), columns)
        if rates.at is None or rates.absent is not None:
            return (title, (plain(words.unknown(rates.absent or "")),))
        nothing = words.unknown(f"nothing observed in the {window}")
        return (
            title,
            _row("TTFT", rates.ttft, columns, nothing),
            _row("inter-token", rates.inter_token, columns, nothing),
            _row("queue", rates.queue, columns, nothing),
        )


def _title(line: Line, columns: int) -> Line:
    """The rule, with the columns' names set into it."""
    *start, (tail, ink) = line
    before = sum(len(text) for text, _ in start)
    for number, head in enumerate(_HEADS[:columns]):
        end = _LABEL + (number + 1) * _COLUMN - before
        begin = end - len(head) - 1
        if begin >= 0 and end <= len(tail) and set(tail[begin:end]) <= {"─", " "}:
            tail = f"{tail[:begin]} {head}{' ' if end < len(tail) else ''}{tail[end + 1 :]}"
    return (*start, (tail, ink))


def _row(label: str, values: Quantiles | None, columns: int, nothing: str) -> Line:
    if values is None:
        return (quiet(label.ljust(_LABEL)), plain(nothing))
    cells: list[Piece] = [
        strong(words.quantile(value).rjust(_COLUMN)) for value in (values.p50, values.p90, values.p99)
    ]
    mean = "unknown" if values.mean is None else words.latency(values.mean)
    return (quiet(label.ljust(_LABEL)), *cells, *((plain(mean.rjust(_COLUMN)),) if columns == 4 else ()))
