"""The first line, and the sentence under it: what the backend does, for how long, and why."""

from collections.abc import Iterator

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.tui.ink import Ink, Line, Lines, cells, length, plain, pushed_apart, quiet, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Link, Snapshot

_LOOKS: dict[Phase, tuple[str, Ink]] = {
    Phase.STOPPED: ("○", Ink.STRONG),
    Phase.BLOCKED: ("■", Ink.BAD),
    Phase.STARTING: ("◐", Ink.WARN),
    Phase.CHECKING: ("◑", Ink.WARN),
    Phase.SERVING: ("●", Ink.GOOD),
    Phase.SUSPECT: ("?", Ink.WARN),
    Phase.DRAINING: ("◒", Ink.WARN),
    Phase.STOPPING: ("◒", Ink.WARN),
    Phase.CLEARING: ("◒", Ink.WARN),
    Phase.BACKOFF: ("◔", Ink.BAD),
    Phase.FAILED: ("✖", Ink.BAD),
    Phase.STUCK: ("✖", Ink.BAD),
    Phase.WEDGED: ("✖", Ink.BAD),
}
_WELL = frozenset({Phase.SERVING, Phase.CHECKING, Phase.STOPPED})
"""Phases in which an earlier failure is history."""


class TitlePanel(Panel):
    """One line: the instance to the left, where to find the backend (or the daemon) to the right."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        left: Line = (("arcops", Ink.TITLE), plain(" "), strong(snapshot.instance))
        pieces = list(_whereabouts(snapshot))
        while pieces and length(left) + cells(" · ".join(pieces)) + 2 > room.width:
            pieces.pop()
        return (pushed_apart(left, (quiet(" · ".join(pieces)),), room.width),)


def _whereabouts(snapshot: Snapshot) -> Iterator[str]:
    """Where and what, the most important first."""
    status = snapshot.status
    if status is None:
        return
    backend = status.backend
    if backend is None:
        yield f"arcopsd {words.clean(status.daemon.version)}"
        yield f"pid {status.daemon.pid}"
        yield f"up {words.duration(snapshot.now - status.daemon.started_at)}"
        return
    yield words.clean(backend.url)
    yield f"pid {backend.pid if backend.pid is not None else 'unknown'}"
    yield f"up {words.duration(snapshot.now - backend.spawned_at)}"
    yield f"serves {words.clean(backend.served_name)}"


class StatusPanel(Panel):
    """The sentence, and what belongs to it: the order under way, the failure with its hint, the next try."""

    brief = False
    """Another view than the overview needs the lines: of a failure cause and hint, a line each, where the screen is not
    tall."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        match snapshot.link:
            case Link.CONNECTING:
                return _said("…", Ink.QUIET, "connecting", f"to the daemon on {snapshot.socket}", room.width)
            case Link.BROKEN:
                return _broken(snapshot, room.width)
            case Link.LIVE:
                pass
        if snapshot.status is None:
            return ()
        standing = _standing(snapshot, snapshot.status, room.width, brief=self.brief and not room.tall)
        if not snapshot.stale:
            return standing
        return (*_silent(snapshot, room.width), *(tuple(quiet(text) for text, _ in line) for line in standing))


def _broken(snapshot: Snapshot, width: int) -> Lines:
    hint = f": {snapshot.hint}" if snapshot.hint else ""
    again = "" if snapshot.retry_in is None else f"; trying again in {words.countdown(snapshot.retry_in)}"
    lines = _said("✖", Ink.BAD, "not connected:", f"{snapshot.problem}{hint}{again}", width)
    if snapshot.status is None:
        return lines
    age = f"last known, {words.duration(snapshot.silent)} ago"
    return (*lines, *_detail(age, words.sentence(snapshot.status, snapshot.now), width, most=2))


def _silent(snapshot: Snapshot, width: int) -> Lines:
    text = f"from the daemon for {words.duration(snapshot.silent)}: what follows is as old as that"
    return _said("!", Ink.BAD, "no word", text, width)


