"""Lines of text with a few inks: what panels are made of, free of the toolkit that shows them."""

from enum import Enum
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size
from textual.content import Content


class Ink(Enum):
    """How a piece of text looks, as a Textual style. Colour is never the only carrier: the words say it too."""

    PLAIN = ""
    STRONG = "bold"
    QUIET = "dim"
    TITLE = "bold $text-primary"
    BAR = "$text-primary"
    GOOD = "bold $text-success"
    WARN = "bold $text-warning"
    BAD = "bold $text-error"
    MARK = "reverse"
    """What is searched, or selected."""


Piece: TypeAlias = tuple[str, Ink]
Line: TypeAlias = tuple[Piece, ...]
Lines: TypeAlias = tuple[Line, ...]


def plain(text: str) -> Piece:
    return (text, Ink.PLAIN)


def strong(text: str) -> Piece:
    return (text, Ink.STRONG)


def quiet(text: str) -> Piece:
    return (text, Ink.QUIET)


def length(line: Line) -> int:
    """Terminal cells that the line takes: a wide character takes two."""
    return sum(cells(text) for text, _ in line)


def cells(text: str) -> int:
    """Terminal cells that the text takes."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells: with an ellipsis, if it is too long."""
    if cells(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """The text with blanks behind it up to `width` cells."""
    return text + " " * max(0, width - cells(text))


def rule(title: str, width: int, *, remark: str = "") -> Line:
    """A section's heading: `── Title · remark ─────`, `width` cells wide."""
    words = f" · {remark} " if remark else " "
    rest = width - 3 - cells(title) - cells(words)
    return (quiet("── "), (title, Ink.TITLE), quiet(words + "─" * max(0, rest)))


def pushed_apart(left: Line, right: Line, width: int) -> Line:
    """`left` and `right` at the two ends of a line; only `left` where both do not fit."""
    gap = width - length(left) - length(right)
    return (*left, plain(" " * gap), *right) if gap >= 2 else left


def fitted(line: Line, width: int) -> Line:
    """The line in `width` cells: cut with an ellipsis, if it is too long."""
    if all(text.isascii() for text, _ in line) and length(line) <= width:
        return line
    sizes = [cells(text) for text, _ in line]
    if sum(sizes) <= width:
        return line
    pieces: list[Piece] = []
    left = width - 1
    for (text, ink), size in zip(line, sizes, strict=True):
        if size > left:
            return (*pieces, (set_cell_size(text, max(0, left)).rstrip() + "…", ink))
        pieces.append((text, ink))
        left -= size
    return tuple(pieces)


def content(lines: Lines) -> Content:
    """What Textual shows. The pieces are text and never markup."""
    parts: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        if number:
            parts.append(("\n", ""))
        parts.extend((text, ink.value) for text, ink in line)
    return Content.assemble(*parts)
