"""Amounts as they are drawn and written: a bar of eighths of a character, bytes."""

from typing import Final

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def bar(value: float | None, most: float, width: int = 8) -> str:
    """A horizontal bar of `width` characters, as full as what `value` is over `most`; little is shown as something."""
    eighths = 0 if not value or most <= 0 else max(1, round(value / most * width * 8))
    full, rest = divmod(min(eighths, width * 8), 8)
    return f"{'█' * full}{_EIGHTHS[rest] if rest else ''}".ljust(width)


def gib(size: float) -> str:
    """Bytes in GiB, one place, without the unit."""
    return f"{size / 2**30:,.1f}"
