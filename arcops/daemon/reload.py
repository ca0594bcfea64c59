"""`arcops reload`: reads site.yaml and the ordered profile anew, for the next start of the backend.

A backend that runs is left alone, whatever has changed. An invalid file is one error, and nothing is different then.
"""

import os
from collections.abc import Iterator
from dataclasses import fields

from arcops import wire
from arcops.config import Config
from arcops.core.admit import UNDER_WAY
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
    for field in fields(Launch):
        was: object = getattr(before, field.name)
        now: object = getattr(after, field.name)
        if field.name == "argv":
            yield from _arguments(before.argv, after.argv)
        elif was != now:
            yield f"{field.name}: {_shown(was)} becomes {_shown(now)}"
    if old.environment != new.environment and before.environment == after.environment:
        yield "environment: a value that is not shown"


def _arguments(old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    """What the command line loses and gains; an option goes with its value."""
    was, now = _options(old), _options(new)
    gone, come = [one for one in was if one not in now], [one for one in now if one not in was]
    if gone:
        yield f"no longer in the command line: {_shown(' '.join(gone))}"
    if come:
        yield f"new in the command line: {_shown(' '.join(come))}"
    if was != now and not gone and not come:
        yield "the command line: its options stand in another order"


def _options(argv: tuple[str, ...]) -> list[str]:
    grouped: list[str] = []
    for word in argv:
        if grouped and grouped[-1].startswith("--") and not word.startswith("--"):
            grouped[-1] += f" {word}"
        else:
            grouped.append(word)
    return grouped


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
