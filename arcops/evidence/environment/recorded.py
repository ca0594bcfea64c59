"""Environments that are kept: those that somebody recorded, and those that the daemon's launches ran in."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops import __version__
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import Environment, digest_of
from arcops.evidence import shelf
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.standing import kept

SHORTEST: Final = 4
"""Digits of a digest's beginning that may name an environment."""
_KEPT: Final = re.compile(r"[0-9a-f]{64}\.json")


@dataclass(frozen=True, slots=True)
class Recorded:
    """An environment, and where it is kept."""

    environment: Environment
    digest: str
    """Of the environment."""
    path: Path
    at: float
    """When it was read, in seconds since the epoch."""
    by: str
    """`record` (somebody's `arcops env record`), `launch` (the daemon's), or the kind of another record."""


def keep(place: Path, environment: Environment, began: float, ended: float, command: tuple[str, ...]) -> Recorded:
    """Write an environment down as a record of its own. In a folder its file is named by the environment's digest.

    One that is there already, the same in everything, is left as it is and returned. Raises ArcopsError.
    """
    digest = digest_of(environment)
    record = Record(
        arcops_record=FORMAT,
        kind="environment",
        arcops=__version__,
        began=began,
        ended=ended,
        command=command,
        environment=environment,
    )
    if place.suffix == ".json" and not os.path.isdir(place):
        return _of(shelf.write(place, record))
    file = place / f"environment-{digest.removeprefix('sha256:')[:12]}.json"
    if os.path.lexists(file):
        with suppress(ArcopsError):
            there = _of(shelf.read(file))
            if there.environment == environment:
                return there
        # The same in all that counts, and yet not the same (weights that were read, where it stands): beside it.
        return _of(shelf.write(place, record))
    return _of(shelf.write(file, record))


def named(folder: Path, word: str) -> Recorded:
    """The environment that a person means: a file, or the beginning of an environment's or a record's digest.

    Raises ArcopsError where it is none, or several.
    """
    if "/" in word or word.endswith(".json") or os.path.isfile(word):
        path = Path(word) if "/" in word or os.path.isfile(word) else folder / word
        return read(path)
    start = word.removeprefix("sha256:").lower()
    if len(start) < SHORTEST or re.fullmatch(r"[0-9a-f]+", start) is None:
        raise _none(folder, word)
    fitting = {one.digest: one for one in sorted(_fitting(folder, start), key=lambda one: one.at)}
    if not fitting:
        raise _none(folder, word)
    if len(fitting) > 1:
        digests = ", ".join(sorted(digest.removeprefix("sha256:")[:16] for digest in fitting))
        raise ArcopsError(
            f"several environments begin with {start}: {digests}",
            hint="give more of its digits",
            exit_code=ExitCode.USAGE,
        )
    return next(iter(fitting.values()))


def newest(folder: Path, profile: str | None = None) -> Recorded | None:
    """What was recorded last, of a profile or of any; where nobody has recorded any, what was launched last."""
    every = [one for one in _every(folder) if profile is None or one.environment.profile == profile]
    own = [one for one in every if one.by != "launch"]
    return max(own or every, key=lambda one: one.at, default=None)


def read(path: Path) -> Recorded:
    """Any file with an environment in it. Raises ArcopsError."""
    if _KEPT.fullmatch(path.name):
        digest = f"sha256:{path.stem}"
        return Recorded(kept.read(path.parent, digest), digest, path, _written(path), "launch")
    return _of(shelf.read(path))


def _of(stored: shelf.Stored) -> Recorded:
    record = stored.record
    if record.environment is None:
        raise ArcopsError(
            f"{stored.path} is a record of a {record.kind}, and holds no environment",
            hint="`arcops bench show` shows it",
            exit_code=ExitCode.USAGE,
        )
    by = "record" if record.kind == "environment" else record.kind
    return Recorded(record.environment, digest_of(record.environment), stored.path, record.began, by)


def _every(folder: Path) -> Iterator[Recorded]:
    """All that can be believed. Raises ArcopsError for a folder that cannot be read."""
    for found in shelf.find(folder, "environment"):
        if found.head is not None:
            with suppress(ArcopsError):
                yield _of(shelf.read(found.path))
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if _KEPT.fullmatch(path.name):
                with suppress(ArcopsError):
                    yield read(path)


def _fitting(folder: Path, start: str) -> Iterator[Recorded]:
    for one in _every(folder):
        own = one.digest.removeprefix("sha256:").startswith(start)
        with suppress(ArcopsError):
            if own or (one.by != "launch" and shelf.read(one.path).digest.removeprefix("sha256:").startswith(start)):
                yield one


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _none(folder: Path, word: str) -> ArcopsError:
    return ArcopsError(
        f"no environment is recorded as {word!r} in {folder}",
        hint="`arcops env record PROFILE` makes one; a path may be given as well",
        exit_code=ExitCode.USAGE,
    )
