"""What ran before a qualification, and how it comes back."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops import wire
from arcops.bench.drive import Progress
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode
from arcops.evidence import fresh
from arcops.evidence.qualify.daemon import status_of

_LASTING: Final = frozenset({"serving", "stopped", "failed", "blocked", "stuck", "wedged"})


@dataclass(frozen=True, slots=True)
class Before:
    """The order that was in force."""

    order_id: int
    profile: str | None
    """What ran by it, or was to: what stands in for the ordered one, where something does. None: nothing."""
    serving: bool


def look(socket: Path) -> Before:
    """Blocking. Raises ArcopsError: no daemon, or an order is under way (4)."""
    return before_in(status_of(socket))


def before_in(status: wire.Status) -> Before:
    """The same of a status."""
    order = status.order
    if not order.committed:
        raise ArcopsError(
            f"an order is under way: to {order.goal} {order.profile or ''}".rstrip(),
            hint="`arcops status` shows it; qualify when it is done",
            exit_code=ExitCode.BUSY,
        )
    running = None if status.backend is None else status.backend.profile
    profile = (order.standing_in or order.profile) if order.goal == "run" else None
    serving = status.phase == "serving" and running == profile and profile is not None
    return Before(order.id, profile, serving)


async def bring_back(socket: Path, before: Before, ours: int | None, profile: str, tell: Progress) -> None:
    """What ran before runs again, and serves; or nothing runs. An order that somebody else gave meanwhile stands.

    `ours` is the order by which `profile` was started to be held to its gates; None where the daemon took none. Raises
    ArcopsError where what ran before does not come back.
    """
    now = (await asyncio.to_thread(status_of, socket)).order
    if now.id == before.order_id:
        # The daemon has turned back by itself, or had refused to turn away.
        if before.serving:
            tell(f"waiting for {before.profile}, which ran before")
            await _until(socket, "serving", before.order_id, tell)
    elif now.id != ours:
        _stands(now, tell)
    elif before.profile is None:
        tell(f"stopping {profile}: nothing ran before")
        stopping = await asyncio.to_thread(_stop, socket)
        await _until(socket, "stopped", now.id if stopping is None else stopping, tell)
    else:
        tell(f"switching back to {before.profile}")
        try:
            await fresh.change(socket, before.profile, replace=True)
        except ArcopsError as error:
            raise _does_not_return(before.profile, error.message) from error


async def _until(socket: Path, phase: str, order_id: int, tell: Progress) -> None:
    """As long as that order is in force."""
    while True:
        status = await asyncio.to_thread(status_of, socket)
        if status.order.id != order_id:
            _stands(status.order, tell)
            return
        if status.phase == phase:
            return
        if status.order.committed and status.phase in _LASTING:
            raise _does_not_return(status.order.profile or "a stop", f"{status.phase}: {status.reason}")
        await asyncio.sleep(fresh.LOOK_EVERY)


def _stands(order: wire.OrderInfo, tell: Progress) -> None:
    ordered = order.profile if order.goal == "run" and order.profile else "a stop"
    tell(f"somebody has ordered {ordered} meanwhile: that stands, and nothing is brought back")


def _does_not_return(what: str, why: str) -> ArcopsError:
    return ArcopsError(
        f"what ran before does not come back: {what}: {why}",
        hint="`arcops status` shows what runs, `arcops events` how it came to that",
        exit_code=ExitCode.BACKEND_FAILED,
    )


def _stop(socket: Path) -> int | None:
    with Client(socket) as client:
        return client.stop(wire.StopRequest()).order_id
