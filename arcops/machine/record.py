"""The launch record: what a new supervisor needs to go on with a backend that an earlier one started."""

import os
from dataclasses import dataclass

import msgspec

from arcops.core.enclosure import Enclosure
from arcops.core.launch import Launch
from arcops.core.world import ProcessId

SCHEMA = 1
"""Raised with every change of the fields below: a record of another schema is not believed."""
_LARGEST = 1024 * 1024
"""Bytes; a real record has a few thousand."""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch of this boot. Written before the spawn, and again with every new fact."""

    launch_id: str
    boot_id: str
    instance: str
    launch: Launch
    enclosure: Enclosure
    status_path: str
    """Where the keeper writes."""
    log_path: str
    spawned_at: float
    """Seconds since the epoch."""
    spawned_monotonic: float
    """Seconds on the monotonic clock of this boot."""
    keeper: ProcessId | None = None
    main: ProcessId | None = None
    proven: bool = False
    """It has been `serving` before."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Unbelievable:
    """There is a record, but it says nothing about this boot: `reason` in words."""

    reason: str


def write(path: str, record: LaunchRecord) -> None:
    """Replace the record in one step, durably, for its owner only (it holds the environment). Raises OSError."""
    temporary = f"{path}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_directory(path)


def read(path: str, boot_id: str) -> LaunchRecord | Unbelievable | None:
    """The record, None when there is none, or why it is not believed: torn, of another boot, of another schema.

    Its pids are to be checked with their start times all the same: the processes may have ended since.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unbelievable(f"the launch record cannot be read: {error.strerror}")
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.schema != SCHEMA:
            return Unbelievable(f"the launch record has schema {envelope.schema}, this arcops writes {SCHEMA}")
        if envelope.boot_id != boot_id:
            return Unbelievable("the launch record is of an earlier boot")
        return msgspec.json.decode(content, type=LaunchRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unbelievable(f"the launch record is torn: {error}")


def remove(path: str) -> None:
    """Remove the record; harmless when there is none. Raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    _sync_directory(path)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The two fields that every schema has: they decide whether the others can be read."""

    schema: int
    boot_id: str


def _sync_directory(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
