"""One event in full: when, what, why, what helps, and the server's numbers around it."""

from collections.abc import Iterator
from datetime import UTC, datetime

from arcops import wire, words
from arcops.core.diagnosis.advice import advice
from arcops.tui.ink import Line, Lines, plain, quiet, rule, strong
from arcops.tui.panels import incident

_LABEL = 10


def lines(
    event: wire.Event,
    before: wire.Event | None,
    status: wire.Status | None,
    numbers: "incident.Numbers",
    now: float,
    width: int,
    height: int,
) -> Lines:
    """Everything about it. `before` is the event before it, `now` the daemon's time (seconds since the epoch)."""
    told = tuple(_told(event, before, status, now, width))
    return (rule(f"Event {event.id}", width), *told, *incident.lines(numbers, width, height - len(told) - 1))


def hint_of(event: wire.Event, status: wire.Status | None) -> str:
    """What to do about the event's cause: the very hint where the daemon still has it, else a general one."""
    if event.cause is None:
        return ""
    failure = None if status is None else status.failure
    if failure is not None and failure.cause == event.cause and failure.summary in event.reason:
        return failure.hint
    return advice(event.cause) or ""


def _told(
    event: wire.Event, before: wire.Event | None, status: wire.Status | None, now: float, width: int
) -> Iterator[Line]:
    at = datetime.fromtimestamp(event.at, UTC).astimezone()
    yield _labelled("when", f"{at:%Y-%m-%d %H:%M:%S %Z}, {words.duration(now - event.at)} ago")
    yield _labelled("what", _what(event))
    for number, text in enumerate(words.wrapped(event.reason, width - _LABEL, most=8)):
        yield (quiet(("why" if number == 0 else "").ljust(_LABEL)), strong(text))
    if event.cause is not None:
        yield _labelled("cause", words.clean(event.cause))
    hint = hint_of(event, status)
    for number, text in enumerate(words.wrapped(hint, width - _LABEL, most=6) if hint else ()):
        yield (quiet(("do" if number == 0 else "").ljust(_LABEL)), plain(text))
    yield _labelled("since", _since(event, before))


def _what(event: wire.Event) -> str:
    phase = event.phase if event.kind == "phase" else f"{event.kind}, while {event.phase}"
    launch = f" · launch {event.launch_id}" if event.launch_id else ""
    return words.clean(f"{phase} · {event.profile or 'no profile'}{launch}")


def _since(event: wire.Event, before: wire.Event | None) -> str:
    if before is None:
        return "what came before is not known here"
    what = before.phase if before.kind == "phase" else before.kind
    return words.clean(f"{words.duration(event.at - before.at)} after {what}: {before.reason}")


def _labelled(label: str, text: str) -> Line:
    return (quiet(label.ljust(_LABEL)), plain(text))
