"""Does a card compute? What a trial of it came to: see `machine/gpu/health.py`, which makes the trial."""

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What a trial says of a card. The values are shown, and are an interface."""

    HEALTHY = "healthy"
    """It has computed, and rightly."""
    WEDGED = "wedged"
    """It took the work and did not finish it, lost the device over it, or gave wrong numbers: a rebind or a reboot."""
    INCONCLUSIVE = "inconclusive"
    """Nothing was learnt about the card: torch is not there, the card has no memory free, the time was too short."""


@dataclass(frozen=True, slots=True)
class Health:
    """What one trial came to."""

    verdict: Verdict
    words: str
    """One sentence, with the cards' addresses."""
    hint: str = ""
    """What to do; empty where nothing is to be done."""
