"""How long requests wait: what the histograms of the server really tell, and no more."""

from arcops import words
from arcops.core.rates import Quantiles
from arcops.tui.ink import Line, Lines, Piece, plain, quiet, rule, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot

_LABEL = 13
_COLUMN = 14
"""Room for the widest bounds, `1,920–7,680 s`."""
_COUNT = 8
_HEADS = (("p50", _COLUMN), ("p90", _COLUMN), ("p99", _COLUMN), ("mean", _COLUMN), ("count", _COUNT))


class LatencyPanel(Panel):
    """TTFT, inter-token, queue and end-to-end latency over the window."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        if not snapshot.serves:
            return ()
        rates = snapshot.rates
        columns = _columns(room.width)
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
            _row("end to end", rates.e2e, columns, nothing),
        )


def _columns(width: int) -> int:
    """As many as there is room for; the three quantiles always."""
    ends = [_LABEL + sum(size for _, size in _HEADS[: number + 1]) for number in range(len(_HEADS))]
    return max(3, sum(end <= width for end in ends))


def _title(line: Line, columns: int) -> Line:
    """The rule, with the columns' names set into it."""
    *start, (tail, ink) = line
    end = _LABEL - sum(len(text) for text, _ in start)
    for head, size in _HEADS[:columns]:
        end += size
        begin = end - len(head) - 1
        if begin >= 0 and end <= len(tail) and set(tail[begin:end]) <= {"─", " "}:
            tail = f"{tail[:begin]} {head}{' ' if end < len(tail) else ''}{tail[end + 1 :]}"
    return (*start, (tail, ink))


def _row(label: str, values: Quantiles | None, columns: int, nothing: str) -> Line:
    if values is None:
        return (quiet(label.ljust(_LABEL)), plain(nothing))
    mean = "unknown" if values.mean is None else words.latency(values.mean)
    quantiles = [words.quantile(value) for value in (values.p50, values.p90, values.p99)]
    cells: list[Piece] = [
        strong(text.rjust(size)) if number < len(quantiles) else plain(text.rjust(size))
        for number, (text, (_, size)) in enumerate(
            zip((*quantiles, mean, words.count(values.count)), _HEADS, strict=True)
        )
    ]
    return (quiet(label.ljust(_LABEL)), *cells[:columns])
