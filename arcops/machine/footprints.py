"""What launches took of their cards, kept for the plans of later ones: one small JSON file a profile.

The files may be removed at any time, which loses measured values and nothing else: what is not there, or is not what
was written here, is an absence.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

MOST_KEPT: Final = 8
"""Footprints of one profile: each runtime or command line that it was launched with has its own."""
LARGEST: Final = 64 * 1024
"""Bytes; a real file has some hundred for each footprint."""
_SCHEMA: Final = 1

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e11)]


@dataclass(frozen=True, slots=True)
class Footprint:
    """One launch that served. None is unknown."""

    runtime: str
    """What it was launched with: of a launch with another executable or other flags nothing follows from it."""
    launch_id: str
    at: _Moment
    """When it served, in seconds since the epoch."""
    weights: _Whole | None = None
    """Bytes on each card, by vLLM's "Model loading took": target and draft."""
    pool: _Whole | None = None
    """Bytes of the KV cache on each card."""
    peak: _Whole | None = None
    """The most bytes of a card in use since the launch began, without what others held."""
    planned: _Whole | None = None
    """Tokens that the KV cache was planned to hold."""
    reported: _Whole | None = None
    """Tokens that vLLM says it holds."""
    estimated: bool = False
    """What was planned rests on an estimate."""


@dataclass(frozen=True, slots=True)
class _File:
    """The newest first."""

    schema: int
    footprints: tuple[Footprint, ...]


def kept(folder: str, profile: str) -> tuple[Footprint, ...]:
    """All footprints of a profile, the newest first; none where the file is not there, or cannot be understood."""
    try:
        with _path(folder, profile).open("rb") as opened:
            content = opened.read(LARGEST)
        file = msgspec.json.decode(content, type=_File)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return file.footprints[:MOST_KEPT] if file.schema == _SCHEMA else ()


def last(folder: str, profile: str, runtime: str) -> Footprint | None:
    """What the last launch of this profile with this runtime took; None where that is not known."""
    return next((one for one in kept(folder, profile) if one.runtime == runtime), None)


def keep(folder: str, profile: str, footprint: Footprint) -> None:
    """Put it in the place of an earlier one with the same runtime. The file is replaced in one step. Raises OSError."""
    others = [one for one in kept(folder, profile) if one.runtime != footprint.runtime]
    file = _File(_SCHEMA, (footprint, *others)[:MOST_KEPT])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = _path(folder, profile)
    temporary = f"{path}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    # Not synced: torn by a crash of the machine it is an absence, until the next launch.
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(file))
    os.replace(temporary, path)


def _path(folder: str, profile: str) -> Path:
    return Path(folder, f"{profile}.json")
