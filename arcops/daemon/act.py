"""Performs actions. Small and dumb: whether and why is `core/decide`'s business."""

import os
import secrets
import subprocess
import time
from collections.abc import Callable
from typing import assert_never

from arcops.config.locate import NotHereError
from arcops.config.paths import Paths
from arcops.core.action import (
    Action,
    Ask,
    Forget,
    KeepBaseline,
    KeepEvidence,
    KillEveryone,
    Look,
    MarkProven,
    Prepare,
    ReleaseLocks,
    Settle,
    Spawn,
    TakeLocks,
    Target,
    Terminate,
)
from arcops.core.decide.moves import unwanted
from arcops.core.errors import ArcopsError, BlockedError
from arcops.core.launch import Launch, environment_of
from arcops.core.phase import Phase
from arcops.core.state import Order, State
from arcops.core.world import Backend, Holder
from arcops.daemon.aside import on_a_thread
from arcops.daemon.backend import LiveBackend
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.keys import read_key, spawn_key
from arcops.daemon.leavings import UNREAD, may_live, shows_itself, who
from arcops.daemon.looks import Looks
from arcops.daemon.scene import Scene
from arcops.daemon.scraper import Scraper
from arcops.daemon.setups import Setups
from arcops.daemon.trials import Trials
from arcops.machine import backend_log, cgroup, process, record, spawn
from arcops.machine.lock import Locks, name_holders
from arcops.machine.record import LaunchRecord, StandsInFor, Unbelievable

