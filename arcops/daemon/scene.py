"""Keeps what is to be seen of a backend that is doubted, or has failed: its last words, numbers, processes and stacks.

Nothing waits for it, a take-down least of all. The evidence of a hang is taken when the doubt begins, a whole
`limits.probe` before anything is done to the processes; what failed in another way has ended, or ends while it is
looked at. So a thread of its own gathers, and no reading of /proc that hangs in the kernel can hold up anything else.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import gmtime, strftime

from arcops.core.quantity import Known, Reading
from arcops.core.state import State
from arcops.daemon.aside import begin
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.machine import autopsy, backend_log
from arcops.machine.evidence import EvidenceFolder

LOG_LINES = 400
"""Lines of the log's end."""
TOLD_WITHIN = 30.0
"""Seconds after which what has been kept so far is told of; the stacks are given half of it."""
AGAIN_AFTER = 600.0
"""Seconds for which what was kept of a launch under one name stands: a doubt that comes and goes is not looked at each
time, and a failure has a name of its own."""
MOST_AT_ONCE = 3
"""Gatherings at a time: each that hangs in the kernel keeps a thread."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the loop knows of the backend at the moment, taken before the thread begins."""

    launch_id: str
    what: str
    why: str
    program: str
    log_path: str
    pids: tuple[int, ...]
    metrics: Reading[str]
    now: float


class Scene:
    """Gathers evidence into folders below one directory, and tells the journal where."""

    def __init__(self, directory: str, clock: Clock, journal: Journal) -> None:
        self._directory = directory
        self._clock = clock
        self._journal = journal
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering = 0
        self._kept: dict[str, float] = {}
        """When a folder was last begun, of the current launch."""

    def keep(self, what: str, state: State, live: LiveBackend, metrics: Reading[str]) -> None:
        """Begin, unless it was done a moment ago; an event names the folder, or says what came of it."""
        record, now = live.record, self._clock.monotonic()
        name = f"{record.launch_id}-{what}"
        if now - self._kept.get(name, float("-inf")) < AGAIN_AFTER:
            return
        self._kept = {one: at for one, at in self._kept.items() if one.startswith(record.launch_id)} | {name: now}
        subject = Subject(
            launch_id=record.launch_id,
            what=what,
            why=self._why(what, state, live),
            program=record.launch.argv[0],
            log_path=record.log_path,
            pids=live.seen,
            metrics=metrics,
            now=now,
        )
        task = asyncio.create_task(self._keep(subject, state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Tell of nothing any more: the journal ends. What a thread has kept so far stays."""
        for task in self._tasks:
            task.cancel()

    def _why(self, what: str, state: State, live: LiveBackend) -> str:
        wall, now = self._clock.wall(), self._clock.monotonic()
        lines = [
            f"what:          {what}",
            f"reason:        {state.reason}",
            f"phase:         {state.phase.value}",
            f"profile:       {live.record.launch.profile}",
            f"launch:        {live.record.launch_id}",
            f"seen:          {_utc(wall)}",
            f"spawned:       {_utc(live.record.spawned_at)}",
            f"last progress: {_utc(self._clock.to_wall(state.progress_at))} ({now - state.progress_at:.1f} s before)",
        ]
        return "\n".join(lines) + "\n"

    async def _keep(self, subject: Subject, state: State) -> None:
        folder = EvidenceFolder(self._directory, f"{subject.launch_id}-{subject.what}")
        if self._gathering >= MOST_AT_ONCE:
            self._tell(subject, state, f"no evidence of {subject.what} is kept: {MOST_AT_ONCE} gatherings hang")
            return
        faults: list[str] = []
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def finished() -> None:
            self._gathering -= 1
            done.set()

        def gather() -> None:
            try:
                _gather(subject, folder, faults)
            finally:
                with suppress(RuntimeError):  # The daemon has ended meanwhile, and nobody wants to know.
                    loop.call_soon_threadsafe(finished)

        try:
            begin(gather, "evidence")
        except TimeoutError as error:
            self._tell(subject, state, f"no evidence of {subject.what} is kept: {error}")
            return
        self._gathering += 1
        try:
            async with asyncio.timeout(TOLD_WITHIN):
                await done.wait()
        except TimeoutError:
            faults.append(f"not done after {TOLD_WITHIN:.0f} s: a reading hangs")
        lacking = f" (not all of it: {'; '.join(faults)})" if faults else ""
        self._tell(subject, state, f"evidence of {subject.what} is kept in {folder.path}{lacking}")

    def _tell(self, subject: Subject, state: State, words: str) -> None:
        self._journal.event("evidence", state, words, subject.launch_id)


def _gather(subject: Subject, folder: EvidenceFolder, faults: list[str]) -> None:
    """What cannot hang comes first."""
    try:
        folder.make()
    except OSError as error:
        faults.append(f"the folder cannot be made: {error.strerror}")
        return
    parts: tuple[tuple[str, Callable[[], str]], ...] = (
        ("why.txt", lambda: subject.why),
        ("log-tail.txt", lambda: _log_tail(subject)),
        ("metrics.txt", lambda: _metrics(subject)),
        ("processes.txt", partial(autopsy.describe_processes, subject.pids)),
        ("stacks.txt", lambda: _stacks(subject)),
    )
    for name, read in parts:
        try:
            folder.write(name, read())
        except Exception as error:  # noqa: BLE001 - one part that cannot be had must not cost the others
            faults.append(f"{name}: {error}")


def _log_tail(subject: Subject) -> str:
    lines = backend_log.tail(subject.log_path, LOG_LINES)
    return "\n".join(lines) + "\n" if lines else f"nothing can be read in {subject.log_path}\n"


def _metrics(subject: Subject) -> str:
    match subject.metrics:
        case Known(text, at):
            return f"# read {subject.now - at:.1f} s before\n{text}"
        case absent:
            return f"# there are none: {absent.reason}\n"


def _stacks(subject: Subject) -> str:
    py_spy = autopsy.find_py_spy(subject.program)
    if py_spy is None:
        return "py-spy is neither on PATH nor beside the runtime's vllm: no Python stacks\n"
    return autopsy.stacks(py_spy, subject.pids)


def _utc(wall: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(wall))
