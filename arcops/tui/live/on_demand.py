"""What single views ask for while they are shown: of the daemon on its socket, and of the doctor on this machine."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from arcops import wire
from arcops.client import LiveClient
from arcops.core.errors import ArcopsError
from arcops.tui.live.child import Child, tell
from arcops.tui.live.planner import plan, planner

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding

EXAMINED_WITHIN = 120.0
"""Seconds for all checks: each has a deadline of its own, the longest a minute."""


class Live:
    """`OnDemand` for the screen of a daemon that is there. The client is the feed's: its connections are shared."""

    def __init__(self, client: LiveClient, instance: str) -> None:
        self._client, self._instance = client, instance

    def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> AsyncIterator[wire.LogLines]:
        return self._client.follow_logs(lines, launch, supervisor=supervisor)

    def follow_events(self, after: int) -> AsyncIterator[wire.Event]:
        return self._client.follow_events(after)

    async def events(self, after: int, limit: int) -> wire.Events:
        return await self._client.events(after, limit)

    async def samples(self, since: float, until: float, step: float | None = None) -> wire.Samples:
        return await self._client.samples(since, until, step)

    async def profiles(self) -> wire.Profiles:
        return await self._client.profiles()

    async def cards(self, *, everybody: bool = False) -> wire.Cards:
        return await self._client.cards(everybody=everybody)

    async def examine(self, names: Sequence[str], done: "Callable[[Finding], None]") -> "tuple[Finding, ...]":
        return await examine(examiner(self._instance, names), done)

    async def plan(self, profile: str) -> wire.PlanInfo:
        return await plan(planner(self._instance, profile))


def examiner(instance: str, names: Sequence[str]) -> tuple[str, ...]:
    """What runs the doctor. -P: what lies in the current folder is not for it."""
    return (sys.executable, "-P", "-m", "arcops.tui.checks.examiner", instance, *names)


async def examine(
    command: Sequence[str], done: "Callable[[Finding], None]", *, within: float = EXAMINED_WITHIN
) -> "tuple[Finding, ...]":
    """Run the doctor beside the screen. Its process ends with this, however that is. Raises ArcopsError.

    A thread waits for it that nobody waits for: one that hangs in the kernel outlives a SIGKILL, and must not keep the
    operator from leaving.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | int] = asyncio.Queue()
    child = Child("the doctor", command, lambda line: tell(loop, partial(lines.put_nowait, line)))
    try:
        async with asyncio.timeout(within):
            return await _findings(lines, done)
    except TimeoutError:
        raise ArcopsError(f"the checks did not end within {within:g} s") from None
    finally:
        child.end()


async def _findings(lines: "asyncio.Queue[bytes | int]", done: "Callable[[Finding], None]") -> "tuple[Finding, ...]":
    """What the doctor prints, up to its exit code. Raises ArcopsError: its own, or because it cannot be read."""
    kind = await asyncio.to_thread(_finding)
    found: list[Finding] = []
    last = b""
    while not isinstance(line := await lines.get(), int):
        last = line
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(line, type=kind))
            done(found[-1])
    if line == 0:
        return tuple(found)
    try:
        raise msgspec.json.decode(last, type=wire.ErrorInfo).raised()
    except msgspec.MsgspecError:
        raise ArcopsError(f"the doctor ended with {line} and gave no reason") from None


def _finding() -> "type[Finding]":
    """Read in a thread: an import is a hundred milliseconds on a slow disk."""
    from arcops.doctor.finding import Finding

    return Finding
