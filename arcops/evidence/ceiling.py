"""How fast the cards could decode at most at a run's depths, by the arithmetic of `arcops plan`."""

from collections.abc import Sequence

from arcops.core.budget.model import ShapeError
from arcops.core.evidence.setting import CardFacts, CeilingAt, Configuration
from arcops.core.launch import Launch
from arcops.planning.plan import PlanError, Subject, subject_of
from arcops.planning.speed import ceiling_for


def ceilings(
    configuration: Configuration, cards: Sequence[CardFacts], depths: Sequence[int], tokens_per_step: float | None
) -> tuple[CeilingAt, ...]:
    """At each depth (tokens); empty where the checkpoint cannot be read here, or a card's bandwidth is not known.

    Several cards share a layer's reads, and the slowest is waited for. Reads the headers of the checkpoint.
    """
    speeds = [card.bandwidth for card in cards]
    if not configuration.argv or not speeds or None in speeds:
        return ()
    slowest = min(speed for speed in speeds if speed is not None)
    try:
        subject = subject_of(_launch(configuration, cards))
        return tuple(_at(subject, slowest, depth, tokens_per_step) for depth in sorted(set(depths)))
    except (PlanError, ShapeError):
        return ()


def _at(subject: Subject, bandwidth: float, depth: int, tokens_per_step: float | None) -> CeilingAt:
    found = ceiling_for(
        subject.wants, subject.target, subject.draft, subject.layers(), bandwidth, depth, tokens_per_step
    )
    return CeilingAt(depth, found.plain, found.speculative)


def _launch(configuration: Configuration, cards: Sequence[CardFacts]) -> Launch:
    """As much of a launch as the arithmetic reads."""
    addresses = tuple(card.address for card in cards)
    return Launch(
        profile=configuration.profile or "the server",
        argv=configuration.argv,
        environment=configuration.environment,
        setup=None,
        host="",
        port=0,
        served_name="",
        api_key_file=None,
        locks=(),
        cards=addresses,
    )
