"""The words for cards, and what a reader of one driver has to offer."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from arcops.core.cards.holders import Census
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Reading

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


class CardReader(Protocol):
    """Reads the cards of some kernel drivers. One file for each, one line in `arcops.machine.gpu.READERS`."""

    @property
    def drivers(self) -> frozenset[str]:
        """Kernel drivers that it understands."""
        ...

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        """The card's measures, as of `at` (seconds, monotonic). Whatever cannot be read is an absence in it."""
        ...


class CensusTaker(Protocol):
    """Finds out who has cards open: one for all drivers with DRM's fdinfo, one for NVIDIA's. See `census.take`."""

    @property
    def drivers(self) -> frozenset[str]:
        """Kernel drivers whose cards it can count the users of."""
        ...

    def census(
        self,
        cards: Sequence[CardIdentity],
        at: float,
        ours: Callable[[], frozenset[int]],
        used: Callable[[CardIdentity], Reading[int]],
        among: Collection[int] | None = None,
        roots: Roots = MACHINE,
    ) -> tuple[Census, ...]:
        """Who has these cards open, one census for each in their order, as of `at` (seconds, monotonic).

        `ours` gives the pids of our backend and is called after the scan: a child that is forked meanwhile is ours.
        `used` gives the bytes in use of a whole card; it is called after the scan, too. `among` are the only pids that
        are looked at; all of them without it. Raises OSError where nothing can be read.
        """
        ...
