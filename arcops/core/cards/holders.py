"""Who holds a card's memory: users of it, each counted once, and what nobody can be named for."""

from dataclasses import dataclass

from arcops.core.quantity import Reading


@dataclass(frozen=True, slots=True)
class User:
    """A process that has a card open. What could not be read of it is None."""

    pid: int
    start: int | None
    """Clock ticks since boot: with the pid it names one process."""
    command: str | None
    user: str | None
    cgroup: str | None
    """Its path in the unified hierarchy."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One client of a card, which counts once, however many processes and descriptors share it."""

    client: int
    """Unique per card only."""
    users: tuple[User, ...]
    """By pid; several share a client after a fork, or when a descriptor was passed on."""
    resident: int | None
    """Bytes on the card now; None where the driver does not say how much, only that there is some."""
    total: int | None
    """Bytes that were allocated there, evicted buffers included."""
    ours: bool
    """One of its processes belongs to our backend, or is this supervisor."""
    shared: int = 0
    """Bytes of its buffers that other clients have as well: they count in full in each of them."""

    @property
    def holds(self) -> bool:
        """It has memory on the card, and not only its node open."""
        return self.resident is None or self.resident > 0 or bool(self.total)


@dataclass(frozen=True, slots=True)
class Census:
    """Everybody who has one card open, at one look."""

    address: str
    at: float
    """Seconds, monotonic, from before the look."""
    holdings: tuple[Holding, ...]
    """Those with memory there, the largest first."""
    idle: tuple[Holding, ...]
    """Those that only have it open: Level Zero opens every card when it starts. They are no holders."""
    unreadable: int
    """Processes whose descriptors may not be read: they might hold memory, too."""
    used: Reading[int]
    """Bytes in use of the whole card, from another source than the holdings."""
    everybody: bool = True
    """Every process was looked at, and not only our backend's."""
    notes: tuple[str, ...] = ()
    """What the sources contradict each other in, and what a reader should know of this look, in words."""

    @property
    def held(self) -> int | None:
        """Bytes that somebody can be named for; None where some holder's are unknown."""
        sizes = [one.resident for one in self.holdings]
        return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
