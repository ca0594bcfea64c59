"""`arcops reload`: reads site.yaml and the ordered profile anew, for the next start of the backend.

A backend that runs is left alone, whatever has changed. An invalid file is one error, and nothing is different then.
"""

import os
from collections.abc import Iterator
from dataclasses import fields

from arcops import wire
from arcops.config import Config
from arcops.core.admit import UNDER_WAY
from arcops.core.difference import Change, of_arguments, of_launches
from arcops.core.errors import BusyError
from arcops.core.launch import Launch, redact
from arcops.core.phase import LATCHED
from arcops.core.state import Goal, Order
from arcops.daemon.aside import for_a_client
from arcops.daemon.loop import Loop
from arcops.daemon.orders import Orders
from arcops.machine import systemd

_LONGEST = 120
"""Characters of a value that is shown."""
_COMPARED = frozenset({"argv", "environment", "setup", "locks"})
"""Fields of a launch that are compared piece by piece."""


class Reloader:
    """Reads, and hands what it read to the loop."""

    def __init__(self, instance: str, loop: Loop, orders: Orders) -> None:
        self._instance = instance
        self._loop = loop
        self._orders = orders

    async def reload(self) -> wire.Reloaded:
        """Raises ArcopsError: 6 for a bad file, 4 while an order is under way."""
        systemd.notify_reloading()
        try:
            return await self._reload()
        finally:
            systemd.notify("READY=1")

    async def _reload(self) -> wire.Reloaded:
        order = self._order()
        if order.goal is Goal.STOP or order.profile is None:
            await for_a_client(Config.load, dict(os.environ), instance=self._instance)
            return wire.Reloaded(profile=None, changes=(), summary="site.yaml is valid; nothing is ordered to run")
        launch, fallback = await self._orders.resolve(order.profile)
        if self._order() != order:
            raise BusyError("another order came while the files were read", hint="it has read them anew itself")
        changes = tuple(differences(order.launch, launch))
        self._loop.renew(order.id, launch, fallback)
        return wire.Reloaded(profile=order.profile, changes=changes, summary=self._summary(order.profile, changes))

    def _order(self) -> Order:
        """The order in force, where nothing is being done about it. Raises BusyError."""
        state = self._loop.state
        if not state.order.committed or state.order.resolving or state.phase in UNDER_WAY:
            raise BusyError(
                f"an order is under way: {state.phase.value} ({state.reason})",
                hint="say it again when that is over; `arcops status` tells",
            )
        return state.order

    def _summary(self, profile: str, changes: tuple[str, ...]) -> str:
        if not changes:
            return f"{profile} is valid, and as it was"
        if self._loop.state.phase in LATCHED:
            return f"{profile} is valid, and differs; `arcops restart` tries it"
        return f"{profile} is valid, and differs from what was ordered: at the next start (`arcops restart`)"


def differences(old: Launch | None, new: Launch) -> Iterator[str]:
    """What of a launch is different, a line each, without secrets."""
    if old is None:
        yield "it could not be launched as it stood before"
        return
    before, after = redact(old), redact(new)
    changes = of_launches(before, after)
    yield from map(_told, changes)
    if before.argv != after.argv and not of_arguments(before.argv, after.argv):
        yield "the command line: the same, written in another way"
    for name in (field.name for field in fields(Launch) if field.compare and field.name not in _COMPARED):
        was: object = getattr(before, name)
        now: object = getattr(after, name)
        if was != now:
            yield f"{name}: {_shown(was)} becomes {_shown(now)}"
    if old.environment != new.environment and before.environment == after.environment:
        yield "environment: a value that is not shown"


def _told(change: Change) -> str:
    """`--max-num-seqs: 4 becomes 8`."""
    if change.was is None:
        return f"{change.name}: {_shown(change.becomes)}, which is new"
    if change.becomes is None:
        return f"{change.name}: no longer there; it was {_shown(change.was)}"
    return f"{change.name}: {_shown(change.was)} becomes {_shown(change.becomes)}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
