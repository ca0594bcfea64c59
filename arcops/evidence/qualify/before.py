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

_LASTING: Final = frozenset({"serving", "stopped", "failed", "blocked", "stuck", "wedged"})


@dataclass(frozen=True, slots=True)
class Before:
    """The order that was in force."""

    profile: str | None
    """What was ordered to run; None: nothing."""
    serving: bool


def look(socket: Path) -> Before:
    """Blocking. Raises ArcopsError: no daemon, or an order is under way (4)."""
    with Client(socket) as client:
        status = client.status()
    order = status.order
    if not order.committed:
        raise ArcopsError(
            f"an order is under way: to {order.goal} {order.profile or ''}".rstrip(),
            hint="`arcops status` shows it; qualify when it is done",
            exit_code=ExitCode.BUSY,
        )
    running = None if status.backend is None else status.backend.profile
    profile = order.profile if order.goal == "run" else None
    return Before(profile, serving=status.phase == "serving" and running == profile and profile is not None)


async def bring_back(socket: Path, before: Before, profile: str, tell: Progress) -> None:
    """What ran before runs again, and serves; or nothing runs. An order that somebody else gave meanwhile stands.

    `profile` is the one that was held to its gates. Raises ArcopsError where it does not come back.
    """
    status = await asyncio.to_thread(_status, socket)
    now = status.order.profile if status.order.goal == "run" else None
    if now not in (profile, before.profile):
        tell(f"somebody has ordered {now or 'a stop'} meanwhile: that stands")
        return
    if now == before.profile:
        # The daemon has turned back by itself, or had refused to turn away.
        if before.serving:
            tell(f"waiting for {before.profile}, which ran before")
            await _until(socket, "serving")
    elif before.profile is None:
        tell(f"stopping {profile}: nothing ran before")
        await asyncio.to_thread(_stop, socket)
        await _until(socket, "stopped")
    else:
        tell(f"switching back to {before.profile}")
        await fresh.change(socket, before.profile, replace=True)


async def _until(socket: Path, phase: str) -> None:
    while True:
        status = await asyncio.to_thread(_status, socket)
        if status.phase == phase:
            return
        if status.order.committed and status.phase in _LASTING:
            raise ArcopsError(
                f"what ran before does not run again: {status.phase}: {status.reason}",
                hint="`arcops status` and `arcops events` say more",
                exit_code=ExitCode.BACKEND_FAILED,
            )
        await asyncio.sleep(fresh.LOOK_EVERY)


def _status(socket: Path) -> wire.Status:
    with Client(socket) as client:
        return client.status()


def _stop(socket: Path) -> None:
    with Client(socket) as client:
        client.stop(wire.StopRequest())
