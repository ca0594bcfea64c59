"""The profiles as a table of words, and what is to be known of one of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from arcops import wire, words
from arcops.core.difference import Change, hidden_in_both, of_launches
from arcops.tui.ink import Ink, Line, Lines, cells, cut, padded, plain, quiet, strong
from arcops.tui.panels import plan
from arcops.tui.profiles import ProfileChoice

_FILE, _NOW, _USUAL = 9, 8, 11
"""Characters of the columns: the file's verdict, what is going on, the usual time."""
_LAST = 32
"""Characters that the last start may take before names do, for `ready in 1 min 05 s, 12 min ago`."""
_LEAST = 24
"""Characters that it must have beside the usual time: else that one has no column."""
_SHORTEST_NAME, _LONGEST_NAME = 12, 40
MOST_LINES_OF_A_PROBLEM = 12


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the profiles beside their files."""

    now: float
    """Seconds since the epoch, by the daemon's clock."""
    running: str | None = None
    """The profile of the backend that is there."""
    ordered: str | None = None
    """What is ordered to run."""
    told: wire.Profiles | None = None
    """The daemon's word; None where there is none."""
    silence: str = ""
    """Why there is none, in words."""

    def past(self, name: str) -> wire.ProfilePast | None:
        """What the daemon remembers of a profile; None where it has not said, and where it was never started."""
        return next((past for past in self.told.past if past.name == name), None) if self.told is not None else None


def name_column(choices: tuple[ProfileChoice, ...], width: int) -> int:
    """Characters for the names in rows of `width`."""
    longest = max((len(words.clean(choice.name)) for choice in choices), default=0)
    room = width - 4 - _NOW - _FILE - _LAST
    return max(_SHORTEST_NAME, min(_LONGEST_NAME, longest, room)) + 2


def header(names: int, width: int) -> Line:
    """The columns' titles, over rows of `row`."""
    last, usual = _room(names, width)
    titles = f"  {'profile'.ljust(names)}{'now'.ljust(_NOW)}{'file'.ljust(_FILE)}{'last start'.ljust(last)}"
    return (quiet(titles + ("usually".rjust(_USUAL) if usual else "")),)


def row(choice: ProfileChoice, known: Known, names: int, width: int) -> Line:
    """`● dflash2  runs  ok  ready in 31 s, 2 h ago   31 s`: every column starts where the one above does."""
    last, usual = _room(names, width)
    now, ink = _now(choice.name, known)
    name = words.clean(choice.name)
    verdict, verdict_ink = _verdict(choice)
    line: list[tuple[str, Ink]] = [
        ("● " if now == "runs" else "  ", ink),
        (shortened(name, names - 2).ljust(names), Ink.STRONG if now else Ink.PLAIN),
        (now.ljust(_NOW), ink),
        (verdict.ljust(_FILE), verdict_ink),
    ]
    if last:
        text, last_ink = last_start(choice.name, known, briefly=True)
        line.append((_fitted(text, last), last_ink))
    if usual:
        line.append(quiet(_usual(known.past(choice.name)).rjust(_USUAL)))
    return tuple(line)


def details(choice: ProfileChoice, known: Known, width: int, memory: plan.Answer | None = None) -> Lines:
    """What it is, whether it can be used, how its last start ended, what it does differently from what runs, and what
    it takes of its cards (None: nobody asked)."""
    return tuple(_details(choice, known, width, memory))


def _details(choice: ProfileChoice, known: Known, width: int, memory: plan.Answer | None) -> Iterator[Line]:
    for text in words.wrapped(choice.description, width, most=4):
        yield (plain(text),)
    if choice.problem:
        label = "not on this machine" if choice.lacking else "invalid"
        yield from _labelled(
            label, choice.problem, width, MOST_LINES_OF_A_PROBLEM, Ink.WARN if choice.lacking else Ink.BAD
        )
    text, ink = last_start(choice.name, known)
    past = known.past(choice.name)
    if past is not None and past.last is not None and not past.last.ready:
        text = f"{text}, {past.last.summary}"
    yield from _labelled("last start", text, width, 3, ink)
    usual = _usual(past)
    yield from _labelled("loads in", usual if past is None or past.usual is None else f"{usual}, usually", width, 1)
    if memory is not None:
        yield from plan.verdict(memory, width)
    yield from _compared(choice, known, width)
    if memory is not None and memory.plan is not None:
        yield from plan.table(memory.plan, width)


