"""What a look says about a launch: is anything in its way?"""

from arcops.core.action import Look
from arcops.core.decide.moves import fresh
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card, Port, World

END_HOLDER = "end the holder"
LET_LOOK = "see to it that arcops can look there"
LOOK_KEEPS = 10.0
"""Seconds after which a look at port and card is too old to launch on."""
LOOK_AGAIN = 2.0
"""Seconds between looks where waiting may take days: a look costs processor time."""


def obstacle(launch: Launch, at_port: Reading[Port], at_card: Reading[Card], since: float) -> str | None:
    """What port and card, seen at or after `since`, have against `launch`.

    In words; empty when they have nothing against it; None while nobody has looked since then. An absence of a reading
    is an obstacle too: unknown is not free.
    """
    unknown = [reading.reason for reading in (at_port, at_card) if isinstance(reading, Unknown) and reading.at >= since]
    if unknown:
        return "cannot tell whether port and card are free: " + "; ".join(unknown)
    port, card = fresh(at_port, since), fresh(at_card, since)
    if port is None or card is None:
        return None
    foreign = (*port.listeners, *(holder for holder in card.holders if holder.command not in launch.allow_holders))
    if card.fault:
        return card.fault
    if foreign:
        return "; ".join(map(str, foreign))
    if not port.bindable:
        return f"{launch.host}:{launch.port} cannot be bound, and nobody seems to listen"
    return ""


def remedy(at_port: Reading[Port], at_card: Reading[Card]) -> str:
    """What is to be done about an obstacle, in an imperative that a sentence can go on with."""
    if isinstance(at_port, Unknown) or isinstance(at_card, Unknown):
        return LET_LOOK
    return "bring the card back" if at_card.value.fault else END_HOLDER


def refusal(at_card: Reading[Card]) -> ExitCode:
    """What whoever ordered is told where port or card are in the way."""
    return ExitCode.WEDGED if isinstance(at_card, Known) and at_card.value.wedged else ExitCode.BLOCKED


def now_and_then(world: World) -> tuple[Look, ...]:
    """Look again, if the last look is not quite new."""
    return (Look(),) if world.now - min(world.port.at, world.card.at) >= LOOK_AGAIN else ()
