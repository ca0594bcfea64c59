"""What the screen leaves on the disk: the screen itself as SVG, and the numbers' history as CSV."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

from arcops import samples_csv, wire
from arcops.core.errors import ArcopsError
from arcops.tui.source import OnDemand

HISTORY_STEP = 60.0
"""Seconds a row: what `arcops history --csv` has, and what reaches back for a month."""
MOST_PAGES = 1000
"""A history without an end is a fault of whoever tells it."""

_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def self_contained(picture: str) -> str:
    """A screen as SVG that fetches no font from elsewhere: any font of equal width does."""
    return _FONTS.sub("", picture)


def proposed(instance: str, what: str, suffix: str, now: float) -> str:
    """A file name in the current folder: `arcops-main-screen-20261130-181502.svg`, by the local clock."""
    return f"arcops-{instance}-{what}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}.{suffix}"


def place(typed: str) -> Path:
    """What was typed as an absolute path. Raises ArcopsError where it begins with the home of nobody."""
    try:
        return Path(typed).expanduser().absolute()
    except RuntimeError as error:
        raise ArcopsError(f"there is no place {typed}: {error}", hint="nothing was written") from error


async def write(path: Path, text: str) -> None:
    """Write a file that is not there yet. Raises ArcopsError in words for the operator."""
    try:
        await asyncio.to_thread(_write, path, text)
    except FileExistsError:
        raise ArcopsError(f"{path} is there already", hint="nothing was written; choose another name") from None
    except OSError as error:
        raise ArcopsError(f"cannot write {path}: {error.strerror}", hint="choose another folder") from error


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)  # half a file would pass for a whole one
            raise


async def history(source: OnDemand, now: float) -> str:
    """All the numbers up to `now` (the daemon's clock), as `arcops history --csv` prints them. Raises ArcopsError."""
    points: list[wire.SamplePoint] = []
    at: float | None = 0.0
    for _ in range(MOST_PAGES):
        page = await source.samples(at, now + HISTORY_STEP, HISTORY_STEP)
        points += page.points
        at = page.next
        if at is None:
            break
    if not points:
        raise ArcopsError("there is no history yet", hint="the daemon keeps a row for each minute of a backend")
    # A month of minutes takes seconds to write out: not while the screen waits.
    return await asyncio.to_thread(lambda: "".join(f"{text}\n" for text in _lines(points)))


def _lines(points: list[wire.SamplePoint]) -> Iterator[str]:
    yield samples_csv.line(samples_csv.columns())
    for point in points:
        yield samples_csv.line(samples_csv.row(point))
