"""Follows what befalls the cards for as long as the daemon lives: the kernel's log, its uevents, the dumps it keeps.

Each incident is counted once and told once: in the history when its burst of lines is over, or at once where the card
is given up; and once more if it turns out graver. What was before the daemon came is counted, and not told anew.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from arcops.core.cards.incidents import FATAL, Incident, Ledger
from arcops.core.cards.measures import CardReading
from arcops.core.cards.news import News
from arcops.core.diagnosis.kernel import KernelLine, events
from arcops.core.diagnosis.notices import dump_of, of_dump, of_line, of_uevent, of_wanted, parse_uevent, wanted_of
from arcops.daemon.act import Actor
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.machine import coredumps
from arcops.machine.kernel_log import DRIFT, REMEDY, moment
from arcops.machine.kernel_watch import JOURNAL, JournalWatch, KmsgWatch, Said, Watch
from arcops.machine.uevents import Uevents

BURST: Final = 0.5
"""Seconds after a line within which others of the same incident come, before it is told."""
AGAIN: Final = 60.0
"""Seconds after which a log that cannot be followed is tried again, twice as many each time; and between two words on
lines that were lost."""
SELDOM: Final = 3600.0
"""Seconds between two attempts at most: a journalctl that may show nothing reads all of the journal for that."""
DUMP_WITHIN: Final = 5.0
"""Seconds for a look at the dumps in sysfs; it takes microseconds."""
MOST_WORDS: Final = 500
"""Characters of an event."""

Tell = Callable[[Incident | None, str], None]
"""Puts an incident into the history (None for something about the watching itself), in words."""

_log = structlog.get_logger(__name__)


class CardWatch:
    """What befell the cards since boot, and whether anybody watches. Belongs to the loop."""

    def __init__(
        self,
        clock: Clock,
        tell: Tell,
        wake: Callable[[], None],
        *,
        dev: str = "/dev",
        sys: str = "/sys",
        journal: Sequence[str] = JOURNAL,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._wake = wake
        self._kmsg = f"{dev}/kmsg"
        self._sys = sys
        self._journal = journal
        self._ledger = Ledger()
        self._began_at = clock.monotonic()
        self._log: Watch | None = None
        self._refused = "it has not begun"
        """Why /dev/kmsg, or anything, is not followed."""
        self._pause = AGAIN
        self._events: Uevents | None = None
        self._deaf = "it has not begun"
        self._read_to = float("-inf")
        """Time of the newest line, by the log's clock."""
        self._known_to = float("-inf")
        """The same when the log was begun anew: what is read again up to there is known."""
        self._behind, self._behind_at = float("inf"), self._began_at
        """Seconds that the log's clock is behind ours, by the line that came fastest, and when that was found: from
        then on it may have drifted."""
        self._news = News()
        self._wanted: dict[str, str] = {}
        """What an NVIDIA card's driver wanted done with it when it was last read."""
        self._telling: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._lost_at = float("-inf")
        self._listing = Aside[tuple[tuple[str, str], ...]](DUMP_WITHIN)
        self._naming = Aside[str | None](DUMP_WITHIN)
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what is known ------------------------------------------------------------------------------------------------
    def incidents(self, address: str) -> tuple[Incident, ...]:
        """The last incidents of a card since boot, oldest first."""
        return self._ledger.of(address)

    def resets(self, address: str) -> int | None:
        """How often it was reset since boot, as far as the log goes back; None where nobody may read the log."""
        return None if self._unlogged() is not None else self._ledger.resets(address)

    def befell(self, cards: Sequence[str], since: float) -> tuple[Incident, ...]:
        """What befell these cards at `since` (seconds, monotonic) or later, oldest first."""
        found = [one for card in cards for one in self._ledger.of(card) if one.at >= since]
        return tuple(sorted(found, key=lambda one: one.at))

    def watching(self) -> str:
        """Whether and how it is noticed what befalls a card, in words."""
        unlogged = self._unlogged()
        deaf = self._deaf if self._events is None else self._events.ended
        if unlogged is not None and deaf is not None:
            return f"cannot watch, because {unlogged}; {deaf}"
        sources = [f"kernel log ({self._log.source})"] if self._log is not None and unlogged is None else []
        sources += ["uevents"] if deaf is None else []
        without = f"; resets are not seen, because {unlogged}" if unlogged is not None else f"; {deaf}" if deaf else ""
        return ", ".join(sources) + without

    def _unlogged(self) -> str | None:
        """Why the kernel's log is not followed; None where it is."""
        if self._log is None:
            return f"{self._refused}; {REMEDY}"
        if self._log.ended is None:
            return None
        return "; ".join(part for part in (self._refused, self._log.ended, REMEDY) if part)

    # -- life ---------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Begin to watch; what cannot be watched is said by `watching`."""
        self._begin_log()
        self._begin_uevents()
        self._do(self._look_for_dumps())

    def close(self) -> None:
        """Let go of everything; what is still to be told is told."""
        if self._retry is not None:
            self._retry.cancel()
        self._tell_due()
        for one in (self._log, self._events):
            if one is not None:
                one.close()
        for task in self._tasks:
            task.cancel()

    def _begin_log(self) -> None:
        self._retry = None
        if self._log is not None:
            if self._log.ended is None:
                return
            self._log.close()
            self._log = None
        self._known_to = self._read_to
        self._refused = ""
        try:
            self._log = KmsgWatch(self._hear, self._kmsg)
        except OSError as error:
            self._refused = f"{self._kmsg}: {error.strerror}"
            try:
                self._log = JournalWatch(self._hear, self._journal)
            except OSError as worse:
                self._refused += f"; {self._journal[0]}: {worse.strerror}"
        # Also where it seems to go well: a journal that shows nothing says so by its silence alone.
        self._try_again()

    def _try_again(self) -> None:
        """In a while, if it is still needed: a user may get his rights, and journald be started anew."""
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._pause, self._begin_log)
            self._pause = min(SELDOM, 2 * self._pause)

    def _begin_uevents(self) -> None:
        try:
            self._events = Uevents(self._hear_uevent)
        except OSError as error:
            self._deaf = f"uevents are refused: {error.strerror}"

    # -- what is heard ------------------------------------------------------------------------------------------------
    def _hear(self, said: Said) -> None:
        now = self._clock.monotonic()
        if self._log is not None and self._log.ended is not None:
            self._try_again()
        if said.lost and not said.past:
            self._say_lost(now)
        new = [line for line in said.lines if line.at > self._known_to or not said.past]
        if new:
            self._read_to, self._pause = max(self._read_to, *(line.at for line in new)), AGAIN
        for line in new:
            self._hear_line(line, now, past=said.past and line.at < self._began_at)

    def _hear_line(self, line: KernelLine, now: float, *, past: bool) -> None:
        past = past or line.at < moment(self._began_at, now)
        if not past:
            drifted = DRIFT * (now - self._behind_at)
            self._behind, self._behind_at = min(self._behind + drifted, now - line.at), now
        for event in events((line,)):
            incident = of_line(event, past=past)
            if incident is not None:
                self.notice(replace(incident, at=min(now, line.at + (0.0 if past else self._behind))))

    def _say_lost(self, now: float) -> None:
        """At most once a minute: a flood is one thing."""
        if now - self._lost_at > AGAIN:
            self._lost_at = now
            self._tell(None, "lines of the kernel's log were lost: it came faster than it could be read")

    def _hear_uevent(self, message: bytes | None) -> None:
        now = self._clock.monotonic()
        event = None if message is None else parse_uevent(message)
        if event is None:
            return
        dump = dump_of(event)
        if dump is not None:
            self._do(self._name_dump(dump, now))
        incident = of_uevent(event, now)
        if incident is not None:
            self.notice(incident)

    def read(self, reading: CardReading) -> None:
        """A card was read: what its driver wants done with it is a word on what befell it."""
        wanted = wanted_of(reading)
        if wanted is not None:
            incident = of_wanted(reading.address, self._wanted.get(reading.address), wanted, reading.at)
            self._wanted[reading.address] = wanted
            if incident is not None:
                self.notice(incident)

    # -- dumps --------------------------------------------------------------------------------------------------------
    async def _look_for_dumps(self) -> None:
        """Those that are there already. The log's past tells of the same ones, where it can be read."""
        for name, card in await self._listing.run(partial(coredumps.present, self._sys)):
            if not any("coredump" in one.text for one in self._ledger.of(card)):
                self.notice(of_dump(card, name, self._began_at, past=True))

    async def _name_dump(self, name: str, at: float) -> None:
        card = await self._naming.run(partial(coredumps.device_of, name, self._sys))
        if card is not None:
            self.notice(of_dump(card, name, at))

    def _do(self, look: Coroutine[None, None, None]) -> None:
        """Beside the loop: sysfs may hang with the driver that it belongs to."""
        task = asyncio.get_running_loop().create_task(look)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            _log.warning("dumps of devices cannot be looked at", reason=str(fault))

    # -- what is told -------------------------------------------------------------------------------------------------
    def notice(self, incident: Incident) -> None:
        """Take up what somebody says of a card."""
        noted = self._ledger.note(incident)
        if noted is None:
            return
        if not self._news.note(noted):
            return
        self._wake()
        if noted.incident.kind in FATAL:
            self._tell_due()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(BURST, self._tell_due)

    def _tell_due(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        for one in self._news.take():
            words = f"{one} [{one.source.value}: {one.text}]"
            _log.warning("card", words=words)
            self._tell(one, words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 1]}…")


def into_history(
    loop: Callable[[], Loop | None], actor: Actor, journal: Journal, incident: Incident | None, words: str
) -> None:
    """What befell a card, into the history: of the launch that runs there, where one does."""
    turning, live = loop(), actor.live
    on_it = live is not None and incident is not None and incident.card in live.record.launch.cards
    if turning is not None:
        launch_id = live.record.launch_id if live is not None and on_it else None
        cause = None if incident is None else incident.kind.label
        journal.event("kernel", turning.state, words, launch_id, cause=cause)
