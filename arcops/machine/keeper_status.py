"""Reads what a keeper wrote down about its backend."""

import errno
from dataclasses import dataclass

import msgspec

from arcops.core.world import ProcessId

_LARGEST = 64 * 1024
"""Bytes; a real status has some 300."""


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """The keeper's own words, in the field names of its file."""

    launch: str
    boot_id: str
    keeper: ProcessId
    main: ProcessId | None
    """None only when the main process could not even be forked."""
    exit: int | None = None
    """Exit code of the main process, negative for a signal, 127 when it could not be executed; None while it runs."""
    error: str | None = None
    """Why the main process could not be started."""
    errno: int | None = None
    """The kernel's number for `error`; None where nothing went wrong, or an older keeper does not say."""


def read(path: str) -> KeeperStatus | None:
    """The status, or None when there is none that can be read: missing, torn or garbage.

    Raises OSError where this process is out of descriptors or memory: that is no word about the file.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST)
        return msgspec.json.decode(content, type=KeeperStatus)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
