"""Performs actions. Small and dumb: whether and why is `core/decide`'s business."""

import asyncio
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import assert_never

from arcops.config.paths import Paths
from arcops.core.action import (
    Action,
    Ask,
    Forget,
    KillEveryone,
    Look,
    MarkProven,
    ReleaseLocks,
    Settle,
    Spawn,
    TakeLocks,
    Target,
    Terminate,
)
from arcops.core.errors import ArcopsError, BlockedError
from arcops.core.launch import Launch, environment_of
from arcops.core.phase import Phase
from arcops.core.state import State
from arcops.core.world import Holder
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.looks import Looks
from arcops.daemon.scraper import Scraper
from arcops.machine import backend_log, cgroup, environment, process, record, spawn
from arcops.machine.lock import Locks
from arcops.machine.record import LaunchRecord, Unbelievable

SetupEnvironments = Mapping[str, Mapping[str, str]]
"""The environment that each setup script has made, by its path."""

SETUP_WITHIN = 60.0
"""Seconds for a setup script; oneAPI's takes one or two."""
BLOCKED_PAUSE = 1.0
"""Seconds between two looks for a holder that has gone: each reads every process's descriptors."""


class Actor:
    """Owns what can be done to the machine: the locks, and the one backend."""

    def __init__(
        self,
        paths: Paths,
        clock: Clock,
        journal: Journal,
        scraper: Scraper,
        looks: Looks,
        wake: Callable[[], None],
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._journal = journal
        self._scraper = scraper
        self._looks = looks
        self._wake = wake
        self._boot_id = process.boot_id()
        self.locks = Locks()
        self.locked_at = 0.0
        self.lock_holders: tuple[Holder, ...] = ()
        self.live: LiveBackend | None = None
        self.setups: dict[str, Mapping[str, str]] = {}
        self.ready_after: float | None = None
        self.trouble: str | None = None

    @property
    def phase_rises(self) -> bool:
        """The backend has not served yet: its log says how far it is."""
        return self.live is not None and not self.live.record.proven

    async def adopt(self) -> str | None:
        """Take up what an earlier supervisor has written down; returns why a record was not believed, if so."""
        found = record.read(str(self._paths.record), self._boot_id)
        match found:
            case None:
                return None
            case Unbelievable(reason):
                record.remove(str(self._paths.record))
                return reason
            case LaunchRecord():
                self.live = LiveBackend(
                    found, str(self._paths.record), adopted=True, wake=self._wake, monotonic=self._clock.monotonic
                )
                await self._attend(found)
                return None

    async def perform(self, action: Action, state: State) -> bool:  # noqa: C901 - one line an action
        """Do it; true where the world is different at once, so that the loop should look again."""
        match action:
            case TakeLocks(launch=launch):
                return self._take_locks(launch)
            case ReleaseLocks():
                self.locks.release()
                return True
            case Look():
                self._look(state)
                return False
            case Spawn(launch=launch):
                await self._spawn(launch)
                return True
            case Terminate(target=target):
                self._terminate(target)
                return False
            case KillEveryone():
                if self.live is not None:
                    self.live.kill_everyone()
                return False
            case Ask(deadline=deadline):
                if self.live is not None:
                    self._scraper.ask(self.live.record.launch.served_name, deadline)
                return False
            case MarkProven():
                self._mark_proven()
                return False
            case Forget():
                await self._forget()
                return True
            case Settle():
                self._journal.settle(action)
                return True
            case _:
                assert_never(action)

    def ours(self) -> frozenset[int]:
        """Pids of our backend."""
        return frozenset(self.live.members()) if self.live is not None else frozenset()

    def _look(self, state: State) -> None:
        launch = self.live.record.launch if self.live is not None else state.order.launch
        if launch is not None:
            pause = BLOCKED_PAUSE if state.phase is Phase.BLOCKED else 0.0
            self._looks.look(launch, self.ours(), pause)

    def _take_locks(self, launch: Launch) -> bool:
        before = self.locks.held
        try:
            self.lock_holders = self.locks.take(launch.locks)
        except BlockedError as error:
            self.lock_holders = (Holder(None, None, None, f"the lock, which cannot be taken: {error.message}"),)
        if self.lock_holders:
            return False
        self.locks.release(keep=launch.locks)
        if self.locks.held != before:
            self.locked_at = self._clock.monotonic()
        return True

    async def _spawn(self, launch: Launch) -> None:
        """The record first: a crash between the two must lose nothing."""
        launch_id = f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(self._clock.wall()))}-{secrets.token_hex(2)}"
        enclosure = cgroup.choose(self._paths.instance, launch_id, os.environ)
        entry = LaunchRecord(
            launch_id=launch_id,
            boot_id=self._boot_id,
            instance=self._paths.instance,
            launch=launch,
            enclosure=enclosure,
            status_path=str(self._paths.keeper_dir / f"{launch_id}.json"),
            log_path=str(self._paths.log_dir / f"{launch_id}.log"),
            spawned_at=self._clock.wall(),
            spawned_monotonic=self._clock.monotonic(),
        )
        try:
            record.write(str(self._paths.record), entry)
        except OSError as error:
            self.trouble = f"the launch record cannot be written: {error}"
            return
        self.live = LiveBackend(
            entry, str(self._paths.record), adopted=False, wake=self._wake, monotonic=self._clock.monotonic
        )
        try:
            await self._prepare(launch)
            self.live.started(self._start(entry))
        except (OSError, ArcopsError) as error:
            self.trouble = f"launch {launch_id} could not be spawned: {error}"
            self.live.was_not_spawned()
            return
        self.trouble = None
        await self._attend(entry)
        backend_log.prune(str(self._paths.log_dir))

    async def _prepare(self, launch: Launch) -> None:
        """Run the setup script, unless that was done when the order was checked. Raises ArcopsError."""
        if launch.setup is not None and launch.setup not in self.setups:
            sourced = environment.sourced
            self.setups[launch.setup] = await asyncio.to_thread(sourced, launch.setup, os.environ, SETUP_WITHIN)

    def _start(self, entry: LaunchRecord) -> "subprocess.Popen[bytes]":
        """The keeper, in the enclosure, with the locks' descriptors and everything into the log. Raises OSError."""
        cgroup_path = cgroup.enter(entry.enclosure)
        keeper = spawn.keeper_command(entry.launch_id, entry.status_path, entry.launch.argv, cgroup_path)
        return spawn.spawn(
            cgroup.wrap(entry.enclosure, keeper),
            self._environment(entry.launch),
            str(self._paths.state_dir),
            entry.log_path,
            self.locks.descriptors(),
        )

    def _environment(self, launch: Launch) -> dict[str, str]:
        """The backend's environment; the API key goes there, never into argv, where every user could read it."""
        setup: Mapping[str, str] = {} if launch.setup is None else self.setups[launch.setup]
        variables = environment_of(os.environ, setup, launch)
        key = read_key(launch)
        if key is not None:
            variables["VLLM_API_KEY"] = key
        return variables

    async def _attend(self, entry: LaunchRecord) -> None:
        await self._scraper.attend(entry.launch_id, entry.launch, read_key(entry.launch))

    def _terminate(self, target: Target) -> None:
        if self.live is None:
            return
        match target:
            case Target.MAIN:
                self.live.terminate_main()
            case Target.EVERYONE:
                self.live.terminate_everyone()
            case _:
                assert_never(target)

    def _mark_proven(self) -> None:
        live = self.live
        if live is None or live.record.proven:
            return
        self.ready_after = self._clock.monotonic() - live.record.spawned_monotonic
        self._journal.loaded(live.record.launch.profile, self.ready_after)
        live.mark_proven()

    async def _forget(self) -> None:
        live, self.live = self.live, None
        await self._scraper.leave()
        if live is not None:
            live.forget()


def read_key(launch: Launch) -> str | None:
    """The API key: the first line of the profile's file. None where there is none, or it cannot be read (any more)."""
    if launch.api_key_file is None:
        return None
    try:
        with open(launch.api_key_file, encoding="utf-8") as file:
            return file.readline().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
