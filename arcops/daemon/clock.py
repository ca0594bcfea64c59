"""The daemon's clocks and its only source of chance, in one place so that tests can replace them."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic seconds for decisions, wall seconds for people, and dice for jitter."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    dice: Callable[[], float] = random.random

    def to_wall(self, monotonic: float) -> float:
        """The wall time of a monotonic moment, by today's offset between the two."""
        return self.wall() - (self.monotonic() - monotonic)
