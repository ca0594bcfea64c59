"""Where the processes of one launch live, so that all of them can be found and ended."""

from dataclasses import dataclass
from enum import Enum


class EnclosureKind(Enum):
    """How the processes of a launch are held together, best first."""

    SCOPE = "scope"
    """A transient scope of the user's systemd: `name` is the unit."""
    CGROUP = "cgroup"
    """A cgroup2 directory of our own: `name` is its absolute path."""
    SESSION = "session"
    """Only a session and the keeper's descendants: `name` is a label."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Chosen, and written down, before the launch is spawned; the name is never used twice."""

    kind: EnclosureKind
    name: str
