"""What runs before vLLM: the set-up script and what it makes of the environment, and wrappers."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from arcops.core.errors import InvalidProfileError
from arcops.core.evidence.work import digest
from arcops.core.launch import Launch, environment_of, hidden
from arcops.machine import environment, files
from arcops.machine.hashes import Hashes
from arcops.machine.interpreter import Program

SETUP_WITHIN: Final = 120.0
"""Seconds; oneAPI's takes two."""
LARGEST_SCRIPT: Final = 4 << 20
_LISTS: Final = ("PATH", "LIBRARY_PATH", "_PATH", "_DIRS", "PATHS")
"""How the names end of variables that hold a list of places, which scripts put theirs in front of."""
_PYTHON = ("python", "pypy")


@dataclass(frozen=True, slots=True)
class Variables:
    """What a launch adds to the environment."""

    shown: tuple[tuple[str, str], ...]
    """What set-up script and profile make, by name, with secrets hidden and without what was there before."""
    effective: Mapping[str, str]
    """The backend's environment, as far as it decides what is found where. With its secrets: not to be kept."""


def variables_of(launch: Launch, setup_environment: Mapping[str, str] | None, unread: list[str]) -> Variables:
    """The set-up script is sourced in a bare environment, unless the caller has the outcome of it already."""
    base = dict(os.environ) if setup_environment is not None else _bare()
    made: Mapping[str, str] = setup_environment or {}
    if launch.setup is not None and setup_environment is None:
        try:
            made = environment.sourced(launch.setup, base, SETUP_WITHIN)
        except InvalidProfileError as error:
            unread.append(f"what the set-up script makes is not known: {error.message}")
    changed = {name: _without(name, value, base) for name, value in made.items() if base.get(name) != value}
    effective = environment_of(base, made, launch)
    own = dict(launch.environment)
    names = sorted(name for name in {*changed, *own} if name in effective)
    return Variables(tuple((name, hidden(name, own.get(name, changed.get(name, "")))) for name in names), effective)


def digests_of(program: Program, setup: str | None, hashes: Hashes, unread: list[str]) -> dict[str, str]:
    """The files that a launch runs before vLLM, each with its digest."""
    found: dict[str, str] = {}
    for path in (*((setup,) if setup is not None else ()), *program.scripts):
        try:
            found[path] = _digest(path, hashes)
        except OSError as error:
            unread.append(f"the launcher's file {path} cannot be read: {error.strerror}")
    return found


def _digest(path: str, hashes: Hashes) -> str:
    """Of a script of Python without its first line, which names the environment's place."""
    start = files.start(_real(path), LARGEST_SCRIPT)
    first, newline, rest = start.content.partition(b"\n")
    if start.whole and first.startswith(b"#!") and newline and any(name.encode() in first for name in _PYTHON):
        return digest(rest)
    return f"sha256:{hashes.of(path)}"


def _real(path: str) -> "files.Path":
    return files.Path(os.path.realpath(path))


def _bare() -> dict[str, str]:
    """So what a script makes does not depend on who asks: neither on a login's profile nor on a service's."""
    kept: Iterable[str] = ("HOME", "USER", "LOGNAME")
    return {"PATH": os.defpath, **{name: os.environ[name] for name in kept if name in os.environ}}


def _without(name: str, value: str, base: Mapping[str, str]) -> str:
    """A list of places without those that were in it before: they are whoever launches', not the script's."""
    if not name.endswith(_LISTS):
        return value
    before = set(base.get(name, "").split(":"))
    return ":".join(dict.fromkeys(part for part in value.split(":") if part and part not in before))
