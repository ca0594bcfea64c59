"""The one backend that the launch record speaks of: found, watched, and its signs of life read."""

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from arcops.core.cards.incidents import Incident
from arcops.core.diagnosis import Diagnosis, Evidence, diagnose
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.phase import Phase
from arcops.core.progress import StartProgress, advance
from arcops.core.quantity import Known, Unknown
from arcops.core.world import Backend, Cause, Ending, ProcessId
from arcops.daemon.aside import begin
from arcops.daemon.belongings import NOTED_EVERY, NOTED_EVERY_AT_THE_START, Belongings
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.kernel_word import RECENT, KernelWord, Lines
from arcops.machine import backend_log, cgroup, keeper_status, kernel_log, proc, process, record, spawn
from arcops.machine.backend_log import LogFollower
from arcops.machine.record import LaunchRecord, StandsInFor

DIAGNOSED_LINES = 4000
"""Log lines that a diagnosis reads: the root cause of a start stands some hundreds of lines before the end."""

ENGINE = "VLLM::"
"""What the names (comm) of vLLM's processes that run the model begin with: `VLLM::EngineCor`, `VLLM::Worker`."""
MOST_PIDS = 4096
"""Pids that are remembered of a launch; real vLLM has four, and one that forks for ever must not fill the memory."""
NOT_EXECUTED = 127
"""The exit code of a command that could not be executed, as shells give it."""
_FOR_GOOD = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC})
_START_HINT = "is the file there, may it be executed, and is the interpreter that its first line (#!) names there?"
"""What a start that fails with one of these lacks is not there a second later either: file, permission, interpreter."""
EXIT_CODE_WITHIN = 0.5
"""Seconds that the keeper is given to write down how the main process ended; it takes some milliseconds."""


