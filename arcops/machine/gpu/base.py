"""The words for cards, and what a reader of one driver has to offer."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from arcops.core.cards.holders import Census
from arcops.core.cards.measures import CardReading

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the kernel's file systems are; elsewhere in a test."""

    proc: str = "/proc"
    sys: str = "/sys"
    dev: str = "/dev"


MACHINE = Roots()


@dataclass(frozen=True, slots=True)
class CardIdentity:
    """A display-class PCI device, found by its address, never by a card number."""

    address: str
    """`0000:03:00.0`, as sysfs writes it."""
    vendor: int
    device: int
    driver: str | None
    """Name of the kernel driver; None when none is bound."""
    name: str | None
    """What the card is called; None for one that arcops has no name for."""
    render_node: str | None
    """`/dev/dri/renderD128`; None when the driver makes none."""


@dataclass(frozen=True, slots=True)
class Client:
    """One user of a card's memory, which counts once, however many processes share it (fork, descriptor passing)."""

    pdev: str
    """PCI address of the card."""
    client_id: int
    """Unique per card only."""
    pids: tuple[int, ...]
    resident_bytes: int | None
    """Memory that is on the card now; None where the driver does not say how much, only that there is some."""
    total_bytes: int | None
    """Memory that was allocated there, evicted buffers included; None where the driver does not say."""

    @property
    def holds(self) -> bool:
        """It has memory on the card, and not only its node open."""
        return self.resident_bytes is None or self.resident_bytes > 0

    def __str__(self) -> str:
        held = "memory" if self.resident_bytes is None else f"{self.resident_bytes / MIB:,.0f} MiB"
        return f"{held} of card {self.pdev}"


class CardReader(Protocol):
    """Reads the cards of some kernel drivers. One file for each, one line in `arcops.machine.gpu.READERS`."""

    @property
    def drivers(self) -> frozenset[str]:
        """Kernel drivers that it understands."""
        ...

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, as of `at` (seconds, monotonic). Whatever cannot be read is an absence in it."""
        ...

    def census(
        self,
        addresses: Sequence[str],
        at: float,
        ours: Callable[[], frozenset[int]],
        among: Collection[int] | None = None,
        roots: Roots = MACHINE,
    ) -> tuple[Census, ...]:
        """Who has these cards open, one census for each, as of `at` (seconds, monotonic).

        `ours` gives the pids of our backend and is called after the scan: a child that is forked meanwhile is ours.
        `among` are the only pids that are looked at; all of them without it. Raises OSError where nothing can be read.
        """
        ...

    def holders(
        self, addresses: Sequence[str], root_proc: str = "/proc", root_dev: str = "/dev"
    ) -> tuple[tuple[Client, ...], int]:
        """Who has memory of these cards, and how many processes could not be looked into (they might have, too).

        Raises OSError where that cannot be read at all.
        """
        ...
