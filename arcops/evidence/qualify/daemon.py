"""What only the daemon knows: its own variables, what it runs by whose order, and the environment of that."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from arcops import wire
from arcops.bench.drive import Progress
from arcops.client import Client
from arcops.config.library import Config
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import Environment, digest_of
from arcops.core.launch import Launch
from arcops.evidence import fresh
from arcops.evidence.qualify.seen import Mark
from arcops.machine import files, proc

FAILED_STARTS: Final = (ExitCode.BACKEND_FAILED, ExitCode.WEDGED, ExitCode.TIMED_OUT)
_RECORDING: Final = 900.0
"""Seconds for which the daemon's record of an environment is waited for: so long it may take for it itself."""
_LARGEST_VARIABLES: Final = 8 << 20


def launch_of(profile: str, paths: Paths) -> Launch:
    """What the daemon would start: its own variables fill in the profile, and not those of this shell.

    Blocking. Raises ArcopsError: no such profile, or one that is no good.
    """
    return Config.load(variables(paths.socket), instance=paths.instance).launch(profile)


def variables(socket: Path) -> Mapping[str, str] | None:
    """The daemon's variables; None where there is none, or they may not be read: then this process's own do."""
    try:
        with Client(socket) as client:
            pid = client.ping().pid
        content = files.start(Path(proc.ROOT, str(pid), "environ"), _LARGEST_VARIABLES).content
    except (ArcopsError, OSError):
        return None
    pairs = (os.fsdecode(word).partition("=") for word in content.split(b"\0") if word)
    return {name: value for name, equals, value in pairs if equals} or None


def mark(socket: Path) -> Mark | None:
    """What runs now, by which order; None where the daemon does not say. Blocking."""
    try:
        return mark_in(status_of(socket))
    except ArcopsError:
        return None


def mark_in(status: wire.Status) -> Mark:
    """The same of a status."""
    return Mark(status.order.id, None if status.backend is None else status.backend.launch_id)


def status_of(socket: Path) -> wire.Status:
    """Blocking. Raises ArcopsError."""
    with Client(socket) as client:
        return client.status()


async def environment_of(socket: Path, launch_id: str, tell: Progress) -> Environment | None:
    """Of this launch, as the daemon recorded it, so that both have the same digest; None where it did not.

    It is not read here in that case: what lies on the disk now, by this shell's variables, need not be what was asked.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _RECORDING
    problem = f"it was not recorded within {_RECORDING:g} s"
    while loop.time() < until:
        try:
            found = await asyncio.to_thread(_recorded, socket, launch_id)
        except ArcopsError as error:
            problem = error.message
            break
        if found is not None:
            return found
        await asyncio.sleep(fresh.LOOK_EVERY)
    tell(f"the environment is not known, and no `arcops switch --qualified` will go by this record: {problem}")
    return None


def diagnosis(socket: Path) -> str:
    """What the daemon has to say of the order that failed last. Blocking."""
    try:
        settled = status_of(socket).settled
    except ArcopsError:
        return ""
    failed = [one for one in settled if one.exit_code in FAILED_STARTS]
    return max(failed, key=lambda one: one.order_id).evidence if failed else ""


def _recorded(socket: Path, launch_id: str) -> Environment | None:
    """None while it is being recorded. Raises ArcopsError: it cannot be, or something else runs."""
    with Client(socket) as client:
        page = client.environment()
    info = page.info
    if info is None or info.launch_id != launch_id:
        raise ArcopsError("another launch runs")
    if info.digest is None and info.unread:
        raise ArcopsError(f"the daemon could not record it: {info.unread[0]}")
    found = page.read()
    if found is not None and digest_of(found) != info.digest:
        raise ArcopsError("the daemon's record of it is not that of its digest")
    return found
