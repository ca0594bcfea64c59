"""The memory of a simulated card: the driver's, our engine's, strangers', and what nobody may see."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from arcops.core.cards.attribution import MIB
from arcops.core.cards.clean import Occupancy
from arcops.core.cards.holders import Census, Holding, User
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Holder

TOTAL = 32_768 * MIB
ENGINE = 24_000 * MIB
"""What an engine of ours takes."""


@dataclass
class Memory:
    """What is so, whoever looks. In bytes."""

    drivers: int = 300 * MIB
    """What the driver has for itself."""
    hidden: int = 0
    """Of processes that may not be looked into."""
    kept: int = 0
    """What was ours and does not come back."""
    unreadable: int = 0
    """Processes that may not be looked into."""
    dark: bool = False
    """How much is in use cannot be read."""


def named(pid: int, size: int | None, command: str, user: str = "guest", *, ours: bool = False) -> Holding:
    """One holder of memory."""
    return Holding(pid, (User(pid, 1, command, user, None),), resident=size, total=size, ours=ours)


def of_holder(holder: Holder) -> Holding:
    """The same by a holder's words, which say how many MiB it has."""
    found = re.match(r"([\d,]+) MiB", holder.what)
    size = None if found is None else int(found[1].replace(",", "")) * MIB
    return named(holder.pid or 0, size, holder.command or "", holder.user or "")


def occupancy(
    address: str, at: float, memory: Memory, holdings: Sequence[Holding], lingering: int = 0, *, living: bool = False
) -> Occupancy:
    """One look; `lingering` are bytes of somebody who has just ended."""
    held = sum(one.resident or 0 for one in holdings)
    used: Reading[int] = Known(memory.drivers + memory.hidden + memory.kept + lingering + held, at)
    if memory.dark:
        used = Unknown("needs CAP_PERFMON", at)
    census = Census(address, at, tuple(holdings), (), memory.unreadable, used)
    return Occupancy(census, Known(TOTAL, at), living=living)
