"""What is known of the card: a section each, in one order. A new one is one more function.

Nothing is made up: what is not known says so once, with its reason.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.tui.ink import Ink, Line, Lines, fitted, plain, quiet, rule, strong
from arcops.tui.panels import check_list
from arcops.tui.panels.card_facts import CardFacts, beside
from arcops.tui.panels.card_memory import memory
from arcops.tui.panels.card_past import befell
from arcops.tui.panels.card_sensors import identity, sensors

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

CHECKS = ("render-node", "driver", "card-holders", "kernel-log")
"""The doctor's that are about the card."""
DEVICES = PurePosixPath("/sys/bus/pci/devices")
"""A card's lock is a lock on its folder there."""
WIDE = 118
"""Cells from which on the sections stand in two columns."""

_LABEL = 10
_GAP = 3
"""Cells between the columns."""

Section = Callable[[CardFacts, int], Lines]


def lines(facts: CardFacts, width: int) -> Lines:
    """All sections, one below the other, or in two columns."""
    if width < WIDE:
        return tuple(line for section in SECTIONS for line in section(facts, width))
    half = (width - _GAP) // 2
    left, right = (
        tuple(fitted(line, half) for section in SECTIONS if (section in LEFT) is there for line in section(facts, half))
        for there in (True, False)
    )
    return beside(left, right, half, _GAP)


def cards(locks: Sequence[str]) -> tuple[str, ...]:
    """PCI addresses of the cards that are locked."""
    return tuple(PurePosixPath(lock).name for lock in locks if PurePosixPath(lock).parent == DEVICES)


def locked(facts: CardFacts, width: int) -> Lines:
    """Which locks are held, and who has them."""
    snapshot = facts.snapshot
    status = snapshot.status
    if status is None:
        why = snapshot.problem or "it has said nothing yet"
        return (rule("Locks", width), *_wrapped("", f"no word from the daemon: {why}", width))
    age = f"as the daemon said {words.duration(snapshot.silent)} ago" if snapshot.stale else ""
    return (rule("Locks", width, remark=age), *_locks(status, width), *_holder(status, width))


def _locks(status: wire.Status, width: int) -> Iterator[Line]:
    if not status.locks:
        yield from _wrapped("locks", f"none is held while it is {status.phase}", width)
    for number, lock in enumerate(status.locks):
        label = "locks" if number == 0 else ""
        card = cards((lock,))
        what = f"card {card[0]}" if card else "no card, a file"
        yield (quiet(label.ljust(_LABEL)), strong(words.clean(what)), quiet(f"  {words.clean(lock)}"))


def _holder(status: wire.Status, width: int) -> Iterator[Line]:
    backend = status.backend
    if backend is not None and status.locks:
        yield from _wrapped("held by", f"arcopsd (pid {status.daemon.pid}) for launch {backend.launch_id}", width)
        pid = "unknown" if backend.pid is None else str(backend.pid)
        processes = words.count(backend.processes)
        yield from _wrapped(
            "backend", f"{backend.profile}: pid {pid}, processes {processes}, {backend.enclosure}", width
        )
    elif status.locks:
        yield from _wrapped("held by", f"arcopsd (pid {status.daemon.pid}), without a backend", width)
    if status.phase in (Phase.BLOCKED.value, Phase.STUCK.value, Phase.WEDGED.value):
        yield from _wrapped(status.phase, status.reason, width, Ink.WARN)
    for note in status.notes:
        yield from _wrapped("unseen", note, width)


def machine(facts: CardFacts, width: int) -> Lines:
    """What the doctor says about the card, by its own look and without the daemon."""
    found: list[Line] = [rule("Checks", width, remark=facts.looked)]
    if facts.look_problem:
        found += _wrapped("", words.unknown(facts.look_problem), width)
    for finding in check_list.sorted_findings(facts.findings):
        found += _finding(finding, width)
    return tuple(found)


def _finding(finding: "Finding", width: int) -> Iterator[Line]:
    indent = 11
    for number, text in enumerate(words.wrapped(finding.summary, width - indent, most=3)):
        head = check_list.verdict(finding) if number == 0 else plain(" " * 9)
        yield (head, plain("  "), strong(text))
    for seen in (text for text in finding.evidence if text):
        for text in words.wrapped(seen, width - indent, most=2):
            yield (quiet(" " * indent + text),)
    if finding.remedy:
        for text in words.wrapped(f"do: {finding.remedy}", width - indent, most=3):
            yield (plain(" " * indent + text),)


def _wrapped(label: str, text: str, width: int, ink: Ink = Ink.PLAIN) -> Iterator[Line]:
    for number, row in enumerate(words.wrapped(text, width - _LABEL, most=4)):
        yield (quiet((label if number == 0 else "").ljust(_LABEL)), (row, ink))


SECTIONS: tuple[Section, ...] = (memory, sensors, befell, locked, identity, machine)
"""In the order in which they stand."""
LEFT: frozenset[Section] = frozenset({memory, locked, identity})
"""Those of the left column, where there are two."""
