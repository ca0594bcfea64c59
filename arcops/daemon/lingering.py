"""Whether this user's services survive a logout: looked up now and then."""

import os
import pwd

from arcops.core.quantity import Known
from arcops.daemon.clock import Clock
from arcops.machine import linger

LINGER_KEEPS = 30.0
"""Seconds for which the answer about lingering is kept."""


class Lingering:
    """Whether this user's services survive a logout, looked up now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._user = _user()  # once, and before the loop turns: a user database in the network may take its time
        self._at = float("-inf")
        self._value: bool | None = None

    def __call__(self) -> bool | None:
        now = self._clock.monotonic()
        if now - self._at > LINGER_KEEPS:
            self._at = now
            reading = linger.lingering(self._user)
            self._value = reading.value if isinstance(reading, Known) else None
        return self._value


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
