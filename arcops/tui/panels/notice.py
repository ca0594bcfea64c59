"""What must not be overlooked: a long prefill, old numbers, what the daemon cannot do, what has not qualified."""

from collections.abc import Iterator

from arcops import words
from arcops.core.rates import Prefilling
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, strong
from arcops.tui.panels.base import Panel, Room
from arcops.tui.snapshot import Snapshot


class NoticePanel(Panel):
    """A line each, most of the time none."""

    brief = False
    """Another view than the overview needs the lines: what stands there every day is left out of a small screen."""

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        lines = tuple(_notices(snapshot, room.width))
        lines += tuple(_environment(snapshot, room.width, room.tall and not self.brief))
        return lines if self.brief and not room.tall else (*lines, *_survival(snapshot, room.width, room.tall))


def _notices(snapshot: Snapshot, width: int) -> Iterator[Line]:
    age = snapshot.numbers_age
    rates = snapshot.rates
    if snapshot.serves and rates.prefilling is not None and rates.at is not None:
        yield _prefilling(rates.prefilling, rates.at - rates.prefilling.since + (age or 0.0))
    if snapshot.serves and age is not None and snapshot.numbers_old and not snapshot.stale:
        yield _warning(f"the server's numbers are {words.duration(age)} old")
    for trouble in () if snapshot.status is None else snapshot.status.trouble:
        for number, text in enumerate(words.wrapped(trouble, width - 2, most=2)):
            yield _warning(text) if number == 0 else (plain(f"  {text}"),)


def _environment(snapshot: Snapshot, width: int, roomy: bool) -> Iterator[Line]:
    """What runs is not what has qualified: said where that is so, and else where there is room for it."""
    info = None if snapshot.status is None else snapshot.status.environment
    if info is None:
        return
    changed = info.qualified is False and info.qualified_in is not None
    text = words.environment(info)
    if changed:
        yield _warning(words.wrapped(f"environment: {text}", width - 2, most=1)[0])
    elif text and roomy:
        yield (quiet(words.wrapped(f"environment: {text}", width, most=1)[0]),)


def _survival(snapshot: Snapshot, width: int, tall: bool) -> Iterator[Line]:
    """Whether this outlives a logout and a reboot: said where it does not, and where there is room for good news."""
    survival = None if snapshot.status is None else snapshot.status.survival
    if survival is None or (survival.logout and survival.reboot and not tall):
        return
    for text in words.wrapped(f"boot: {survival.why}", width, most=2 if tall else 1):
        yield (quiet(text),)


def _warning(text: str) -> Line:
    return (("! ", Ink.WARN), plain(text))


def _prefilling(prefilling: Prefilling, seconds: float) -> Line:
    """vLLM's counters stand still until a prefill is complete: these numbers come from the KV gauge, and say so."""
    rate = "speed unknown yet" if prefilling.rate is None else words.tokens_per_second(prefilling.rate)
    if prefilling.tokens_done is None:
        done = f"KV cache {words.percent(prefilling.kv_slope * seconds)} fuller"
    else:
        done = f"{words.count(prefilling.tokens_done)} tokens so far"
    return (
        ("▶ prefilling", Ink.GOOD),
        strong(f" · {rate}"),
        plain(" (from the KV gauge) · "),
        strong(done),
        plain(f" · {words.duration(seconds)}"),
    )
