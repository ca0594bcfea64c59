"""The setup scripts of profiles (oneAPI's setvars.sh): each is run once beside the loop, and what it makes is kept."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Final

from arcops.core.errors import ArcopsError
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.daemon.aside import on_a_thread
from arcops.daemon.clock import Clock
from arcops.machine import environment

SETUP_WITHIN: Final = 60.0
"""Seconds for a setup script; oneAPI's takes one or two."""
_NOT_RUN = Unknown("the setup script was not run yet", float("-inf"))


class Setups:
    """Belongs to the loop; the scripts run on threads."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._made: dict[str, Mapping[str, str]] = {}
        """The environment that each script has made, by its path."""
        self._unprepared: dict[str, Unknown] = {}
        self._preparing: dict[str, asyncio.Task[None]] = {}

    def of(self, launch: Launch | None) -> Reading[None]:
        """Whether what the launch's script makes is there, or why not and since when."""
        if launch is None or launch.setup is None or launch.setup in self._made:
            return Known(None, self._clock.monotonic())
        return self._unprepared.get(launch.setup, _NOT_RUN)

    def made(self, launch: Launch) -> Mapping[str, str]:
        """The environment after the launch's script; nothing without one. Raises KeyError where it was not run."""
        return {} if launch.setup is None else self._made[launch.setup]

    async def run(self, launch: Launch) -> None:
        """Run the launch's script now, if it has one: it may have been changed. Raises ArcopsError, OSError."""
        if launch.setup is not None:
            self._made[launch.setup] = await on_a_thread(environment.sourced, launch.setup, os.environ, SETUP_WITHIN)

    def prepare(self, launch: Launch) -> None:
        """Begin to run the launch's script, unless that is under way; the loop is woken when it has ended."""
        script = launch.setup
        if script is not None and script not in self._preparing:
            task = asyncio.create_task(self._prepare(launch, script))
            self._preparing[script] = task
            task.add_done_callback(lambda _: self._preparing.pop(script))

    async def _prepare(self, launch: Launch, script: str) -> None:
        at = self._clock.monotonic()
        try:
            await self.run(launch)
        except (OSError, ArcopsError) as error:
            self._unprepared[script] = Unknown(error.message if isinstance(error, ArcopsError) else str(error), at)
        self._wake()

    def close(self) -> None:
        """Scripts that run are ended: nobody waits for them any more."""
        environment.end_all()
