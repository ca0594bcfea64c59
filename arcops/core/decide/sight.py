"""What a look says about a launch: is anything in its way?"""

from dataclasses import dataclass

from arcops.core.action import KeepBaseline, Look
from arcops.core.cards import clean
from arcops.core.decide.moves import fresh
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card, Port, World

END_HOLDER = "end the holder"
LET_LOOK = "see to it that arcops can look there"
BRING_BACK = "bring the card back"
FIND_HOLDER = "find out who has it (`sudo arcops gpu`, `sudo arcops doctor`) and end that, or set device.allow_memory"
LOOK_KEEPS = 10.0
"""Seconds after which a look at port and card is too old to launch on."""
LOOK_AGAIN = 2.0
"""Seconds between looks where waiting may take days: a look costs processor time."""
LOOK_SOON = 0.5
"""The same where what is waited for takes seconds."""
RETURNS_WITHIN = 5.0
"""Seconds that memory which nobody is named for has to come back to the card before it is in an order's way: it goes on
being in use for a moment after its holder has ended."""
MOVES_WITHIN = 30.0
"""The same while it changes from look to look."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What port and card have against a launch."""

    words: str = ""
    """Empty where they have nothing against it."""
    todo: str = END_HOLDER
    """What is to be done about it, in an imperative that a sentence can go on with."""
    code: ExitCode = ExitCode.BLOCKED
    """What whoever ordered it is told."""
    grace: float = 0.0
    """Seconds within which it may be over without anybody's doing."""


CLEAR = Sight()


def obstacle(launch: Launch, at_port: Reading[Port], at_card: Reading[Card], since: float) -> Sight | None:
    """What port and card, seen at or after `since`, have against `launch`; None while nobody has looked since then.

    An absence of a reading is an obstacle too: unknown is not free.
    """
    unknown = [reading.reason for reading in (at_port, at_card) if isinstance(reading, Unknown) and reading.at >= since]
    if unknown:
        return Sight("cannot tell whether port and card are free: " + "; ".join(unknown), LET_LOOK)
    port, card = fresh(at_port, since), fresh(at_card, since)
    if port is None or card is None:
        return None
    if card.fault:
        return Sight(card.fault, BRING_BACK, ExitCode.WEDGED if card.wedged else ExitCode.BLOCKED)
    found = [one for one in (clean.objection(memory, terms_of(launch)) for memory in card.memory) if one is not None]
    named = (*map(str, port.listeners), *(one.words for one in found if one.named))
    if named:
        return Sight("; ".join(named))
    if not port.bindable:
        return Sight(f"{launch.host}:{launch.port} cannot be bound, and nobody seems to listen")
    if found:
        grace = MOVES_WITHIN if any(one.moving for one in found) else RETURNS_WITHIN
        return Sight("; ".join(one.words for one in found), FIND_HOLDER, grace=grace)
    return CLEAR


def terms_of(launch: Launch) -> clean.Terms:
    """What `launch` bears beside itself on its cards."""
    return clean.Terms(launch.allow_holders, launch.allow_memory)


def left_on(launch: Launch, card: Card, since: float, waited: float) -> str:
    """What has not come back to the cards of `launch`, whose last process ended at `since`, in words; else empty."""
    found = (clean.remains(memory, terms_of(launch), since, waited) for memory in card.memory)
    return "; ".join(words for words in found if words)


def lessons(launch: Launch, at_card: Reading[Card], since: float, *, kept: bool = False) -> tuple[KeepBaseline, ...]:
    """What this look teaches of the cards when idle."""
    if not isinstance(at_card, Known):
        return ()
    terms = terms_of(launch)
    learnt = ((one.address, clean.learnt(one, terms, since, kept=kept)) for one in at_card.value.memory)
    return tuple(KeepBaseline(address, used) for address, used in learnt if used is not None)


def remarks(at_card: Reading[Card]) -> tuple[str, ...]:
    """What this look could not tell, or contradicts itself in, and is in nobody's way; a sentence each."""
    memory = at_card.value.memory if isinstance(at_card, Known) else ()
    return tuple(note for one in memory for note in clean.notes(one))


def now_and_then(world: World, apart: float = LOOK_AGAIN) -> tuple[Look, ...]:
    """Look again, if the last look is not quite new: `apart` seconds from it."""
    return (Look(),) if world.now - min(world.port.at, world.card.at) >= apart else ()
