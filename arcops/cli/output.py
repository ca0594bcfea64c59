"""What `arcops` says, and what it tells the shell. Nothing else in arcops writes to stdout or stderr, or ends it.

Data goes to stdout and nothing else does, so that every `--json` can be piped. Remarks and errors go to stderr.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import NoReturn, ParamSpec, TextIO, TypeVar

from arcops.core.errors import ArcopsError, ExitCode

P = ParamSpec("P")
T = TypeVar("T")

_INTERRUPTED = 130
"""128 + SIGINT, what a shell reports for a program that Ctrl-C ended."""


class Style(Enum):
    """How a word may look on a terminal: the SGR parameters of ECMA-48."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


def data(text: str) -> None:
    """Write `text` and a newline to stdout. A reader that has gone ends the program quietly: it has what it wanted."""
    try:
        _write(sys.stdout, text + "\n")
    except BrokenPipeError:
        _forget(sys.stdout)
        leave(ExitCode.DONE)
    except OSError as error:
        _forget(sys.stdout)
        fail(ArcopsError(f"cannot write to standard output: {error.strerror}"))


def redraw(text: str) -> None:
    """Write `text` to stdout in place of what was there before, on a terminal; elsewhere with an empty line after it.

    What is taller than the terminal is cut: it cannot be drawn over.
    """
    if not _draws(sys.stdout):
        data(f"{text}\n")
        return
    size = shutil.get_terminal_size()
    lines = text.splitlines()[: max(1, size.lines - 1)]
    # Home, each line with what is left of it cleared, and all below cleared: nothing flickers (ECMA-48 CUP, EL, ED).
    data("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J\x1b[A")


def _draws(stream: TextIO | None) -> bool:
    """Whether `stream` is a terminal on which can be drawn."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # a closed stream
        return False


def json_data(value: object) -> None:
    """Write one JSON document to stdout. `value` holds dicts, lists, strings, numbers, booleans and None only."""
    data(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def note(text: str) -> None:
    """Write a remark or a line of progress to stderr."""
    _to_stderr(text)


def rewrite(text: str) -> None:
    """Show `text` on the last line of a terminal's stderr in place of what was there; an empty one clears the line."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # no terminal after all
        width = 0
    width = (width or shutil.get_terminal_size().columns) - 1
    try:
        _write(sys.stderr, f"\r\x1b[K{printable(text).splitlines()[0][:width] if text else ''}")
    except OSError:  # nobody is left who could be told
        _forget(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to stderr."""
    _to_stderr(f"{paint('warning:', Style.YELLOW, sys.stderr)} {text}")


def can_ask() -> bool:
    """Whether a person sits at both ends: a question can be read, and answered."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed streams
        return False


def confirmed(question: str) -> bool:
    """Ask on stderr, and read a line from stdin: only y and yes are a yes."""
    try:
        _write(sys.stderr, f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except OSError:
        return False


def report(error: ArcopsError) -> None:
    """Write what is wrong, and what to do about it, to stderr."""
    _to_stderr(f"{paint('arcops:', Style.RED, sys.stderr)} {printable(error.message)}")
    if error.hint:
        _to_stderr(f"{paint('hint:', Style.BOLD, sys.stderr)} {printable(error.hint)}")


def fail(error: ArcopsError) -> NoReturn:
    """Report `error` and end the program with its exit code."""
    report(error)
    leave(error.exit_code)


def leave(code: ExitCode) -> NoReturn:
    """End the program."""
    raise SystemExit(int(code))


def ended_by(signal: int) -> NoReturn:
    """End the program with what a shell reports for one that this signal has ended."""
    raise SystemExit(128 + signal)


def guard(function: Callable[P, T]) -> Callable[P, T]:
    """Turn what a command raises into words and exit codes: ArcopsError into its own, Ctrl-C into 130."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except ArcopsError as error:
            fail(error)
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None
        except BrokenPipeError:
            _forget(sys.stdout)
            leave(ExitCode.DONE)

    return guarded


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """`text` in `style` if `stream` (default: stdout) shows colours, else as it is."""
    return f"\x1b[{style.value}m{text}\x1b[0m" if colours(sys.stdout if stream is None else stream) else text


def colours(stream: TextIO | None) -> bool:
    """Whether `stream` is a terminal that wants colours. NO_COLOR (no-color.org) and TERM=dumb say no."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except ValueError:  # a closed stream
        return False


def printable(text: str) -> str:
    """`text` without control characters: what a file or a server says must not move the cursor."""
    return "".join(character if character in "\n\t" or character.isprintable() else "�" for character in text)


def _to_stderr(text: str) -> None:
    try:
        _write(sys.stderr, text + "\n")
    except OSError:  # nobody is left who could be told
        _forget(sys.stderr)


def _write(stream: TextIO | None, text: str) -> None:
    """Write and flush, so that an error shows here, not when the interpreter ends. A closed stream (`>&-`) is None."""
    if stream is None:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _forget(stream: TextIO | None) -> None:
    """Point a broken stream at /dev/null, or the interpreter would complain about it when it ends."""
    if stream is None:
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):  # not a real file: a test's buffer
        return
