"""Who watches while something is measured: the cards' memory and power, and what befalls them.

The cards are read by this process, with its own rights. Resets are the daemon's to tell where it runs the server (it
follows the kernel's log all the time); else this machine's kernel log is read once, at the end.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from arcops.cards.look import measure
from arcops.client import Client
from arcops.core.budget.bandwidth import bandwidth_of
from arcops.core.cards.incidents import OF_THE_CARD, Incident
from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.diagnosis.kernel import events
from arcops.core.diagnosis.notices import of_line
from arcops.core.errors import ArcopsError
from arcops.core.evidence.setting import Befallen, CardFacts, CardSample, Configuration, ServerFacts, Setting
from arcops.core.quantity import Known, Unknown, value_or_none
from arcops.evidence.setting import Server, known
from arcops.machine import kernel_log
from arcops.machine.gpu import CardIdentity, find_cards
from arcops.machine.gpu.base import MACHINE, Roots

EVERY: Final = 1.0
"""Seconds between two looks at the cards."""
MOST_SAMPLES: Final = 4096
"""Looks that are kept; a longer run keeps every second one, then every fourth: its extremes stay (`thinned`)."""
EVENTS_SEEN: Final = frozenset({"kernel", "card", "phase", "quality", "host"})
"""Kinds of the daemon's events that may bear on a measurement."""
_PHASE: Final = "phase"
_CLOCKS: Final = 0.5
"""Seconds by which this process's clock and the daemon's may seem to disagree."""
MOST_EVENTS: Final = 1000
"""Of the daemon's newest events that are looked through."""
_OF_THE_CARD = frozenset(kind.label for kind in OF_THE_CARD)


class Witness:
    """Watches from `async with` on until its end; then `setting` tells. `now` gives seconds since the run began."""

    def __init__(
        self,
        server: ServerFacts,
        socket: Path | None,
        now: Callable[[], float],
        *,
        roots: Roots = MACHINE,
        kmsg: str = kernel_log.KMSG,
        every: float = EVERY,
    ) -> None:
        """`socket`: the daemon's, or None where none is to be asked."""
        self._server = server
        self._socket = socket
        self._now = now
        self._roots = roots
        self._kmsg = kmsg
        self._every = every
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._known = Server(Configuration("unknown"), None, by_daemon=False)
        self._cards: tuple[CardIdentity, ...] = ()
        self._facts: dict[str, CardFacts] = {}
        self._samples: list[CardSample] = []
        self._stride = 1
        self._last: dict[str, CardReading] = {}
        self._unread: set[str] = set()
        self._befallen: tuple[Befallen, ...] = ()
        self._ordered: list[tuple[float, float]] = []
        self._noted: list[Befallen] = []
        self._watched_by = "nobody"
        self._unwatched = ""
        self._began_monotonic = 0.0
        self._began_at = 0.0

    async def __aenter__(self) -> Self:
        self._began_monotonic = time.monotonic() - self._now()
        self._began_at = time.time() - self._now()
        self._known = await asyncio.to_thread(known, self._server, self._socket)
        self._cards = await asyncio.to_thread(self._find)
        # A driver that hangs holds up this thread, and nobody waits for it.
        self._thread = threading.Thread(target=self._watch, name="cards", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 2 * self._every)
        await asyncio.to_thread(self._ask_what_befell)

    @property
    def known(self) -> Server:
        """Which server it is, as it was found at the beginning."""
        return self._known

    @contextmanager
    def ordering(self) -> Generator[None]:
        """Meanwhile the server is restarted by order of the run itself: that befell nobody."""
        began = self._now()
        try:
            yield
        finally:
            self._ordered.append((began, self._now()))

    @property
    def ordered(self) -> bool:
        """The run itself has had the server restarted."""
        return bool(self._ordered)

    def note(self, kind: str, text: str) -> None:
        """Something that the run itself has seen, and that ought to be known of it."""
        self._noted.append(befallen(self._now(), kind, text))

    @property
    def samples(self) -> tuple[CardSample, ...]:
        """The looks at the cards so far, oldest first."""
        return tuple(self._samples)

    def setting(self) -> Setting:
        """All that is known, after the end."""
        return Setting(
            server=self._server,
            configuration=self._known.configuration,
            cards=tuple(self._facts[one.address] for one in self._cards if one.address in self._facts),
            samples=self.samples,
            befallen=tuple(sorted((*self._noted, *self._befallen), key=lambda one: one.at)),
            watched_by=self._watched_by,
            unwatched="; ".join(part for part in (self._known.remark, self._unwatched, *sorted(self._unread)) if part),
        )

    def _find(self) -> tuple[CardIdentity, ...]:
        """The server's cards; all of the machine's where nobody knows which, none for a server elsewhere."""
        wanted = self._known.cards
        if wanted is None and self._known.configuration.source == "unknown":
            return ()
        try:
            there = find_cards(self._roots.sys)
        except OSError as error:
            self._unread.add(f"the cards cannot be listed: {error.strerror or error}")
            return ()
        return tuple(one for one in there if wanted is None or one.address in wanted)

    def _watch(self) -> None:
        while True:
            for card in self._cards:
                self._look(card)
            if self._stride > 1:
                self._done.wait(self._every * (self._stride - 1))
            if self._done.wait(self._every):
                return

    def _look(self, card: CardIdentity) -> None:
        at = time.monotonic()
        try:
            reading = measure(card.address, self._last.get(card.address), at, self._roots).reading
        except Exception as error:  # noqa: BLE001 - a fault in one look must not end the watch, nor the measurement
            reading = Unknown(f"{type(error).__name__} {error}", at)
        if not isinstance(reading, Known):
            self._unread.add(f"card {card.address}: {reading.reason}")
            return
        self._last[card.address] = reading.value
        self._facts[card.address] = facts_of(card, reading.value)
        self._samples.append(sample_of(self._now(), reading.value))
        if len(self._samples) > MOST_SAMPLES:
            self._samples = thinned(self._samples)
            self._stride *= 2

    def _ask_what_befell(self) -> None:
        if self._known.by_daemon and self._socket is not None:
            try:
                self._befallen = tuple(self._of_daemon(self._socket))
                self._watched_by = "daemon"
            except ArcopsError as error:
                self._unwatched = f"the daemon does not say what befell the card: {error.message}"
            else:
                return
        if self._known.configuration.source == "unknown":
            self._unwatched = self._unwatched or "resets of another machine's cards are not seen"
            return
        lines = kernel_log.read(self._began_monotonic, time.monotonic(), self._kmsg)
        if isinstance(lines, Unknown):
            self._unwatched = f"resets are not seen: {lines.reason}"
            return
        found = (of_line(event) for event in events(lines.value))
        self._befallen = tuple(self._of_incidents(one for one in found if one is not None))
        self._watched_by = "client"

    def _of_incidents(self, incidents: Iterable[Incident]) -> Iterator[Befallen]:
        """Of our cards, or of a card that the line does not name."""
        ours = {one.address for one in self._cards}
        for one in incidents:
            if one.card is None or one.card in ours or not ours:
                at = max(0.0, one.at - self._began_monotonic)
                yield befallen(at, one.kind.label, f"{one}: {one.text}")

    def _of_daemon(self, socket: Path) -> Iterator[Befallen]:
        """The cards' incidents since the beginning, and its own events. Raises ArcopsError."""
        with Client(socket, within=30.0) as client:
            cards = client.cards().cards
            past = client.events(after=-MOST_EVENTS, limit=MOST_EVENTS).events
        ours = {one.address for one in self._cards}
        for card in cards:
            for one in card.incidents:
                if one.at >= self._began_at and card.address in ours:
                    yield befallen(one.at - self._began_at, one.kind, one.text)
        for event in past:
            at = event.at - self._began_at
            if at >= 0 and event.kind in EVENTS_SEEN and not (event.kind == _PHASE and self._was_ordered(at)):
                yield Befallen(at, "event", f"{event.kind}: {event.reason}", spoils=False)

    def _was_ordered(self, at: float) -> bool:
        return any(began - _CLOCKS <= at <= ended + _CLOCKS for began, ended in self._ordered)


