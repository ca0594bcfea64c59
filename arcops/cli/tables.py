"""A table for a terminal: what does not fit its width is left out column by column, the least wanted first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its cells are those of the rows, in their order."""

    title: str
    cells: Sequence[str]
    need: int = 0
    """0: it is always there. Else the higher the number, the sooner it is left out."""
    left: bool = False
    """Words stand left, numbers right."""

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.title, *self.cells))

    @property
    def empty(self) -> bool:
        """Nothing is in it that anybody would want to see."""
        return all(cell in ("", "-", "unknown") for cell in self.cells)


def table(columns: Sequence[Column], width: int) -> list[str]:
    """Lines of at most `width` characters where the columns that are always there fit; the titles first."""
    kept = [column for column in columns if not column.need or not column.empty]
    while _wide(kept) > width and any(column.need for column in kept):
        # Of those alike the last goes.
        kept.remove(max(reversed(kept), key=lambda column: column.need))
    rows = zip(*((column.title, *column.cells) for column in kept), strict=True)
    return [_line(row, kept) for row in rows]


def _wide(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _line(cells: Sequence[str], columns: Sequence[Column]) -> str:
    both = zip(cells, columns, strict=True)
    aligned = (cell.ljust(column.width) if column.left else cell.rjust(column.width) for cell, column in both)
    return _GAP.join(aligned).rstrip()