def _standing(snapshot: Snapshot, status: wire.Status, width: int, *, brief: bool) -> Lines:
    symbol, ink = _LOOKS[snapshot.phase] if snapshot.phase is not None else ("?", Ink.WARN)
    phase = words.clean(status.phase)
    rest = _without_echo(status, words.sentence(status, snapshot.now).removeprefix(phase).lstrip())
    lines = list(_said(symbol, ink, phase, rest, width))
    if not status.order.committed:
        lines += _detail(f"order {status.order.id}", _under_way(status.order), width)
    elif status.order.standing_in is not None:
        lines += _detail(f"order {status.order.id}", _standing_in(status.order), width)
    if status.failure is not None and snapshot.phase not in _WELL:
        lines += _failure(status.failure, status.reason, width, brief=brief)
    else:
        lines += _outcome(status, width, brief=brief)
    if status.retry_at is not None:
        lines += _detail("next try", f"in {words.countdown(status.retry_at - snapshot.now)}", width)
    return tuple(lines)


def _failure(failure: wire.FailureInfo, reason: str, width: int, *, brief: bool) -> Lines:
    """Its cause, what to do, and what the log says; what the sentence above has said is not told again."""
    told = words.clean(failure.summary) == words.clean(reason)
    most = 1 if brief else 3
    name = words.clean(failure.cause)
    cause = _detail("cause", name, width) if told else _detail(f"cause ({name})", failure.summary, width, most)
    hint = _detail("hint", failure.hint, width, most)
    if brief:
        return hint if told else (*cause, *hint)
    return (*cause, *hint, *_detail("log", failure.evidence, width))


def _without_echo(status: wire.Status, sentence: str) -> str:
    """A reason that only says the phase again, and the name that the line above has, is none."""
    served = None if status.backend is None else status.backend.served_name
    return sentence.removesuffix(words.clean(f": {status.phase} {served}"))


def _under_way(order: wire.OrderInfo) -> str:
    if order.goal != "run":
        return "stop, and run nothing"
    back = f"; if it fails, back to {order.previous}" if order.previous else ""
    return f"run {order.profile or 'unknown'}{back}"


def _standing_in(order: wire.OrderInfo) -> str:
    """What was ordered is not what runs, until somebody orders it again. Why is told among the troubles."""
    return f"run {order.profile or 'unknown'}; {order.standing_in} stands in for it"


def _outcome(status: wire.Status, width: int, *, brief: bool) -> Lines:
    """The last order's bad end, for as long as no other order has ended."""
    outcome = status.settled[-1] if status.settled else None
    if outcome is None or outcome.exit_code == 0 or outcome.superseded:
        return ()
    back = f"; back to {outcome.returned_to}" if outcome.returned_to else ""
    most = 1 if brief else 3
    lines = _detail(f"order {outcome.order_id} failed", f"{outcome.summary}{back}", width, most)
    return (*lines, *_detail("hint", outcome.hint, width, most))


def _said(symbol: str, ink: Ink, head: str, rest: str, width: int) -> Lines:
    """A sentence with a symbol before it and its first words in ink, wrapped under itself."""
    first, *more = words.wrapped(f"{head} {rest}", width - 2, most=4) or (head,)
    start: Line = ((f"{symbol} ", ink), (head, ink), plain(first.removeprefix(head)))
    return (start, *((plain(f"  {line}"),) for line in more))


def _detail(label: str, text: str, width: int, most: int = 3) -> Lines:
    """`  label: text`, wrapped under the text's first line; nothing without text."""
    if not text:
        return ()
    lines = words.wrapped(f"{label}: {text}", width - 4, most=most)
    head = lines[0].removeprefix(f"{label}:")
    return (
        (plain("  "), quiet(f"{label}:"), plain(head)),
        *((plain(f"    {line}"),) for line in lines[1:]),
    )