def befallen(at: float, kind: str, text: str) -> Befallen:
    """What befell a card, and whether what was measured then is worth anything: not beside a reset, a loss, a wedge."""
    return Befallen(at, kind, text, spoils=kind in _OF_THE_CARD)


def facts_of(card: CardIdentity, reading: CardReading) -> CardFacts:
    """Which card it is, as far as its driver says."""
    details = {one.name: value_or_none(one.reading) for one in reading.details}
    total = value_or_none(reading.reading(Quantity.MEMORY_TOTAL))
    return CardFacts(
        address=card.address,
        name=card.name or details.get("name") or f"{card.vendor:04x}:{card.device:04x}",
        driver=" ".join(part for part in (card.driver, details.get("driver")) if part),
        memory_total=None if total is None else int(total),
        bandwidth=bandwidth_of(card.vendor, card.device),
    )


def sample_of(at: float, reading: CardReading) -> CardSample:
    """One look, as a record keeps it. `at` in seconds since the run began."""
    used = value_or_none(reading.reading(Quantity.MEMORY_USED))
    return CardSample(
        at=at,
        address=reading.address,
        memory_used=None if used is None else int(used),
        power=value_or_none(reading.reading(Quantity.POWER)),
        temperature=value_or_none(reading.reading(Quantity.TEMPERATURE)),
        clock=value_or_none(reading.reading(Quantity.CLOCK)),
    )


def thinned(samples: Sequence[CardSample]) -> list[CardSample]:
    """About half of the samples: of each two of a card, the one with more memory in use, so that a peak stays."""
    kept: list[CardSample] = []
    waiting: dict[str, CardSample] = {}
    for one in samples:
        other = waiting.pop(one.address, None)
        if other is None:
            waiting[one.address] = one
        else:
            kept.append(max(other, one, key=lambda sample: -1 if sample.memory_used is None else sample.memory_used))
    return sorted((*kept, *waiting.values()), key=lambda sample: sample.at)
