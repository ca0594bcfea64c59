"""Numbers, times and foreign text in words for the operator. What is unknown is said so, and is never 0."""

import re
import textwrap
from math import ceil
from unicodedata import east_asian_width

from arcops import wire
from arcops.core.rates import Quantile

WIDE = 1.25
"""A bucket whose upper bound is more than this many times the lower one is shown by its bounds, not by an estimate."""
ENVIRONMENT_NAMES = 3
"""Changes of an environment that a line names."""
NUMBERS_OLD_AFTER = 3.0
"""Seconds after which the server's numbers are said to be old: the daemon scrapes once a second."""
MAX_LINE = 2000
"""Characters of one log line that are kept; one that was longer ends in an ellipsis."""

_TAKES_TWO = ("W", "F")
"""East Asian widths (Unicode TR11) of characters that take two cells of a terminal."""
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI (ECMA-48 5.4), even cut short
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
_PROCESS = re.compile(r"\([\w.-]{1,40} pid=\d{1,10}\) ")
_VLLM_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d (?P<time>\d\d:\d\d:\d\d) \[[^\]]{1,100}\](?: |$)"
)
_UVICORN_INFO = re.compile(r"INFO: {2,10}")


def sentence(status: wire.Status, now: float | None = None) -> str:
    """`serving dflash2 for 2 h 13 min: serving qwen-int4`. `now` (daemon's clock) where the status is not new."""
    profile = status.backend.profile if status.backend is not None else None
    if profile is None and status.order.goal == "run" and status.phase != "stopped":
        profile = status.order.standing_in or status.order.profile
    what = clean(f"{status.phase} {profile}" if profile else status.phase)
    age = (status.at if now is None else now) - status.since
    return f"{what} for {duration(age)}: {clean(status.reason)}"


def environment(info: wire.EnvironmentInfo) -> str:
    """How the environment of what runs stands, in one line: `since it last qualified, 2 things have changed: ...`.

    Empty while it is only not known yet.
    """
    unread = "; ".join(map(clean, info.unread[:ENVIRONMENT_NAMES]))
    if info.digest is None:
        return unread
    if info.qualified:
        return f"qualified ({digest(info.digest)})"
    if info.qualified is None:
        return f"whether it has qualified is not known{f': {unread}' if unread else ''}"
    if info.qualified_in is None:
        return "never qualified"
    if info.qualified_in == info.digest:
        return "has failed since it qualified"
    return f"since it last qualified, {changed(info.changes, info.since_qualified)}"


def changed(count: int | None, lines: tuple[str, ...]) -> str:
    """`4 things have changed: ...; ...; ...; and 1 more`, of the first changes between two environments; None and 0 for
    two that differ in what is not known."""
    if not count:
        return "something has changed, and what is not known"
    named = lines[:ENVIRONMENT_NAMES]
    more = f"; and {count - len(named)} more" if count > len(named) else ""
    things = "1 thing has" if count == 1 else f"{count} things have"
    return f"{things} changed: {'; '.join(map(clean, named))}{more}"


def digest(text: str) -> str:
    """A digest, as far as a person needs it to tell it from others: `4f1c0a9be2d7`."""
    return clean(text.removeprefix("sha256:")[:12])