class LiveBackend:
    """One launch, from its record to the end of its last process. Reads and signals; decides nothing."""

    def __init__(
        self,
        launch: LaunchRecord,
        record_path: str,
        *,
        adopted: bool,
        wake: Callable[[], None],
        monotonic: Callable[[], float],
        checkpoints: Checkpoints = NOWHERE,
    ) -> None:
        self.record = launch
        self.adopted = adopted
        self.progress = StartProgress()
        self.belongings = Belongings(launch, monotonic)
        self._record_path = record_path
        self._wake = wake
        self._monotonic = monotonic
        self._checkpoints = checkpoints
        self._gone_at: float | None = None
        self._log = LogFollower(launch.log_path)
        self._child: subprocess.Popen[bytes] | None = None
        self._watched: dict[ProcessId, int] = {}
        self._exit_code: int | None = None
        self._unsaved: str | None = None
        self._unseen: str | None = None
        self._unlogged: str | None = None
        self._ending: Ending | None = None
        self._kernel = KernelWord(wake)
        self.ever: dict[int, None] = {}
        """Pids of the launch, those seen last at the end: the kernel names one in its log after it has gone."""
        self.seen: tuple[int, ...] = ()
        """Every process of the launch at the last look, the keeper included."""
        for one in (launch.keeper, launch.main):
            if one is not None:
                self._watch(one)

    # -- what is true -------------------------------------------------------------------------------------------------
    def look(self) -> Backend:
        """The facts, read afresh."""
        self._learn()
        if self._unsaved is not None:
            self._save()
        main, keeper = self.record.main, self.record.keeper
        keeper_alive = keeper is not None and process.alive(keeper)
        self._see()
        self.belongings.note(self.seen, NOTED_EVERY if self.record.proven else NOTED_EVERY_AT_THE_START)
        self._unlogged = self._look_at_log()
        return Backend(
            launch_id=self.record.launch_id,
            launch=self.record.launch,
            main=main,
            main_alive=main is not None and self._exit_code is None and self._lives(main, keeper_alive),
            exit_code=self._exit_code,
            processes=tuple(pid for pid in self.seen if keeper is None or pid != keeper.pid),
            keeper_alive=keeper_alive,
            spawned_at=self.record.spawned_monotonic,
            proven=self.record.proven,
            stopping=self.record.stopping,
            engines=self._engines() if self.record.proven else None,
        )

    def _engines(self) -> int | None:
        """How many of its processes run the model: vLLM names them so. None where they could not be seen."""
        if self._unseen is not None:
            return None
        seen = (proc.stat(pid) for pid in self.seen)
        return sum(one is not None and not one.ended and one.command.startswith(ENGINE) for one in seen)

    @property
    def trouble(self) -> str | None:
        """What could not be read or written down about it, in words."""
        return self._unsaved or self._unseen or self._unlogged or self.belongings.trouble

    def _look_at_log(self) -> str | None:
        if self.record.main is None or backend_log.size(self.record.log_path) is not None:
            return None
        return f"the log of launch {self.record.launch_id} was removed: what it says is lost until it is started anew"

    def _see(self) -> None:
        """Take the members; where they cannot be read those of the last look count: unknown is not gone."""
        try:
            self.seen = self.members()
        except OSError as error:
            self._unseen = f"the processes of launch {self.record.launch_id} cannot be read: {error.strerror}"
        else:
            self._unseen = None
            if not self.ever.keys() >= set(self.seen):
                every = dict.fromkeys((*(pid for pid in self.ever if pid not in self.seen), *self.seen))
                self.ever = dict.fromkeys(tuple(every)[-MOST_PIDS:])

    def _lives(self, main: ProcessId, keeper_alive: bool) -> bool:
        """Whether it lives, or has ended a moment ago and the keeper is about to say with which exit code."""
        if process.alive(main):
            return True
        self._gone_at = self._monotonic() if self._gone_at is None else self._gone_at
        if not keeper_alive or self._monotonic() - self._gone_at > EXIT_CODE_WITHIN:
            return False
        asyncio.get_running_loop().call_later(0.01, self._wake)
        return True

    def members(self) -> tuple[int, ...]:
        """Every process of the launch, the keeper included, read afresh. Raises OSError."""
        keeper = self.record.keeper
        if self.record.enclosure.kind is EnclosureKind.SESSION and keeper is None:
            return ()
        return cgroup.members(self.record.enclosure, keeper.pid if keeper is not None else None)

    def _learn(self) -> None:
        """Take up what the keeper has written down, and watch for the end of what it named."""
        starter = None if self._child is None else self._child.poll()
        if starter is not None:
            self._child = None
        if self._exit_code is None:
            status = keeper_status.read(self.record.status_path)
            if status is not None and status.launch == self.record.launch_id:
                self._exit_code = status.exit
                self._name(status.keeper, status.main)
                if status.error is not None:
                    self._ending = self._not_started(status.error, status.errno)
            elif starter is not None:
                # Read after its end, so nothing is to come any more: systemd-run was refused, or the disk is full.
                words = "".join(backend_log.tail(self.record.log_path, 1))
                self.was_not_spawned(f"its starter ended with exit code {starter} ({words or 'it said nothing'})")
        if self.record.keeper is None:
            found = process.find_script(spawn.KEEPER, self.record.launch_id)
            if found:
                self._name(found[0], None)

    def _name(self, keeper: ProcessId, main: ProcessId | None) -> None:
        if self.record.keeper == keeper and (main is None or self.record.main == main):
            return
        self.record = replace(self.record, keeper=keeper, main=main or self.record.main)
        self._checkpoints.reach(Point.KEEPER_NAMED if main is None else Point.MAIN_NAMED)
        self._save()
        self._checkpoints.reach(Point.KEEPER_SAVED if main is None else Point.MAIN_SAVED)
        for one in (keeper, main):
            if one is not None:
                self._watch(one)

    def _watch(self, one: ProcessId) -> None:
        """Wake the loop the moment this process ends: a pidfd becomes readable then."""
        if one in self._watched:
            return
        try:
            descriptor = process.open_pidfd(one)
        except OSError:
            # Out of descriptors: its end is seen by the next look, only later.
            return
        if descriptor is None:
            return
        self._watched[one] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._ended, one)

    def _ended(self, one: ProcessId) -> None:
        self._unwatch(one)
        self._wake()

    def _unwatch(self, one: ProcessId) -> None:
        descriptor = self._watched.pop(one, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    # -- signs of life ------------------------------------------------------------------------------------------------
    def read_progress(self) -> None:
        """Follow the log of a start."""
        for line in self._log.read_new():
            self.progress = advance(self.progress, line)

    def log_bytes(self) -> int:
        return backend_log.size(self.record.log_path) or 0

    def cpu_seconds(self) -> float:
        """Processor time of the processes of the last look."""
        return process.cpu_seconds(self.seen)

    def ending(self, phase: Phase, incidents: tuple[Incident, ...] = ()) -> Ending | None:
        """Why the main process ended, judged once from exit code, phase, log and the kernel's word; None while that is
        waited for. `incidents` are what befell its cards since the launch."""
        if self._ending is None:
            diagnosis = self._diagnose(phase, incidents)
            self._ending = None if diagnosis is None else _as_ending(self.record.launch_id, diagnosis)
        return self._ending

    def _diagnose(self, phase: Phase, incidents: tuple[Incident, ...]) -> Diagnosis | None:
        launch, now = self.record.launch, self._monotonic()
        kernel: Lines | None = None
        if launch.cards or self._exit_code is None or self._exit_code <= 0:
            # Else it ended by itself and with words of its own, and no card was in play.
            kernel = self._kernel.since(self.record.spawned_monotonic, now)
            if kernel is None:
                return None
        main = () if self.record.main is None else (self.record.main.pid,)
        evidence = Evidence(
            exit_code=self._exit_code,
            phase=phase,
            log=backend_log.tail(self.record.log_path, DIAGNOSED_LINES),
            profile_speculates=launch.speculates,
            kernel=kernel.value if isinstance(kernel, Known) else None,
            kernel_unread=kernel.reason if isinstance(kernel, Unknown) else "",
            kernel_recent=kernel_log.moment(now - RECENT, now),
            pids=frozenset((*self.ever, *main)) if kernel_log.names_our_pids() else frozenset(),
            cgroup=_cgroup_name(self.record.enclosure),
            cards=launch.cards,
            incidents=incidents,
        )
        return diagnose(evidence)

    # -- what is done to it -------------------------------------------------------------------------------------------
    def started(self, child: subprocess.Popen[bytes]) -> None:
        """The keeper was spawned as a child of ours: it has to be reaped."""
        self._child = child
        keeper = process.identify(child.pid)
        if keeper is not None:
            self._name(keeper, None)

    def was_not_spawned(self, reason: str, error_number: int | None = None) -> None:
        """There is no process, and there will be none: `reason` in words, with the kernel's number if it has one."""
        self._exit_code = NOT_EXECUTED
        self._ending = self._not_started(reason, error_number)

    def _not_started(self, reason: str, error_number: int | None) -> Ending:
        """Judged from the error itself: no log says more."""
        return Ending(
            launch_id=self.record.launch_id,
            cause=Cause.SPAWN_FAILED,
            summary=f"{self.record.launch.profile} could not be started: {reason}",
            hint=_START_HINT if error_number in _FOR_GOOD else "see `arcops logs`",
            deterministic=error_number in _FOR_GOOD,
        )

    def mark_proven(self, ready_at: float) -> None:
        """It has served since `ready_at` (seconds since the epoch): the next supervisor asks for no first answer."""
        self.record = replace(self.record, proven=True, ready_at=ready_at)
        self.belongings.note(self.seen)
        self._save()

    def mark_stopping(self) -> None:
        """Its end is asked for, and no failure, whoever sees it."""
        self.record = replace(self.record, stopping=True)
        self.belongings.note(self.seen)
        self._save()

    def mark_standing_in(self, instead: StandsInFor | None) -> None:
        """What it stands in for is another thing than it was launched with."""
        self.record = replace(self.record, stands_in_for=instead)
        self._save()

    def _save(self) -> None:
        """Write the launch record. Where the disk does not take it, the next look tries again."""
        try:
            record.write(self._record_path, self.record)
        except OSError as error:
            self._unsaved = f"the launch record cannot be written: {error.strerror}"
        else:
            self._unsaved = None

    def keep_files(self) -> str | None:
        """Write the launch record again where somebody has removed it; what was done, in words. Raises OSError.

        The log cannot be put back: the backend has the old file open, and writes there as long as it lives.
        """
        if os.path.exists(self._record_path) or self._exit_code == NOT_EXECUTED:
            return None
        record.write(self._record_path, self.record)
        return f"the launch record of {self.record.launch_id} was removed by somebody, and is written anew"

    def terminate_main(self) -> None:
        if self.record.main is not None:
            process.signal(self.record.main, signal.SIGTERM)

    def terminate_everyone(self) -> None:
        """SIGTERM to each process but the keeper, which ignores it and goes last."""
        keeper = self.record.keeper
        inside = self.members()
        for pid in inside:
            one = process.identify(pid)
            if one is not None and one != keeper:
                process.signal(one, signal.SIGTERM)
        self._signal_outside(inside, signal.SIGTERM)

    def kill_everyone(self) -> None:
        """SIGKILL to all; the keeper, which has the locks, goes last and by itself. Repeat until all are gone."""
        keeper = self.record.keeper
        inside = self.members()
        cgroup.kill(self.record.enclosure, keeper.pid if keeper is not None else None)
        self._signal_outside(inside, signal.SIGKILL)

    def _signal_outside(self, inside: tuple[int, ...], number: signal.Signals) -> None:
        """A keeper that is not in its enclosure (yet) has no children: systemd-run waits for systemd, or hangs."""
        keeper = self.record.keeper
        if keeper is not None and keeper.pid not in inside:
            process.signal(keeper, number)

    def forget(self) -> None:
        """Nothing of it lives: remove what was written down about it. The log stays."""
        self._kernel.close()
        for one in tuple(self._watched):
            self._unwatch(one)
        if self._child is not None and self._child.poll() is None:
            # Gone, and to be reaped in a moment: on a thread, for the loop waits for nobody.
            with suppress(TimeoutError):  # no thread to be had: a zombie until the supervisor ends
                begin(self._child.wait, "reaper")
        with suppress(OSError):
            cgroup.remove(self.record.enclosure)
        self.belongings.remove()
        self._checkpoints.reach(Point.FORGET_CLEARED)
        with suppress(FileNotFoundError):
            os.unlink(self.record.status_path)
        self._checkpoints.reach(Point.FORGET_UNLINKED)
        record.remove(self._record_path)

    def detach(self) -> None:
        """Stop watching, leave the backend as it is."""
        self._kernel.close()
        for one in tuple(self._watched):
            self._unwatch(one)


def _cgroup_name(enclosure: Enclosure) -> str:
    """What the kernel's log calls it by, the last part of its path; empty for a session, which is none."""
    return "" if enclosure.kind is EnclosureKind.SESSION else os.path.basename(enclosure.name)


def _as_ending(launch_id: str, diagnosis: Diagnosis) -> Ending:
    return Ending(
        launch_id=launch_id,
        cause=diagnosis.cause,
        summary=diagnosis.summary,
        hint=diagnosis.hint,
        deterministic=diagnosis.deterministic,
        points_at_draft=diagnosis.points_at_draft,
        evidence=diagnosis.evidence,
        fits_context=diagnosis.fits_context,
        card_fault=diagnosis.card_fault,
    )
