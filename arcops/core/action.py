"""What the supervisor may do to the machine. Each is small, and safe to do again."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from arcops.core.launch import Launch
from arcops.core.state import Outcome


class Target(Enum):
    """Whom a signal is for."""

    MAIN = "main"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class TakeLocks:
    """Take the locks of a launch; what is held and not needed is let go."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class ReleaseLocks:
    """Let every lock go."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Run the setup script of a launch beside everything else, and keep its environment for the spawn."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class Look:
    """Look afresh at port and card: too costly for every turn of the loop."""

    deep: bool = False
    """Have the cards compute something, too, in a process of its own: it takes some ten seconds, and memory of them."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Write the launch record, then start the launch in its own enclosure."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class Terminate:
    """SIGTERM."""

    target: Target


@dataclass(frozen=True, slots=True)
class KillEveryone:
    """SIGKILL to everything in the enclosure: the last resort."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Put one short question to the backend, with a deadline in seconds."""

    deadline: float


@dataclass(frozen=True, slots=True)
class KeepEvidence:
    """Put aside what can be seen of the backend right now, beside everything else: nothing waits for it."""

    what: str
    """What has happened in one word, for a folder's name: `suspect`, or the cause of a failure."""


@dataclass(frozen=True, slots=True)
class MarkProven:
    """Write into the launch record that this backend has served."""


@dataclass(frozen=True, slots=True)
class KeepBaseline:
    """Remember until the next boot what a card has in use when idle."""

    card: str
    """PCI address."""
    used: int
    """Bytes that nobody is named for."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the launch record and the empty enclosure."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Write down what became of an order. `stands`: it stays in force."""

    outcome: Outcome
    stands: bool


Action: TypeAlias = (
    TakeLocks
    | ReleaseLocks
    | Prepare
    | Look
    | Spawn
    | Terminate
    | KillEveryone
    | Ask
    | KeepEvidence
    | MarkProven
    | KeepBaseline
    | Forget
    | Settle
)
