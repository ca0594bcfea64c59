"""The launch record: what a new supervisor needs to go on with a backend that an earlier one started."""

import os
from dataclasses import dataclass

import msgspec

from arcops.core.enclosure import Enclosure
from arcops.core.launch import Launch
from arcops.core.world import ProcessId

SCHEMA = 1
"""Raised when an older or newer arcops would misread the fields below: a record of another schema is not believed.

`schema`, `boot_id`, `enclosure`, `keeper` and `main` stay what they are in every schema (see `_Envelope`).
"""
_LARGEST = 1024 * 1024
"""Bytes; a real record has a few thousand."""


@dataclass(frozen=True, slots=True)
class StandsInFor:
    """The launch is another profile's than the ordered one's, which has failed (`on_failure`)."""

    order_id: int
    profile: str
    """What was ordered."""
    because: str
    """Why that is given up for now, in words."""


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
    ready_at: float | None = None
    """When it was first, in seconds since the epoch; None while it has not, or where an older arcops did not say."""
    stopping: bool = False
    """Its end was asked for: an order, or the end of its supervisor."""
    stands_in_for: StandsInFor | None = None
    """What was ordered in its place; None where it is what was ordered, or where an older arcops did not say."""
    fresh_caches: bool = False
    """It has compile caches of its own, which were empty when it was launched, and go with it."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Unbelievable:
    """There is a record, but nobody can go on with it."""

    reason: str
    """Why, in words."""
    worthless: bool
    """It says nothing about this boot and nobody will ever read it: an earlier boot's, or no record at all."""
    enclosure: Enclosure | None = None
    keeper: ProcessId | None = None
    main: ProcessId | None = None
    """What could be read all the same of the processes that it speaks of."""


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

    One that cannot be read now, or not by this arcops, is not worthless: a backend may be running from it.
    Its pids are to be checked with their start times all the same: the processes may have ended since.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unbelievable(f"the launch record cannot be read: {error.strerror}", worthless=False)
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.boot_id != boot_id:
            return Unbelievable("the launch record is of an earlier boot", worthless=True)
        if envelope.schema != SCHEMA:
            reason = f"the launch record has schema {envelope.schema}, this arcops writes {SCHEMA}"
            return Unbelievable(reason, False, envelope.enclosure, envelope.keeper, envelope.main)
        return msgspec.json.decode(content, type=LaunchRecord)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # It is replaced in one step, so no crash leaves this; there is nothing in it that a later arcops could use.
        return Unbelievable(f"the launch record is torn: {error}", worthless=True)


def remove(path: str) -> None:
    """Remove the record; harmless when there is none. Raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    _sync_directory(path)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What every schema has: whether the rest can be read, and whose processes to look for where it cannot."""

    schema: int
    boot_id: str
    enclosure: Enclosure | None = None
    keeper: ProcessId | None = None
    main: ProcessId | None = None


def _sync_directory(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
