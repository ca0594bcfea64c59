"""What is shown as rows, and how a figure is written: what is unknown is said so, and is never 0."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arcops import words
from arcops.core.evidence.figures import Percentiles
from arcops.core.evidence.statistics import Spread

UNKNOWN: Final = "unknown"


class Tone(Enum):
    """How a cell or a verdict is coloured; its words say the same."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    DIM = "dim"


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a table."""

    text: str
    tone: Tone = Tone.PLAIN
    number: bool = True
    """Aligned like a number."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; every row has as many cells as the head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> Table:
    """Plain strings are text, not numbers, and made harmless."""
    return Table(caption, tuple(head), tuple(tuple(_cell(one) for one in row) for row in rows))


def text(value: object, tone: Tone = Tone.PLAIN) -> Cell:
    """Foreign words."""
    return Cell(words.clean(str(value)), tone, number=False)


def rate(value: float | None) -> Cell:
    """Tokens per second, or whatever else is a plain number."""
    return _known(value, words.number(value) if value is not None else "")


def seconds(value: float | None) -> Cell:
    """A time, with its unit."""
    return _known(value, words.latency(value) if value is not None else "")


def count(value: float | None) -> Cell:
    """A number of things."""
    return _known(value, words.count(value))


def share(value: float | None) -> Cell:
    """0..1 as per cent."""
    return _known(value, words.percent(value))


def memory(value: float | None) -> Cell:
    """Bytes as MiB."""
    return _known(value, words.mebibytes(value) if value is not None else "")


def rates(value: Spread | None) -> Cell:
    """A median, with the least and the most beside where there are several."""
    return _known(value, "" if value is None else _spread(value, words.number))


def middle_and_tail(value: Percentiles | None) -> tuple[Cell, Cell, Cell]:
    """p50, p90 and p99, in seconds."""
    if value is None:
        return seconds(None), seconds(None), seconds(None)
    return seconds(value.p50), seconds(value.p90), seconds(value.p99)


def _spread(value: Spread, said: Callable[[float], str]) -> str:
    if value.count == 1:
        return said(value.median)
    return f"{said(value.median)} ({said(value.least)}–{said(value.most)})"


def _known(value: object, said: str) -> Cell:
    return Cell(UNKNOWN, Tone.DIM) if value is None else Cell(said)


def _cell(one: Cell | str) -> Cell:
    return one if isinstance(one, Cell) else text(one)
