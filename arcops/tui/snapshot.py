"""What the screen shows at one moment: one frozen value that the feed hands to the application."""

from dataclasses import dataclass, field
from enum import Enum

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.core.rates import Rates
from arcops.tui.past import Mark

SILENT_AFTER = 3.5
"""Seconds: the daemon says its status at least once a second, so that this many without one are not live any more."""

_PHASES = frozenset(phase.value for phase in Phase)
_WITH_NUMBERS = frozenset({Phase.SERVING, Phase.SUSPECT, Phase.DRAINING})


class Link(Enum):
    """How it stands with the daemon."""

    CONNECTING = "connecting"
    LIVE = "live"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class LogTail:
    """The newest lines of the backend's log, oldest first, made harmless."""

    launch_id: str | None = None
    lines: tuple[str, ...] = ()
    problem: str = ""
    """Why there are none, in words."""


@dataclass(frozen=True, slots=True)
class Playback:
    """Where in a recording this is."""

    began: float
    """When the recording was made, in seconds since the epoch."""
    at: float
    """Seconds from its beginning."""
    length: float
    """Seconds that it has."""
    speed: int
    """How many times faster than it was."""
    paused: bool
    cut: bool
    """Its file ends in the middle of something."""

    @property
    def ended(self) -> bool:
        return self.at >= self.length


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the panels need to know."""

    socket: str
    instance: str
    window: float
    """Seconds, as the operator chose it; the numbers' own is in the status."""
    now: float
    """Seconds since the epoch by the daemon's clock, as well as it can be told from the newest status."""
    link: Link = Link.CONNECTING
    problem: str = ""
    """Why the link is broken, in words, and what to do about it."""
    hint: str = ""
    retry_in: float | None = None
    """Seconds until the next try."""
    status: wire.Status | None = None
    """The newest, however old."""
    silent: float = 0.0
    """Seconds since it came."""
    history: tuple[wire.HistoryPoint, ...] = ()
    """The last seconds, oldest first."""
    minutes: tuple[wire.HistoryPoint, ...] = ()
    """The minutes before them."""
    marks: tuple[Mark, ...] = ()
    """Where other launches began."""
    log: LogTail = field(default=LogTail())
    playback: Playback | None = None
    """Where in a recording this is; None of a daemon that is there."""

    @property
    def stale(self) -> bool:
        """Nothing here may look live."""
        return self.link is not Link.LIVE or self.silent > SILENT_AFTER

    @property
    def window_words(self) -> str:
        """The stretch of time that the rates are taken over: the window, or less for a young backend."""
        if self.status is None:
            return words.window(self.window)
        return words.covered(self.status.window, self.status.rates.seconds)

    def adds_only_log(self, before: "Snapshot") -> bool:
        """Nothing came since `before` but lines of log, and nothing grew old."""
        same = self.status is before.status and self.history is before.history and self.window == before.window
        same = same and self.playback == before.playback
        return same and not self.stale and not before.stale

    @property
    def phase(self) -> Phase | None:
        """The phase; None without a status, or if the daemon's word for it is not known here."""
        if self.status is None or self.status.phase not in _PHASES:
            return None
        return Phase(self.status.phase)

    @property
    def serves(self) -> bool:
        """There is a server whose numbers mean something."""
        if self.status is None or self.status.backend is None:
            return False
        return self.phase is None or self.phase in _WITH_NUMBERS

    @property
    def rates(self) -> Rates:
        """The numbers of the backend that is there now; those of an earlier launch are not its."""
        if self.status is None or self.status.backend is None:
            return Rates(absent="there is no server")
        rates = self.status.rates
        if rates.launch_id is not None and rates.launch_id != self.status.backend.launch_id:
            return Rates(absent="this launch was not scraped yet")
        return rates

    @property
    def numbers_age(self) -> float | None:
        """Seconds since the newest scrape; None without any."""
        if self.status is None or self.status.rates_age is None:
            return None
        return self.status.rates_age + self.silent

    @property
    def numbers_old(self) -> bool:
        """The server's numbers may not look live, whatever the daemon's own word."""
        return self.numbers_age is not None and self.numbers_age > words.NUMBERS_OLD_AFTER
