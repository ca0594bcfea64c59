"""The root cause in vLLM's log: the first thing that went wrong, not the last that was said.

When an engine fails, the log ends with "Engine core initialization failed. See root cause above." The root is the first
exception that a Worker or the EngineCore reports; without one, argparse's complaint or the last exception of all. The
text is untrusted: lines are cut, made printable, and read with patterns that take linear time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_LINE = 2000
"""Characters of a line that are looked at."""
MAX_LINES = 20_000
"""Lines, counted from the end, that are looked at."""
_MAX_CONTINUATION = 5
"""Lines that a message may go on for: pydantic needs two."""
_MAX_TRACEBACK = 200
"""Lines of the traceback above the exception that are looked at."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, taken apart: `(EngineCore pid=7) ERROR 11-30 09:37:11 [core.py:1374] text`."""

    process: str
    """`APIServer`, `EngineCore`, `Worker_TP0`; empty for what no process of vLLM marked."""
    level: str
    """`ERROR` and the like; empty for what is only printed."""
    text: str


@dataclass(frozen=True, slots=True)
class Root:
    """What went wrong first."""

    text: str
    """The exception with its message, on one line."""
    traceback: str
    """The lines of the traceback that led to it; empty without one."""
    in_engine: bool
    """A Worker or the EngineCore said it."""


_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[@-~]")
_LEVEL = r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? (?:\[[^\]]{1,80}\] ?)?"
_PREFIX = re.compile(
    rf"\((\w{{1,40}})(?: [\w=]{{1,20}})? pid=\d{{1,10}}[^()]{{0,60}}\) ?(?:{_LEVEL})?|{_LEVEL}", re.ASCII
)
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,80}(?<=Error|ption|rrupt|gExit|mExit)(?:: |:?$)")
_ARGPARSE = re.compile(r"[\w./-]{1,200}(?: [\w./-]{1,40}){0,3}: error: (.+)")
_SECONDARY = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|EngineDeadError|See root cause above"
    r"|See stack trace|cancelled|CancelledError"
)
_ENGINE = ("Worker", "EngineCore", "VllmWorker", "RayWorker")
_LOUD = ("ERROR", "CRITICAL", "")


def read(log: Sequence[str]) -> list[Line]:
    """The newest lines of the log, taken apart."""
    return [_line(raw) for raw in log[-MAX_LINES:]]


def _line(raw: str) -> Line:
    text = _ANSI.sub("", raw.rstrip("\r\n").rpartition("\r")[2][:MAX_LINE])
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    match = _PREFIX.match(text)
    if match is None:
        return Line("", "", text)
    return Line(match[1] or "", match[2] or match[3] or "", text[match.end() :])


def find(lines: Sequence[Line]) -> Root | None:
    """The root cause, or None if nobody gave one."""
    numbers = [number for number, line in enumerate(lines) if _is_exception(line)]
    primary = [number for number in numbers if not _SECONDARY.search(lines[number].text)]
    for number in primary:
        if lines[number].process.startswith(_ENGINE):
            return _root(lines, number, in_engine=True)
    for line in reversed(lines):
        complaint = _ARGPARSE.fullmatch(line.text)
        if complaint is not None:
            return Root(complaint[1], "", in_engine=False)
    return _root(lines, primary[-1], in_engine=False) if primary else None


def is_engine_death(lines: Iterable[Line]) -> bool:
    """Whether the API server says that its engine died."""
    return any("EngineDeadError" in line.text or "engine core exited unexpectedly" in line.text for line in lines)


def _is_exception(line: Line) -> bool:
    return line.level in _LOUD and _EXCEPTION.match(line.text) is not None


def _root(lines: Sequence[Line], number: int, *, in_engine: bool) -> Root:
    words = [lines[number].text.strip(), *_continuation(lines, number)]
    return Root(" ".join(words)[:MAX_LINE], "\n".join(_traceback(lines, number)), in_engine)


def _continuation(lines: Sequence[Line], number: int) -> Iterator[str]:
    """What the same process says next, as far as it belongs to the message."""
    mine = [line for line in lines[number + 1 : number + 1 + 4 * _MAX_CONTINUATION] if _same(line, lines[number])]
    for line in mine[:_MAX_CONTINUATION]:
        text = line.text.strip()
        if not text or text.startswith(
            ("Traceback", "For further information", "File ", "During handling", "The above")
        ):
            return
        if _EXCEPTION.match(text) or text.startswith(("[rank", "Process ", "Exception ignored")):
            return
        yield text


def _traceback(lines: Sequence[Line], number: int) -> list[str]:
    """The traceback above an exception, first line first."""
    found: list[str] = []
    for line in reversed(lines[max(0, number - 4 * _MAX_TRACEBACK) : number]):
        if not _same(line, lines[number]):
            continue
        if line.text.startswith("Traceback") or len(found) >= _MAX_TRACEBACK:
            break
        found.append(line.text.strip())
    found.reverse()
    return found


def _same(line: Line, other: Line) -> bool:
    """Workers write at the same time: only lines of one process and one level belong together."""
    return line.process == other.process and line.level == other.level
