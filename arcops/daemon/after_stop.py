"""What the unit runs when the supervisor's process has ended (ExecStopPost=): say why, and sweep what nobody else will.

After a crash, and after an abort by the watchdog, systemd starts the next supervisor, which adopts the backend: then it
is left alone. After a stop no supervisor comes back, and what is left of the launch is ended here: the supervisor was
killed before it was done, or hung. Whether one comes back is systemd's own word where it can be had: its pending job.

The limit on starts is the one case that nobody can see from here, for systemd counts only afterwards. The backend is
left alone then as well: it serves, its keeper has the lock, the unit says `failed`, and whoever starts it again (or
ends the scope) is a person who has looked.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from arcops.config.paths import Paths
from arcops.core.enclosure import EnclosureKind
from arcops.core.quantity import Known, Reading
from arcops.core.world import ProcessId
from arcops.daemon.handover import KEPT, STOPPED, ended_how
from arcops.machine import cgroup, keeper_status, launch_folder, process, record, spawn, systemd
from arcops.machine.record import LaunchRecord
from arcops.machine.store import Store, StoredEvent, StoreError

GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL: vLLM removes its shared memory within two, and has had its time to drain."""
KILLED_WITHIN = 10.0
"""Seconds that processes are given to go after SIGKILL; longer is a hang in the driver."""
_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How the supervisor's process ended, in systemd's words (systemd.exec(5))."""

    result: str
    """$SERVICE_RESULT: success, exit-code, signal, core-dump, watchdog, timeout, ..."""
    code: str
    """$EXIT_CODE: exited, killed or dumped; empty where there was no process."""
    status: str
    """$EXIT_STATUS: the exit code, or the signal's name."""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Ended":
        return cls(env.get("SERVICE_RESULT", "unknown"), env.get("EXIT_CODE", ""), env.get("EXIT_STATUS", ""))

    def __str__(self) -> str:
        how = f"{self.code} {self.status}".strip()
        return f"result {self.result}" + (f" ({how})" if how else "")


def comes_back(job: Reading[str | None], ended: Ended, told: str | None) -> bool:
    """Whether the backend is for a supervisor that follows. `told`: how this one was told to end, None if not.

    A stop is a stop, whatever was to be kept: systemd stops the backend's scope after its unit.
    """
    if isinstance(job, Known) and job.value is not None:
        return job.value != "stop"
    if told == KEPT:
        return True
    if isinstance(job, Known) and ended.result != "success":
        return True
    return told != STOPPED


def after_stop(paths: Paths, unit: str, env: Mapping[str, str]) -> None:
    """Write down how the supervisor ended, and end what is left of its launch if no other one follows."""
    ended = Ended.of(env)
    told = ended_how(paths.keeper_dir)
    follows = comes_back(systemd.job_of(unit, env), ended, told)
    found = record.read(str(paths.record), process.boot_id())
    launch = found if isinstance(found, LaunchRecord) else None
    if launch is None:
        fate = ""
    elif follows:
        fate = f"; launch {launch.launch_id} is left to the next supervisor"
    else:
        fate = f"; {Sweep(launch, paths).run()}"
    _write_down(paths, f"{unit} ended: {ended}{fate}", launch)


class Sweep:
    """Ends every process of one launch, in order if they let it."""

    def __init__(self, launch: LaunchRecord, paths: Paths) -> None:
        self._launch = launch
        self._paths = paths
        self._keeper, self._main = named(launch)
        self._sid = None if self._keeper is None else self._keeper.pid

    def run(self) -> str:
        """SIGTERM, then SIGKILL; what came of it, in words."""
        what = f"launch {self._launch.launch_id}"
        try:
            count = len(self._left())
            if count == 0:
                self._forget()
                return f"nothing was left of {what}"
            self._terminate()
            if not self._gone_within(GRACE, lambda: None):
                self._gone_within(KILLED_WITHIN, self._kill)
            left = self._left()
        except OSError as error:
            return f"{what} could not be swept: {error.strerror}"
        if left:
            return f"{what} could not be swept: process {', '.join(map(str, left))} outlived SIGKILL"
        self._forget()
        return f"{what} was left behind, and its {count} processes were ended"

    def _left(self) -> tuple[int, ...]:
        """Living processes of the launch, its keeper included. Raises OSError."""
        if self._launch.enclosure.kind is EnclosureKind.SESSION and self._sid is None:
            return ()
        inside = set(cgroup.members(self._launch.enclosure, self._sid))
        if self._keeper is not None and process.alive(self._keeper):
            inside.add(self._keeper.pid)
        return tuple(sorted(inside))

    def _terminate(self) -> None:
        """The main process takes its children down; where it has gone already they are told themselves."""
        if self._main is not None and process.signal(self._main, signal.SIGTERM):
            return
        for pid in self._left():
            one = process.identify(pid)
            if one is not None and one != self._keeper:
                process.signal(one, signal.SIGTERM)

    def _kill(self) -> None:
        cgroup.kill(self._launch.enclosure, self._sid)

    def _gone_within(self, seconds: float, again: Callable[[], None]) -> bool:
        """Wait until none is left, and do `again` at each look."""
        deadline = time.monotonic() + seconds
        while self._left():
            if time.monotonic() > deadline:
                return False
            again()
            time.sleep(_LOOK_EVERY)
        return True

    def _forget(self) -> None:
        with suppress(OSError):
            cgroup.remove(self._launch.enclosure)
        with suppress(OSError):
            launch_folder.remove(launch_folder.of(self._launch.status_path))
        with suppress(FileNotFoundError):
            os.unlink(self._launch.status_path)
        record.remove(str(self._paths.record))


def named(launch: LaunchRecord) -> tuple[ProcessId | None, ProcessId | None]:
    """Keeper and main process. A supervisor that died in the middle of a start may not have learned them."""
    keeper, main = launch.keeper, launch.main
    status = keeper_status.read(launch.status_path)
    if status is not None and status.launch == launch.launch_id:
        keeper, main = status.keeper, status.main or main
    if keeper is None:
        keeper = next(iter(process.find_script(spawn.KEEPER, launch.launch_id)), None)
    return keeper, main


def _write_down(paths: Paths, reason: str, launch: LaunchRecord | None) -> None:
    """Into the history, and for the journal; a disk that takes nothing must not spoil the end."""
    sys.stderr.write(f"{reason}\n")
    if not os.path.exists(paths.database):  # also where its directory may not be looked into
        return
    try:
        store = Store.open(str(paths.database))
        try:
            with store.patiently():
                last = store.last_events(1)
                store.add_event(
                    StoredEvent(
                        id=0,
                        at=time.time(),
                        kind="unit",
                        phase=last[0].phase if last else "stopped",
                        profile=None if launch is None else launch.launch.profile,
                        launch_id=None if launch is None else launch.launch_id,
                        reason=reason,
                    )
                )
        finally:
            store.close()
    except StoreError as error:
        sys.stderr.write(f"that could not be written down: {error.reason}\n")
