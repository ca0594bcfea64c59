"""What earlier launches of a profile took, as a plan wants to know it."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from arcops.core.budget.demand import Remembered
from arcops.core.launch import Launch
from arcops.machine import footprints
from arcops.machine.footprints import Footprint

_ADDRESS: Final = ("--host", "--port")
"""Flags that no memory depends on."""


def runtime_of(argv: Sequence[str]) -> str:
    """What a launch is the same by: the executable's path and all that it is told, but the address to listen at.

    A digest, for a command line is long, and nobody else's to read.
    """
    return hashlib.sha256("\0".join(_without_address(argv)).encode("utf-8", "surrogateescape")).hexdigest()


def recall(folder: str, launch: Launch) -> Remembered:
    """What the last launch with this profile and runtime took; `folder` has the footprints. Reads one small file."""
    return remembered_of(footprints.last(folder, launch.profile, runtime_of(launch.argv)))


def remembered_of(footprint: Footprint | None) -> Remembered:
    """A footprint, as far as a plan goes by it: what is beside weights and cache is the rest of the peak."""
    if footprint is None:
        return Remembered()
    beside = None
    if footprint.peak is not None and footprint.weights is not None and footprint.pool is not None:
        rest = footprint.peak - footprint.weights - footprint.pool
        # Less than nothing is no measurement: the card was not looked at while all of it was there.
        beside = rest if rest > 0 else None
    when = time.strftime("%Y-%m-%d", time.localtime(footprint.at))
    return Remembered(weights=footprint.weights or None, beside=beside, when=when)


def _without_address(argv: Sequence[str]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        if word in _ADDRESS:
            next(words, None)
        elif not word.startswith(tuple(f"{flag}=" for flag in _ADDRESS)):
            yield word