def _compared(choice: ProfileChoice, known: Known, width: int) -> Iterator[Line]:
    running = None if known.told is None else known.told.running
    if choice.planned is None:
        return
    yield ()
    if running is None:
        why = known.silence or "nothing runs that it could be compared with"
        yield from _labelled("differs", words.unknown(why) if known.told is None else why, width, 3)
        return
    changes = of_launches(running, choice.planned)
    over = f"what runs now ({words.clean(running.profile)})"
    if not changes:
        same = "the same launch, as its file says now" if running.profile == choice.name else f"the same as {over}"
        yield from _labelled("differs in nothing", same, width, 2)
    else:
        since = "its file has changed since it was started" if running.profile == choice.name else f"from {over}"
        yield from _labelled(f"differs in {len(changes)}", since, width, 2)
        for change in changes:
            yield from changed(change, width)
    secret = hidden_in_both(dict(running.environment), dict(choice.planned.environment))
    if secret:
        yield from _labelled("not compared", f"{', '.join(secret)}: hidden", width, 2)


def changed(change: Change, width: int) -> Lines:
    """`  --max-model-len   8064 → 262144`, on lines of their own where one does not hold it."""
    name = words.clean(change.name)
    if change.was is None:
        return _signed("+", name, change.becomes or "", width, Ink.GOOD)
    if change.becomes is None:
        return _signed("-", name, change.was, width, Ink.BAD)
    was, becomes = words.clean(change.was), words.clean(change.becomes)
    if len(name) + len(was) + len(becomes) + 8 <= width:
        return (((f"~ {name}", Ink.WARN), quiet(f"  {was} → "), strong(becomes)),)
    return (
        ((f"~ {name}", Ink.WARN),),
        *((quiet(f"    {text}"),) for text in words.wrapped(f"was {was}", width - 4, most=3)),
        *((plain(f"    {text}"),) for text in words.wrapped(f"now {becomes}", width - 4, most=3)),
    )


def _signed(sign: str, name: str, value: str, width: int, ink: Ink) -> Lines:
    first, *more = words.wrapped(f"{name}  {value}", width - 2, most=3) or (name,)
    start = ((f"{sign} {name}", ink), plain(first.removeprefix(name)))
    return (start, *((plain(f"    {text}"),) for text in more))


def _labelled(label: str, text: str, width: int, most: int, ink: Ink = Ink.PLAIN) -> Lines:
    lines = words.wrapped(f"{label}: {text}", width, most=most)
    if not lines:
        return ()
    return (
        (quiet(f"{label}:"), (lines[0].removeprefix(f"{label}:"), ink)),
        *(((f"  {more}", ink),) for more in lines[1:]),
    )


def last_start(name: str, known: Known, *, briefly: bool = False) -> tuple[str, Ink]:
    """How the last start of a profile ended, in words."""
    if known.told is None:
        return "unknown", Ink.QUIET
    past = known.past(name)
    if past is None or past.last is None:
        return "never started", Ink.QUIET
    age = words.duration(known.now - past.last.at)
    ago = f"{' '.join(age.split()[:2]) if briefly else age} ago"
    if past.last.ready:
        seconds = past.last.seconds
        return (f"ready in {_took(seconds)}, {ago}" if seconds is not None else f"ready, {ago}"), Ink.PLAIN
    return f"failed {ago}: {words.clean(past.last.cause or 'unknown cause')}", Ink.BAD


def _usual(past: wire.ProfilePast | None) -> str:
    return "unknown" if past is None or past.usual is None else _took(past.usual)


def _took(seconds: float) -> str:
    """A load that was over at once took some time all the same."""
    return "< 1 s" if seconds < 1 else words.duration(seconds)


def _now(name: str, known: Known) -> tuple[str, Ink]:
    if name == known.running:
        return "runs", Ink.GOOD
    return ("ordered", Ink.WARN) if name == known.ordered else ("", Ink.PLAIN)


def _verdict(choice: ProfileChoice) -> tuple[str, Ink]:
    if not choice.problem:
        return "ok", Ink.QUIET
    return ("not here", Ink.WARN) if choice.lacking else ("invalid", Ink.BAD)


def _room(names: int, width: int) -> tuple[int, bool]:
    """Characters for the last start, and whether the usual time has a column."""
    rest = max(0, width - 2 - names - _NOW - _FILE)
    return (rest - _USUAL, True) if rest >= _LEAST + _USUAL else (rest, False)


def shortened(name: str, width: int) -> str:
    """A name in at most `width` characters; what is left out is left out in its middle: families differ at the end."""
    if cells(name) <= width:
        return name
    if not name.isascii():
        return cut(name, width)
    tail = (width - 1) * 2 // 3
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _fitted(text: str, width: int) -> str:
    """Exactly `width` cells, the last of them a blank."""
    return padded(cut(text, max(0, width - 1)), width)
