"""How fast a profile has decoded, by the daemon's word: what the ceiling of its card is held against."""

from collections.abc import Iterable
from typing import Final

from arcops import wire
from arcops.client import Client
from arcops.core.errors import ArcopsError

LOOKS_BACK: Final = 86_400.0
"""Seconds of the history."""
_STEP: Final = 60.0
_NOW: Final = "now"
_HISTORY: Final = "history"


def measured(client: Client, profile: str) -> wire.PlanDecode | None:
    """What is known of it; None where no daemon tells, or it never had one request by itself.

    Several requests at once share a step's reads, and are not held against the ceiling of one.
    """
    try:
        with client:
            status = client.status()
            found = of_now(status, profile)
            if found is not None:
                return found
            pages = client.all_samples(status.at - LOOKS_BACK, step=_STEP)
            return of_history((point for page in pages for point in page.points), profile)
    except ArcopsError:
        return None


def of_now(status: wire.Status, profile: str) -> wire.PlanDecode | None:
    """What runs, as long as it is busy with one request."""
    rates = status.rates
    if status.backend is None or status.backend.profile != profile or status.backend.launch_id != rates.launch_id:
        return None
    if not rates.decode or rates.running != 1:
        return None
    step = None if rates.speculation is None else rates.speculation.tokens_per_step
    return wire.PlanDecode(tokens_per_second=rates.decode, tokens_per_step=step, source=_NOW)


def of_history(points: Iterable[wire.SamplePoint], profile: str) -> wire.PlanDecode | None:
    """The fastest of the minutes in which never more than one request ran: it was the least idle."""
    alone = [
        (point.decode, point.tokens_per_step)
        for point in points
        if point.profile == profile and point.decode and point.running is not None and point.running.high <= 1
    ]
    if not alone:
        return None
    decode, step = max(alone, key=lambda one: one[0])
    return wire.PlanDecode(tokens_per_second=decode, tokens_per_step=step, source=_HISTORY)