def duration(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 13 min`, `4 d 3 h`; a negative one (a clock that was set) counts as 0."""
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def countdown(seconds: float) -> str:
    """Time that is left, rounded up, so that it never reads 0 s before it is over."""
    return duration(ceil(max(0.0, seconds)))


def window(seconds: float) -> str:
    """The window that rates are taken over: `last 5 min`."""
    minutes, rest = divmod(seconds, 60)
    return f"last {minutes:g} min" if minutes and not rest else f"last {seconds:g} s"


def covered(window_seconds: float, seconds: float) -> str:
    """The window, or the part of it that the differences really cover while a backend is younger than that."""
    return window(window_seconds if seconds >= window_seconds - 2 else max(1.0, round(seconds)))


def number(value: float) -> str:
    """Three digits or more, thousands set apart: `0`, `0.12`, `3.14`, `41.2`, `1,234`."""
    if value == 0:
        return "0"
    if value < 0.005:
        return "< 0.01"
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def count(value: float | None) -> str:
    """A number of things, or `unknown`."""
    return "unknown" if value is None else f"{value:,.0f}"


def tokens_per_second(value: float | None) -> str:
    """A rate with its unit, or `unknown`."""
    return "unknown" if value is None else f"{number(value)} tok/s"


def percent(share: float | None) -> str:
    """0..1 as `62.4 %`, or `unknown`."""
    return "unknown" if share is None else f"{share * 100:.1f} %"


def mebibytes(size: float) -> str:
    """Bytes as `27,104 MiB`; a little is not 0."""
    return "< 1 MiB" if 0 < size < 1024 * 1024 else f"{size / 1024 / 1024:,.0f} MiB"


def unknown(reason: str) -> str:
    """`unknown`, with its reason if there is one."""
    return f"unknown: {reason}" if reason else "unknown"


def latency(seconds: float) -> str:
    """`7 ms`, `0.31 s`, `12.4 s`, `640 s`."""
    if seconds < 0.0005:
        return "< 1 ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def quantile(value: Quantile) -> str:
    """What the histogram really tells: `≤ 1 ms`, `0.25–0.5 s`, `> 2,560 s`; `≈ 47 ms` where the bucket is narrow."""
    if value.high is None:
        return f"> {latency(value.low)}"
    if value.low <= 0:
        return f"≤ {latency(value.high)}"
    if value.high <= value.low * WIDE:
        return f"≈ {latency(value.estimate)}"
    if value.high <= 0.1:
        return f"{value.low * 1000:.3g}–{value.high * 1000:.3g} ms"
    return f"{value.low:,g}–{value.high:,g} s"


def clean(text: str) -> str:
    """Foreign text made harmless: one line, no escape sequences, no control or direction-changing characters.

    Of a line with carriage returns the last piece that says something counts: that is what a terminal would show. What
    is longer than MAX_LINE is cut, and ends in an ellipsis.
    """
    pieces = [piece for piece in text[: 4 * MAX_LINE].split("\r") if piece.strip()]
    bare = _ESCAPES.sub("", pieces[-1] if pieces else "").expandtabs(4)
    if not bare.isprintable():
        bare = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in bare)
    bare = bare.rstrip()
    return bare if len(bare) <= MAX_LINE else f"{bare[: MAX_LINE - 1]}…"


def wrapped(text: str, width: int, most: int) -> tuple[str, ...]:
    """Foreign or own text in at most `most` lines of `width` terminal cells; `…` where there was more."""
    return tuple(folded(clean(text.replace("\n", " ")), max(8, width), most=most))


def folded(text: str, width: int, *, most: int | None = None, indent: str = "") -> list[str]:
    """Clean text in lines of `width` terminal cells, those after the first behind `indent`."""
    if not text.isascii():
        lines = _folded_by_cells(text, width, indent)
        return lines if most is None or len(lines) <= most else [*lines[: most - 1], _with_ellipsis(lines, most, width)]
    return textwrap.wrap(
        text, width, max_lines=most, placeholder=" …", break_on_hyphens=False, subsequent_indent=indent
    )


def _folded_by_cells(text: str, width: int, indent: str) -> list[str]:
    """Broken at blanks, and within what is longer than a line by itself."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line.strip() else line + word
        while _cells(longer) > width:
            if line.strip() and _cells(indent + word) <= width:
                lines.append(line)
                longer = indent + word
                break
            end = _fitting(longer, width)
            lines.append(longer[:end].rstrip())
            line, word = indent, longer[end:].lstrip()
            longer = line + word
        line = longer
    return [*lines, line] if line.strip() else lines


def _with_ellipsis(lines: list[str], most: int, width: int) -> str:
    last = lines[most - 1]
    return f"{last[: _fitting(last, width - 2)].rstrip()} …"


def _fitting(text: str, width: int) -> int:
    """How many of its characters fit into so many cells; one at least."""
    taken = 0
    for number, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return max(1, number)
    return len(text)


def _cells(text: str) -> int:
    """Of a terminal. One that takes none counts as one: the line is a little shorter for it."""
    return len(text) + sum(east_asian_width(character) in _TAKES_TWO for character in text if not character.isascii())


def short_log_line(line: str) -> str:
    """vLLM's head (process, date, file) cut down to the time and any level but INFO; the process and uvicorn's INFO
    left out of other lines. What says nothing else stays as it is."""
    process = _PROCESS.match(line)
    rest = line if process is None else line[process.end() :]
    head = _VLLM_HEAD.match(rest)
    if head is not None:
        level = "" if head["level"] == "INFO" else f"{head['level']} "
        return f"{head['time']} {level}{rest[head.end() :]}".rstrip()
    informed = _UVICORN_INFO.match(rest)
    return (rest if informed is None else rest[informed.end() :]) or line
