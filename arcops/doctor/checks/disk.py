"""Is there room for the history, the logs and what belongs to this boot?"""

import os
from dataclasses import dataclass
from pathlib import Path

from arcops.doctor.finding import Outcome, Verdict, ok, together
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, with what it needs in bytes."""

    what: str
    path: Path
    least: int
    """Below this it is a problem: an order is acknowledged only once it is on the disk."""
    good: int
    """Below this it will be one."""
    free: int
    """For this user."""
    files: int | None
    """How many more; None on file systems that do not count."""
    writable: bool = True
    """This user may make files there."""


def probe(sight: Sight) -> tuple[Place, ...]:
    paths = sight.paths
    return (
        _place("history", paths.state_dir, 64 * _MIB, 1024 * _MIB),
        _place("logs", paths.log_dir, 64 * _MIB, 1024 * _MIB),
        _place("runtime directory", paths.runtime_dir, 1 * _MIB, 8 * _MIB),
    )


def judge(place: Place) -> Outcome:
    free = f"{place.free / _MIB:,.0f} MiB free for the {place.what}"
    limits = f"{place.path}: problem below {place.least // _MIB} MiB, warning below {place.good // _MIB:,} MiB"
    remedy = f"df -h {place.path}; old logs of backends may be deleted"
    if not place.writable:
        summary = f"{place.path} cannot be written to, and the {place.what} belongs there"
        return Outcome(Verdict.PROBLEM, summary, (), f"ls -ld {place.path}")
    if place.files is not None and place.files < 100:
        summary = f"only {place.files} more files fit beside the {place.what}"
        return Outcome(Verdict.PROBLEM, summary, (limits,), f"df -i {place.path}")
    if place.free < place.least:
        return Outcome(Verdict.PROBLEM, f"only {free}", (limits,), remedy)
    if place.free < place.good:
        return Outcome(Verdict.WARNING, f"only {free}", (limits,), remedy)
    return ok(free, limits)


def _place(what: str, path: Path, least: int, good: int) -> Place:
    # Not Path.exists(), which raises where a directory on the way may not be looked into: that directory is the answer.
    there = next(each for each in (path, *path.parents) if os.path.exists(each))
    found = os.statvfs(there)
    files = found.f_favail if found.f_files > 0 else None
    writable = os.access(there, os.W_OK | os.X_OK)
    return Place(what, there, least, good, found.f_bavail * found.f_frsize, files, writable)


def disk(sight: Sight) -> Outcome:
    return together([judge(place) for place in probe(sight)])


DISK = Check("disk", "Is there room for the history, the logs and the runtime directory?", disk)
