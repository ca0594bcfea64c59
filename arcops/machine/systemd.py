"""What the supervisor tells systemd about itself."""

import os
from functools import cache
from typing import Protocol, cast

import sdnotify


class _Notifier(Protocol):
    """sdnotify's class as it is; the package brings no types."""

    def notify(self, state: str) -> None: ...


@cache
def _notifier(_address: str) -> _Notifier:
    """One socket for each address that systemd gave (it gives one)."""
    return cast("_Notifier", sdnotify.SystemdNotifier())


def notify(state: str) -> None:
    """Send `READY=1`, `STATUS=...`, `WATCHDOG=1` or `STOPPING=1`; silent where systemd did not ask, and never fails.

    Several lines may be sent at once. Source: sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        _notifier(address).notify(state)
