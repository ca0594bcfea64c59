"""Subjects of plans, read once: headers are read again only where a checkpoint's files have changed."""

from collections.abc import Callable
from typing import Final

from arcops.core.budget.model import ShapeError
from arcops.core.budget.wants import wants_of
from arcops.core.launch import Launch
from arcops.machine.checkpoint import Fingerprint, fingerprint
from arcops.planning.plan import Subject, subject_of

MOST_KEPT: Final = 8
"""Subjects; each is some kilobytes."""


class Subjects:
    """The last ones that were read. To be asked from any thread: two at once read twice, and agree."""

    def __init__(self, read: Callable[[Launch], Subject] = subject_of) -> None:
        self._read = read
        self._kept: dict[tuple[str, ...], tuple[tuple[Fingerprint, ...], Subject]] = {}

    def of(self, launch: Launch) -> Subject:
        """What a launch names. Raises PlanError, which is not kept."""
        seen = _fingerprints(launch)
        found = self._kept.get(launch.argv)
        if found is not None and found[0] == seen:
            return found[1]
        subject = self._read(launch)
        kept = {**self._kept, launch.argv: (seen, subject)}
        self._kept = dict(tuple(kept.items())[-MOST_KEPT:])
        return subject


def _fingerprints(launch: Launch) -> tuple[Fingerprint, ...]:
    """Of the target's files, and the draft's. Where the flags make no sense the reading says so."""
    try:
        wants = wants_of(launch.argv)
    except ShapeError:
        return ()
    draft = None if wants.drafting is None else wants.drafting.draft
    return tuple(fingerprint(folder) for folder in (wants.model, draft) if folder is not None)
