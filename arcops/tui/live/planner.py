"""A profile's plan, read by a process beside the screen: a driver that is asked, or a disk, may hang."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.tui.live.child import Child, tell

PLANNED_WITHIN = 60.0
"""Seconds; it takes one or two, most of them for what is loaded."""


def planner(instance: str, profile: str) -> tuple[str, ...]:
    """What makes the plan. -P: what lies in the current folder is not for it."""
    return (sys.executable, "-P", "-m", "arcops.tui.checks.planner", instance, profile)


async def plan(command: Sequence[str], *, within: float = PLANNED_WITHIN) -> wire.PlanInfo:
    """Run it. Its process ends with this, however that is. Raises ArcopsError."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | int] = asyncio.Queue()
    child = Child("the planner", command, lambda line: tell(loop, partial(lines.put_nowait, line)))
    last = b""
    try:
        async with asyncio.timeout(within):
            while not isinstance(line := await lines.get(), int):
                last = line
    except TimeoutError:
        raise ArcopsError(f"the plan was not there within {within:g} s") from None
    finally:
        child.end()
    return _answer(last, line)


def _answer(last: bytes, code: int) -> wire.PlanInfo:
    try:
        if code == 0:
            return msgspec.json.decode(last, type=wire.PlanInfo)
        raise msgspec.json.decode(last, type=wire.ErrorInfo).raised()
    except msgspec.MsgspecError:
        raise ArcopsError(f"the planner ended with {code} and gave no reason") from None
