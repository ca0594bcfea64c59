"""What one launch has on the file system beside its record and its log: made, kept count of, and removed with it."""

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial

import structlog

from arcops.daemon.aside import begin
from arcops.machine import launch_folder
from arcops.machine.record import LaunchRecord

NOTED_EVERY = 60.0
"""Seconds between two looks at the shared memory of a launch that serves."""
NOTED_EVERY_AT_THE_START = 2.0
"""The same of one that is coming up, which makes it then. A look reads some thousand lines of /proc."""
_NOTED_WITHIN = 0.5
"""Seconds that the removal waits for a look that is under way."""
_REMOVED_WITHIN = 1.0
"""Seconds that the end of a launch waits for the removal: a disk may hang, and the loop must not hang with it."""

_log = structlog.get_logger(__name__)


class Belongings:
    """The folders of a launch, and the names of its shared memory."""

    def __init__(self, launch: LaunchRecord, monotonic: Callable[[], float]) -> None:
        self._launch_id = launch.launch_id
        self._folder = launch_folder.of(launch.status_path)
        self._fresh_caches = launch.fresh_caches
        self._since = launch.spawned_at
        self._monotonic = monotonic
        self._noting: threading.Thread | None = None
        self._noted_at = float("-inf")
        self._unnoted: str | None = None
        self._lost: str | None = None

    @property
    def trouble(self) -> str | None:
        """What will be left behind, in words."""
        return self._lost or self._unnoted

    def make(self, environment: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
        """The backend's environment with the folders made for it. `own`: the variables that its profile sets.

        Raises OSError where it is to have fresh compile caches and cannot.
        """
        try:
            made = launch_folder.make(self._folder, environment, own, fresh_caches=self._fresh_caches)
        except OSError as error:
            raise OSError(f"no fresh compile caches: {error.strerror}: {error.filename}") from error
        self._lost = made.lost
        if made.elsewhere is not None:
            _log.info("sockets", launch=self._launch_id, elsewhere=made.elsewhere)
        return {**environment, **made.variables}

    def note(self, pids: tuple[int, ...], every: float = 0.0) -> None:
        """Look at the shared memory of these processes, unless that was done less than `every` seconds ago.

        Where one is under way, the next call makes up for it.
        On a thread that nobody waits for: /proc may hang with a process that hangs in the kernel.
        """
        now = self._monotonic()
        if not pids or now - self._noted_at < every:
            return
        if self._noting is not None and self._noting.is_alive():
            self._noted_at = float("-inf")
            return
        self._noted_at = now
        try:
            self._noting = begin(partial(self._note, pids), "belongings")
        except TimeoutError as error:
            self._unnoted = f"the shared memory of launch {self._launch_id} cannot be noted: {error}"

    def _note(self, pids: tuple[int, ...]) -> None:
        try:
            launch_folder.note_shared(self._folder, pids, self._since)
        except FileNotFoundError:
            # No folder: made by an arcops that knew none, or gone with the launch.
            self._unnoted = None
        except OSError as error:
            self._unnoted = f"the shared memory of launch {self._launch_id} cannot be noted: {error.strerror}"
        else:
            self._unnoted = None

    def remove(self) -> None:
        """No process of the launch is left. What is not removed by then is so later, or by whoever sweeps."""
        try:
            begin(self._remove, "belongings").join(_REMOVED_WITHIN)
        except TimeoutError as error:
            _log.warning("belongings", launch=self._launch_id, left=str(error))

    def _remove(self) -> None:
        if self._noting is not None:
            self._noting.join(_NOTED_WITHIN)
        try:
            launch_folder.remove(self._folder)
        except OSError as error:
            _log.warning("belongings", launch=self._launch_id, left=str(error))
