"""What befell the cards: resets, losses and wedges, as the daemon noticed them and as the history tells of them."""

from collections.abc import Iterator
from datetime import UTC, datetime

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.core.world import Cause
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule
from arcops.tui.panels.card_facts import CardFacts, wrapped

_MOST = 5
_NOTICED = "kernel"
"""The kind of event that tells what an incident tells as well."""
_TRIED = "card"
"""The kind that tells how the card did when it was tried."""
_CARD_CAUSES = frozenset({Cause.DEVICE_LOST.value, Cause.GPU_WEDGED.value, Cause.OOM_KILLER.value})


def is_about_card(event: wire.Event) -> bool:
    """It tells of a reset, a loss, a wedge, a trial, or of the kernel's killing for want of memory."""
    if event.kind in (_NOTICED, _TRIED):
        return True
    return event.kind == "phase" and (event.cause in _CARD_CAUSES or event.phase == Phase.WEDGED.value)


def befell(facts: CardFacts, width: int) -> Lines:
    """The newest first; and how new ones would be noticed."""
    cards = () if facts.cards is None else facts.cards.cards
    told = [(one.at, _incident(card, one, len(cards) > 1)) for card in cards for one in card.incidents]
    since = min((at for at, _ in told), default=float("inf"))
    told += [
        (
            event.at,
            f"{words.clean(event.cause or (event.phase if event.kind == 'phase' else event.kind))}: {event.reason}",
        )
        for event in facts.events
        if event.kind != _NOTICED or event.at < since
    ]
    told.sort(key=lambda one: one[0], reverse=True)
    lines = [line for at, text in told[:_MOST] for line in _stamped(at, text, width)]
    if len(told) > _MOST:
        lines.append((quiet(f"and {len(told) - _MOST:,} before them: see the events"),))
    if not told:
        lines.append((plain("none that the daemon or the history tells of"),))
    title = rule("Resets and losses", width, remark=" · ".join(filter(None, (_counted(cards), facts.events_told))))
    return (title, *lines, *_watching(facts, width))


def _counted(cards: tuple[wire.CardInfo, ...]) -> str:
    if not cards:
        return ""
    if any(card.resets is None for card in cards):
        return "resets since boot: unknown"
    many = sum(card.resets or 0 for card in cards)
    return f"{'no reset' if not many else '1 reset' if many == 1 else f'{many:,} resets'} since boot"


def _incident(card: wire.CardInfo, one: wire.CardIncident, several: bool) -> str:
    where = f" of {words.clean(one.engine)}" if one.engine else ""
    who = "" if one.pid is None else f", {words.clean(one.command or 'process')} [{one.pid}]"
    which = f"{words.clean(card.address)}: " if several else ""
    what = words.clean(one.kind).replace("_", " ")
    return f"{which}{what}{where}{who}: {words.clean(one.text)} ({words.clean(one.source)})"


def _stamped(at: float, text: str, width: int) -> Iterator[Line]:
    head = f"{_time(at)}  "
    for number, part in enumerate(words.wrapped(text, width - len(head), most=2)):
        yield (quiet(head if number == 0 else " " * len(head)), plain(part))


def _time(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC).astimezone():%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # what told of it had no clock
        return "at some time  "


def _watching(facts: CardFacts, width: int) -> Iterator[Line]:
    if facts.cards is None or not facts.cards.watching:
        return
    text = words.clean(facts.cards.watching)
    yield from wrapped("noticed by", text, width, Ink.WARN if text.startswith("cannot") else Ink.QUIET)
