"""Reading and judging an environment in a process of its own: it reads gigabytes, and records of many megabytes.

`python -m arcops.evidence.standing` reads a question (JSON) from its stdin and writes what it found (JSON) to its
stdout; where it cannot, it ends with another code than 0 and one sentence on its stderr. This module is small: a daemon
may load it.
"""

import os
import sys
from typing import Final

import msgspec

from arcops.core.errors import ArcopsError
from arcops.core.launch import Launch
from arcops.machine import dies_with_parent

LARGEST_QUESTION: Final = 8 << 20
LARGEST_ANSWER: Final = 1 << 20
"""Bytes; a real answer has some thousand."""
MOST_LINES: Final = 20
"""Of what has changed, and of what could not be read: what is more is counted."""
LONGEST_LINE: Final = 300
"""Characters."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked: of a launch as it is now, or of an environment that is kept."""

    instance: str
    profile: str
    launch: Launch | None = None
    """Its environment is read from the machine."""
    digest: str | None = None
    """Without a launch: of the environment that is kept."""
    previous: str | None = None
    """Of the environment to compare with beside the qualified one, which is kept as well."""
    keep: bool = False
    """Keep what was read, and of the others the newest, those of `named` and those that a qualification names."""
    named: tuple[str, ...] = ()
    """Digests of environments that have to stay."""
    hurry: bool = False
    """Somebody waits for the answer: not at the lowest priority."""


class Changes(msgspec.Struct, frozen=True):
    """In what one environment differs from another."""

    count: int
    lines: tuple[str, ...]
    """The first of them, a line each."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    digest: str
    """Of the environment."""
    qualified: bool | None
    """The profile has passed its gates in this very environment, by a record without fault; None where the records
    cannot be read."""
    qualified_in: str | None = None
    """Digest of the environment in which it passed last; None where it never did."""
    since_qualified: Changes | None = None
    """What has changed since that one; None where it is this one, there is none, or the record does not hold it."""
    since_previous: Changes | None = None
    """What has changed since the previous one; None where none was named, or it is not kept any more."""
    unread: tuple[str, ...] = ()
    """What of the environment could not be read, a sentence each."""
    problems: tuple[str, ...] = ()
    """What is wrong beside that, a sentence each: records that are damaged, a folder that cannot be written."""


def command(parent: int | None = None) -> tuple[str, ...]:
    """What to start: it dies with the thread that starts it, which has to wait for it (prctl(2)).

    `parent` is the pid of whoever starts it; without it this process.
    """
    wrapped = (sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid() if parent is None else parent))
    return (*wrapped, sys.executable, "-P", "-m", "arcops.evidence.standing")


def asked(question: Question) -> bytes:
    """The child's stdin."""
    return msgspec.json.encode(question)


def understood(answer: bytes) -> Standing:
    """The child's stdout. Raises ArcopsError where it is no such answer."""
    try:
        return msgspec.json.decode(answer, type=Standing)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArcopsError(f"what the environment's reader said cannot be understood: {error}") from error
