"""The end of a supervisor that leaves its backend to the next one, and the mark that says how it was told to end."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from arcops.core.decide.falling import KILL_PATIENCE
from arcops.core.errors import ArcopsError
from arcops.core.launch import Limits
from arcops.daemon.clock import Clock

ARMED_FOR: Final = 60.0
"""Seconds: who asks for it restarts the unit at once. What was asked and forgotten must not change a later stop."""
UNIT_GIVES: Final = 240.0
"""Seconds: `TimeoutStopSec=` of the units."""
OVERHEAD: Final = KILL_PATIENCE + 15.0
"""Seconds of a stop beside the profile's own: processes outlive SIGKILL, the history is written, clients are told."""
STOPPED: Final = "stop"
KEPT: Final = "keep"
_MARK = "ended"


class Handover:
    """Whether the next end leaves the backend as it is. Armed by the operator, for a while."""

    def __init__(self, clock: Clock, keeper_dir: Path) -> None:
        self._clock = clock
        self._mark = keeper_dir / _MARK
        self._until = float("-inf")
        self._keeping: bool | None = None

    def begin(self) -> None:
        """A supervisor runs again: what the mark says of an earlier end is over."""
        with suppress(OSError):
            self._mark.unlink(missing_ok=True)

    def arm(self) -> float:
        """From now on for a while the end keeps the backend; seconds. Raises ArcopsError where the end has begun."""
        if self._keeping is not None:
            raise ArcopsError("the daemon is stopping", hint="`arcops status` says how far it is")
        self._until = self._clock.monotonic() + ARMED_FOR
        return ARMED_FOR

    def keeps(self) -> bool:
        """The supervisor is told to end: whether it leaves the backend. The first time decides, and is written down."""
        if self._keeping is None:
            self._keeping = self._clock.monotonic() < self._until
            # On a tmpfs. Without it the unit asks systemd alone whether a supervisor is to come back.
            with suppress(OSError):
                self._mark.write_text(KEPT if self._keeping else STOPPED)
        return self._keeping


def stopping(limits: Limits | None) -> str:
    """What systemd is told when the supervisor begins to end. `limits`: of the backend that ends with it, None if none.

    A profile whose own limits are longer than the units' asks for the time that it needs: systemd then waits for
    whichever is longer. An operator's shorter `TimeoutStopSec=` holds for every other profile. Source: sd_notify(3).
    """
    longest = 0.0 if limits is None else limits.stop + OVERHEAD
    more = f"\nEXTEND_TIMEOUT_USEC={round(longest * 1e6)}" if longest > UNIT_GIVES else ""
    return f"STOPPING=1{more}"


def ended_how(keeper_dir: Path) -> str | None:
    """STOPPED or KEPT, as the last supervisor was told to end; None where nobody told it to."""
    try:
        text = (keeper_dir / _MARK).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text if text in (STOPPED, KEPT) else None
