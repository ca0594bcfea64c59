"""Does what `--fix` may do. Nothing here ends a process, and nothing is removed while a supervisor runs."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from arcops.core.errors import ArcopsError, BusyError
from arcops.doctor.finding import Fix, FixKind
from arcops.doctor.sight import Sight
from arcops.machine import launch_folder
from arcops.machine.lock import DaemonLock
from arcops.service import control


def apply(sight: Sight, fixes: Iterable[Fix]) -> Generator[tuple[Fix, ArcopsError | None]]:
    """Do them one after the other; with each, what went wrong. Those that are alike are done once."""
    for fix in dict.fromkeys(fixes):
        try:
            _apply(sight, fix)
        except ArcopsError as error:
            yield fix, error
        else:
            yield fix, None


def _apply(sight: Sight, fix: Fix) -> None:
    match fix.kind:
        case FixKind.ENABLE_LINGERING:
            control.enable_lingering(sight.env)
        case FixKind.DAEMON_RELOAD:
            control.reload(sight.env)
        case FixKind.REMOVE_FILE:
            with _nobody_supervises(sight):
                _remove(fix.target, os.unlink)
        case FixKind.REMOVE_CGROUP:
            # The kernel itself refuses one that has a process in it, but not one that a launch was just given.
            with _nobody_supervises(sight):
                _remove(fix.target, os.rmdir)
        case FixKind.REMOVE_FOLDER:
            with _nobody_supervises(sight):
                _remove(fix.target, launch_folder.remove)


@contextmanager
def _nobody_supervises(sight: Sight) -> Generator[None]:
    """While the supervisor's own lock is held here, none can start. Raises BusyError where one runs."""
    lock = DaemonLock()
    try:
        lock.acquire(str(sight.paths.daemon_lock))
    except BusyError as error:
        raise ArcopsError("nothing is removed while a supervisor runs", hint=error.message) from error
    try:
        yield
    finally:
        lock.release()


def _remove(path: str, how: Callable[[str], None]) -> None:
    try:
        how(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ArcopsError(f"cannot remove {path}: {error.strerror}") from error
