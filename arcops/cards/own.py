"""The cards as this user sees them, where no supervisor answers: read here and now, and what cannot be seen is said.

A driver that hangs holds up a thread that nobody waits for any longer than `READ_WITHIN`.
"""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from arcops import wire
from arcops.cards.look import Sight, lock_holder, measure
from arcops.cards.message import Card, Numbering, Writer
from arcops.config.paths import Paths
from arcops.core.cards.holders import Census
from arcops.core.cards.incidents import Ledger
from arcops.core.cards.measures import CardReading
from arcops.core.diagnosis.kernel import events
from arcops.core.diagnosis.notices import of_line
from arcops.core.quantity import Known, Reading, T, Unknown
from arcops.machine import cgroup, kernel_log, process, record
from arcops.machine.gpu import CardIdentity, find_cards
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.gpu.census import readings
from arcops.machine.record import LaunchRecord

READ_WITHIN: Final = 10.0
"""Seconds that drivers have for an answer; it takes milliseconds."""
RATE_AFTER: Final = 0.25
"""Seconds between the first two readings: power and use come of two."""


class OwnLook:
    """Looks at the cards with this process's own rights. It remembers its last look, for what comes of two."""

    def __init__(self, paths: Paths, roots: Roots = MACHINE, kmsg: str = kernel_log.KMSG) -> None:
        self._paths = paths
        self._roots = roots
        self._kmsg = kmsg
        self._last: dict[str, CardReading] = {}

    def look(self) -> wire.Cards:
        """All cards, and who holds them; each as far as it can be read in time."""
        cards = _in_time({"": partial(find_cards, self._roots.sys)}, "sysfs")[""]
        found = cards.value if isinstance(cards, Known) else ()
        first = not self._last
        sights = self._measured(found)
        if first and self._last:
            time.sleep(RATE_AFTER)
            sights = self._measured(found)
        launch = self._launch()
        ours = partial(members, launch)
        censuses = _in_time({one.address: partial(self._count, one, ours) for one in found}, "who holds it")
        locks = _in_time({one.address: partial(lock_holder, one.address, self._roots) for one in found}, "its lock")
        ledger, watching = self._past()
        offset = time.time() - time.monotonic()
        writer = Writer(
            lambda monotonic: monotonic + offset,
            Numbering(found),
            () if launch is None else launch.launch.allow_holders,
        )
        told = tuple(
            writer.info(
                Card(
                    identity=one,
                    reading=sights[one.address],
                    census=_flat(censuses[one.address]),
                    lock=locks[one.address],
                    incidents=() if ledger is None else ledger.of(one.address),
                    resets=None if ledger is None else ledger.resets(one.address),
                )
            )
            for one in found
        )
        return wire.Cards(at=time.time(), cards=told, watching=watching)

    def _measured(self, cards: tuple[CardIdentity, ...]) -> dict[str, Reading[CardReading]]:
        at = time.monotonic()
        looks: dict[str, Callable[[], Sight]] = {
            one.address: partial(measure, one.address, self._last.get(one.address), at, self._roots) for one in cards
        }
        sights = _in_time(looks, "its driver")
        found = {address: _reading(sight) for address, sight in sights.items()}
        self._last |= {address: one.value for address, one in found.items() if isinstance(one, Known)}
        return found

    def _count(self, card: CardIdentity, ours: Callable[[], frozenset[int]]) -> Reading[Census]:
        at = time.monotonic()
        return readings((card,), at, ours, None, self._roots)[card.address]

    def _launch(self) -> LaunchRecord | None:
        """What an earlier supervisor has left running, if anything."""
        found = record.read(str(self._paths.record), process.boot_id())
        return found if isinstance(found, LaunchRecord) else None

    def _past(self) -> tuple[Ledger | None, str]:
        """What the kernel's log says of the cards since boot, as far as it goes back; and how that was found."""
        now = time.monotonic()
        lines = kernel_log.read(0.0, now, self._kmsg)
        if isinstance(lines, Unknown):
            return None, f"cannot watch, because {lines.reason}"
        ledger = Ledger()
        for event in events(lines.value):
            incident = of_line(event, past=True)
            if incident is not None:
                ledger.note(incident)
        return ledger, f"nobody watches now; {self._kmsg} was read as far as it goes back"


def members(launch: LaunchRecord | None) -> frozenset[int]:
    """Every process of a launch that lives. Raises OSError."""
    if launch is None:
        return frozenset()
    keeper = launch.keeper
    named = {one.pid for one in (keeper, launch.main) if one is not None and process.alive(one)}
    return frozenset(named.union(cgroup.members(launch.enclosure, None if keeper is None else keeper.pid)))


def _reading(sight: Reading[Sight]) -> Reading[CardReading]:
    return sight.value.reading if isinstance(sight, Known) else sight


def _flat(reading: Reading[Reading[Census]]) -> Reading[Census]:
    return reading.value if isinstance(reading, Known) else reading


def _in_time(looks: Mapping[str, Callable[[], T]], what: str) -> dict[str, Reading[T]]:
    """What each of these sees, side by side; an absence where one fails, or has not come back in time."""
    at = time.monotonic()
    found: dict[str, Reading[T]] = {}

    def see(key: str, look: Callable[[], T]) -> None:
        try:
            found[key] = Known(look(), at)
        except OSError as error:
            found[key] = Unknown(f"{what} cannot be read: {error.strerror or error}", at)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one look must not hide the others
            found[key] = Unknown(f"{what} cannot be read: {type(error).__name__} {error}", at)

    threads = [threading.Thread(target=see, args=pair, daemon=True) for pair in looks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, at + READ_WITHIN - time.monotonic()))
    late = Unknown(f"{what} has not come back for {READ_WITHIN:.0f} s", at)
    return {key: found.get(key, late) for key in looks}