BLOCKED_PAUSE = 1.0
"""Seconds between two looks for a holder that has gone: each reads every process's descriptors."""
NAMED_AGAIN = 10.0
"""Seconds for which the name of who has a lock is kept: finding it reads every process's descriptors too."""


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
        checkpoints: Checkpoints = NOWHERE,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._journal = journal
        self._scraper = scraper
        self._looks = looks
        self._wake = wake
        self._checkpoints = checkpoints
        self._scene = Scene(str(paths.evidence_dir), clock, journal)
        self._boot_id = process.boot_id()
        self.trials = Trials(clock, journal, wake)
        self.locks = Locks()
        self.locked_at = 0.0
        self.lock_holders: tuple[Holder, ...] = ()
        self.lock_fault: str | None = None
        """Why the locks cannot even be tried, in words; None where they can."""
        self._named: tuple[str, float] = ("", 0.0)
        """The taken lock whose holders `lock_holders` are, and when they were found."""
        self.live: LiveBackend | None = None
        self.setups = Setups(clock, wake)
        self.trouble: str | None = None
        self.tell_served: Callable[[LiveBackend], None] = lambda _: None
        """Is told of a launch that serves for the first time."""

    @property
    def unproven(self) -> bool:
        """The backend has not served yet: its log says how far it is."""
        return self.live is not None and not self.live.record.proven

    async def adopt(self) -> str | None:
        """Take up what an earlier supervisor has written down; returns why a record was not believed, if so.

        Raises ArcopsError where a backend may be running from a record that cannot be read: whoever started beside it
        would know nothing of it, and the record is all that is left to find it by.
        """
        found = record.read(str(self._paths.record), self._boot_id)
        match found:
            case None:
                return None
            case Unbelievable(reason=reason) as unread:
                if may_live(unread):
                    raise ArcopsError(f"{reason}, and a backend may be running from it{who(unread)}", hint=UNREAD)
                record.remove(str(self._paths.record))
                return reason
            case LaunchRecord():
                self._checkpoints.reach(Point.ADOPT_READ)
                if self._was_never_spawned(found):
                    record.remove(str(self._paths.record))
                    return f"launch {found.launch_id} was written down, and its supervisor died before it was started"
                self.live = self._watched(found, adopted=True)
                self._checkpoints.reach(Point.ADOPT_TAKEN)
                self._share_locks(found)
                await self._scraper.attend(found.launch_id, found.launch, read_key(found.launch))
                return None

    def _share_locks(self, found: LaunchRecord) -> None:
        """Hold the adopted backend's locks too: whoever kills its keeper and its server does not free them then.

        Where its lock file was removed meanwhile, the one that is there now is taken. What cannot be had is left as it
        is: the backend holds it, and that is seen at each look.
        """
        holders = [one for one in (found.keeper, found.main) if one is not None and process.alive(one)]
        try:
            shared = any(self.locks.inherit(found.launch.locks, one.pid) for one in holders)
            if not shared:
                shared = self.locks.try_take(found.launch.locks) is None
        except (BlockedError, OSError):
            return
        if shared:
            self.locked_at = found.spawned_monotonic

    def _was_never_spawned(self, found: LaunchRecord) -> bool:
        """Nothing of the launch has ever run, and nothing can come any more.

        Every process of it has the locks' descriptors from its first instruction on, so a lock that is free is the
        proof. Where it is not, whoever has it may be on its way, and the loop waits for what it becomes.
        """
        if found.keeper is not None or found.main is not None or not found.launch.locks:
            return False
        try:
            if self.locks.try_take(found.launch.locks) is not None:
                return False
        except BlockedError:
            return False
        self.locked_at = self._clock.monotonic()
        if shows_itself(found):
            self.locks.release()
            return False
        return True

    async def perform(self, action: Action, state: State) -> bool:  # noqa: C901 - one line an action
        """Do it; true where the world is different at once, so that the loop should look again."""
        match action:
            case TakeLocks(launch=launch):
                return self._take_locks(launch)
            case ReleaseLocks():
                self.locks.release()
                return True
            case Prepare(launch=launch):
                self.setups.prepare(launch)
                return False
            case Look(deep=deep):
                self._look(state, deep)
                return False
            case Spawn(launch=launch):
                await self._spawn(launch, state.order)
                return True
            case Terminate(target=target):
                self._terminate(target, state)
                return False
            case KillEveryone():
                if self.live is not None:
                    self._mark_stopping(self.live, state)
                    self.live.kill_everyone()
                return False
            case Ask(deadline=deadline):
                if self.live is not None:
                    self._scraper.ask(self.live.record.launch.served_name, deadline)
                return False
            case KeepEvidence(what=what):
                if self.live is not None:
                    self._scene.keep(what, state, self.live, self._scraper.text)
                return False
            case MarkProven():
                self._mark_proven()
                return False
            case KeepBaseline(card=card, used=used):
                self._looks.memory.learn(card, used)
                return False
            case Forget():
                await self._forget()
                return True
            case Settle():
                self._journal.settle(action)
                return True
            case _:
                assert_never(action)

    def tell_record(self, order: Order, backend: Backend | None) -> None:
        """Have the launch record say what the backend stands in for, if it is what `order` wants.

        The next supervisor goes by the record where the database did not take it, or is lost.
        """
        live, told = self.live, stands_in_for(order)
        if live is None or backend is None or live.record.stands_in_for == told or unwanted(order, backend) is not None:
            return
        live.mark_standing_in(told)

    def close(self) -> None:
        """What was begun beside the loop tells nobody any more."""
        self._scene.close()
        self.trials.close()
        self.setups.close()

    def ours(self) -> frozenset[int]:
        """Pids of our backend, read afresh, and of a trial of its card; from any thread. Raises OSError."""
        live = self.live
        return self.trials.pids if live is None else self.trials.pids.union(live.members())

    def _look(self, state: State, deep: bool) -> None:
        launch = self.live.record.launch if self.live is not None else state.order.wanted
        if launch is not None and deep:
            self.trials.begin(launch, self._environment(launch, None), state)
        elif launch is not None:
            pause = BLOCKED_PAUSE if state.phase is Phase.BLOCKED else 0.0
            self._looks.look(launch, self.ours, pause)

    def _take_locks(self, launch: Launch) -> bool:
        before = self.locks.held
        try:
            self._name(self.locks.try_take(launch.locks))
        except BlockedError as error:
            self._named, self.lock_holders, self.lock_fault = ("", 0.0), (), error.message
            return False
        self.lock_fault = None
        if self.lock_holders:
            return False
        self.locks.release(keep=launch.locks)
        if self.locks.held != before:
            self.locked_at = self._clock.monotonic()
        return True

    def _name(self, taken: str | None) -> None:
        """Who has the lock that is taken: found anew now and then, for the lock itself is tried at every turn."""
        now = self._clock.monotonic()
        if taken is None:
            self._named, self.lock_holders = ("", 0.0), ()
        elif taken != self._named[0] or now - self._named[1] >= NAMED_AGAIN:
            self._named, self.lock_holders = (taken, now), name_holders(taken)

    async def _spawn(self, launch: Launch, order: Order) -> None:
        """The record first: a crash between the two must lose nothing."""
        launch_id = f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(self._clock.wall()))}-{secrets.token_hex(2)}"
        enclosure = await on_a_thread(cgroup.choose, self._paths.instance, launch_id, os.environ)
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
            stands_in_for=stands_in_for(order),
            fresh_caches=order.fresh_caches and not order.committed,
        )
        try:
            record.write(str(self._paths.record), entry)
        except OSError as error:
            self.trouble = f"the launch record cannot be written: {error}"
            self.live = self._watched(entry, adopted=False)
            self.live.was_not_spawned(self.trouble, error.errno)
            return
        self._checkpoints.reach(Point.SPAWN_RECORDED)
        self.live = self._watched(entry, adopted=False)
        try:
            key = spawn_key(launch)
            child = self._start(self.live, key)
            self._checkpoints.reach(Point.SPAWN_SPAWNED)
            self.live.started(child)
        except NotHereError as error:
            # Not for good: a key that is being replaced is there again in a moment.
            self.live.was_not_spawned(f"no API key: {error}")
            return
        except OSError as error:
            self.live.was_not_spawned(str(error), error.errno)
            return
        self.trouble = None
        await self._scraper.attend(launch_id, launch, key)
        backend_log.prune(str(self._paths.log_dir))

    def _watched(self, entry: LaunchRecord, *, adopted: bool) -> LiveBackend:
        return LiveBackend(
            entry,
            str(self._paths.record),
            adopted=adopted,
            wake=self._wake,
            monotonic=self._clock.monotonic,
            checkpoints=self._checkpoints,
        )

    def _start(self, live: LiveBackend, key: str | None) -> "subprocess.Popen[bytes]":
        """The keeper, in the enclosure, with the locks' descriptors and everything into the log. Raises OSError."""
        entry = live.record
        own = [name for name, _ in entry.launch.environment]
        cgroup_path = cgroup.enter(entry.enclosure)
        keeper = spawn.keeper_command(entry.launch_id, entry.status_path, entry.launch.argv, cgroup_path)
        return spawn.spawn(
            cgroup.wrap(entry.enclosure, keeper),
            live.belongings.make(self._environment(entry.launch, key), own),
            str(self._paths.state_dir),
            entry.log_path,
            self.locks.descriptors(),
        )

    def _environment(self, launch: Launch, key: str | None) -> dict[str, str]:
        """The backend's environment; the API key goes there, never into argv, where every user could read it."""
        variables = environment_of(os.environ, self.setups.made(launch), launch)
        if key is not None:
            variables["VLLM_API_KEY"] = key
        return variables

    def _terminate(self, target: Target, state: State) -> None:
        if self.live is None:
            return
        self._mark_stopping(self.live, state)
        match target:
            case Target.MAIN:
                self.live.terminate_main()
            case Target.EVERYONE:
                self.live.terminate_everyone()
            case _:
                assert_never(target)

    def _mark_stopping(self, live: LiveBackend, state: State) -> None:
        """The next supervisor must not take an end that was asked for to be a failure."""
        if state.failure is None and not live.record.stopping:
            live.mark_stopping()

    def _mark_proven(self) -> None:
        live = self.live
        if live is None or live.record.proven:
            return
        self._journal.loaded(live.record.launch.profile, self._clock.monotonic() - live.record.spawned_monotonic)
        live.read_progress()
        live.mark_proven(self._clock.wall())
        self.tell_served(live)

    async def _forget(self) -> None:
        """Last of all it is forgotten here: what cannot be removed is still to be seen, and tried again."""
        await self._scraper.leave()
        if self.live is not None:
            self.live.forget()
        self.live = None


def stands_in_for(order: Order) -> StandsInFor | None:
    """What a launch for `order` has to say of itself in its record."""
    if order.stand_in is None:
        return None
    return StandsInFor(order.id, order.profile or "", order.stand_in.because)
