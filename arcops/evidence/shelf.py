"""Where records are kept, and how they are found again: a file for each, written in one step and never again.

What a file looks like is `sealed`'s business.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.qualification import Verdict
from arcops.evidence.record import Record
from arcops.evidence.sealed import MOST_BYTES, Head, head_of, opened, sealed

_NAME: Final = re.compile(r"(?P<kind>[a-z-]+)-(?P<at>\d{8}T\d{6}Z)-(?P<digest>[0-9a-f]{12})\.json")
_SHORTEST: Final = 4
"""Digits of a digest's beginning that may name a record: fewer are more likely a slip."""
_WITHOUT_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What a file system says that has no hard links (FAT, some of the network's)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that was read and believed."""

    record: Record
    digest: str
    path: Path


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the shelf. Its digest was checked; its content beyond the head is checked when it is read."""

    path: Path
    digest: str | None
    """None for a file that is damaged."""
    head: Head | None
    """What a list says of it; None for a file that is damaged."""
    problem: str = ""
    """Why it is not to be believed, in words."""


def prepare(place: Path) -> None:
    """Prove before an hour of measuring that a record can be written at `place`: the folder is made, and tried.

    Raises ArcopsError, as `write` would.
    """
    folder, name = _place(place)
    if name is not None and _is_there(folder / name):
        raise _there_already(folder / name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = _temporary(folder)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(temporary)
    except OSError as error:
        raise _unwritable(folder, error) from error


def write(folder_or_file: Path, record: Record) -> Stored:
    """Keep a record, durably and in one step: whoever looks sees all of it or nothing. Nothing is ever overwritten.

    A place whose name ends in `.json` is a file (unless it is a folder); any other is a folder, and is made if need be.
    Raises ArcopsError, and leaves nothing, where it cannot be written or could not be read again.
    """
    content = sealed(record)
    folder, name = _place(folder_or_file)
    shown = str(folder / (name or ""))
    believed, digest = opened(content, shown)
    path = folder / (name or _name_of(record, digest))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(path, content)
    except FileExistsError:
        raise _there_already(path) from None
    except OSError as error:
        raise _unwritable(folder, error) from error
    return Stored(believed, digest, path)


def read(path: Path) -> Stored:
    """A record, with everything about it checked.

    Raises ArcopsError: not there, no regular file, too large, not JSON, of a newer format, edited after it was written,
    with what no arcops writes or cannot be.
    """
    record, digest = opened(_content(path), str(path))
    return Stored(record, digest, path)


def find(folder: Path, kind: str | None = None) -> tuple[Found, ...]:
    """The records in a folder, newest first; damaged ones are among them, and say what is wrong.

    Their digests are checked and their heads read, which takes milliseconds for megabytes. No folder is no records.
    Raises ArcopsError for a folder that cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ArcopsError(f"cannot read the folder of records {folder}: {error.strerror}") from error
    there = [_found(folder / name) for name in names if kind is None or _may_be(name, kind)]
    wanted = [one for one in there if kind is None or one.head is None or one.head.kind == kind]
    return tuple(sorted(wanted, key=lambda one: (_age_key(one), one.path.name), reverse=True))


def named(folder: Path, word: str) -> Path:
    """The file that a person means: by a path, by a name in `folder`, or by the beginning of a digest.

    Raises ArcopsError where it is none, or several.
    """
    path = Path(word)
    if "/" in word or os.path.isfile(path):
        return path
    for name in (word, f"{word}.json"):
        if os.path.isfile(folder / name):
            return folder / name
    start = word.removeprefix("sha256:").lower()
    if len(start) < _SHORTEST or re.fullmatch(r"[0-9a-f]+", start) is None:
        raise _no_such(folder, word)
    fitting = [one for one in find(folder) if one.digest is not None and one.digest[len("sha256:") :].startswith(start)]
    if not fitting:
        raise _no_such(folder, word)
    if len({one.digest for one in fitting}) > 1:
        names = ", ".join(one.path.name for one in fitting)
        raise ArcopsError(
            f"several records begin with {start}: {names}", hint="give more of its digits", exit_code=ExitCode.USAGE
        )
    return fitting[0].path


def latest_qualified(folder: Path, profile: str) -> Stored | None:
    """The newest record in which the profile passed its gates, in an environment where it has not failed since.

    Raises ArcopsError for a folder that cannot be read. Damaged records count for nothing.
    """
    failed: set[str] = set()
    for stored in _qualifications(folder, profile):
        given = stored.record.qualification
        if given is None or given.environment_digest in failed:
            continue
        if given.qualified:
            return stored
        if any(gate.verdict is Verdict.FAILED for gate in given.gates):
            failed.add(given.environment_digest)
    return None


def qualified_in(folder: Path, profile: str, environment_digest: str) -> Stored | None:
    """The record in which the profile passed its gates in this very environment, unless it has failed there since.

    Raises ArcopsError for a folder that cannot be read. Damaged records count for nothing.
    """
    for stored in _qualifications(folder, profile):
        given = stored.record.qualification
        if given is None or given.environment_digest != environment_digest:
            continue
        if given.qualified:
            return stored
        if any(gate.verdict is Verdict.FAILED for gate in given.gates):
            return None
    return None


def _qualifications(folder: Path, profile: str) -> Iterator[Stored]:
    """Of a profile, newest first."""
    for found in find(folder, "qualification"):
        if found.head is not None and found.head.qualified_profile == profile:
            with suppress(ArcopsError):
                yield read(found.path)


def _found(path: Path) -> Found:
    try:
        head, digest = head_of(_content(path), str(path))
    except ArcopsError as error:
        return Found(path, None, None, error.message)
    return Found(path, digest, head)


def _content(path: Path) -> bytes:
    """Of a regular file, not of a link: what a link leads to may be another file tomorrow. Raises ArcopsError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ArcopsError(f"{path} is no regular file, and no record")
            content = b"" if status.st_size > MOST_BYTES else file.read(status.st_size + 1)
    except OSError as error:
        raise ArcopsError(_unreadable(path, error), hint="`arcops bench list` shows the records") from error
    if status.st_size > MOST_BYTES:
        raise ArcopsError(f"{path} is larger than any record: more than {MOST_BYTES // 2**20} MiB")
    return content


def _unreadable(path: Path, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"there is no record {path}"
        case errno.ELOOP:
            return f"{path} is a symbolic link, and no record: name the file that it leads to"
        case errno.EISDIR:
            return f"{path} is a folder, and no record"
        case _:
            return f"cannot read the record {path}: {error.strerror}"


def _place(folder_or_file: Path) -> tuple[Path, str | None]:
    """A folder, and the name in it where one is given."""
    if folder_or_file.suffix == ".json" and not os.path.isdir(folder_or_file):
        return folder_or_file.parent, folder_or_file.name
    return folder_or_file, None


def _is_there(path: Path) -> bool:
    """Raises ArcopsError for a name that nothing can have here: it would be found out only when all is measured."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise ArcopsError(f"no record can be written as {path}: {error}") from error
    return True


def _name_of(record: Record, digest: str) -> str:
    at = datetime.fromtimestamp(record.began, UTC)
    return f"{record.kind}-{at:%Y%m%dT%H%M%SZ}-{digest.removeprefix('sha256:')[:12]}.json"


def _may_be(name: str, kind: str) -> bool:
    """Whether a file of this name may be of the kind: one with a name of its own may be of any."""
    told = _NAME.fullmatch(name)
    return told is None or told["kind"] == kind


def _age_key(found: Found) -> float:
    """When it began, in seconds since the epoch: by its head, else by its name, else 0."""
    if found.head is not None:
        return found.head.began
    told = _NAME.fullmatch(found.path.name)
    if told is None:
        return 0.0
    try:
        return datetime.strptime(told["at"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _temporary(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.tmp"


def _put(path: Path, content: bytes) -> None:
    """Raises OSError; FileExistsError where there is something of that name."""
    temporary = _temporary(path.parent)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
        _give_name(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _give_name(temporary: Path, path: Path) -> None:
    """A link, and no renaming, which would replace what is there."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        # The name is taken first, which only one can, and then replaced by what is whole.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400))
        os.replace(temporary, path)


def _there_already(path: Path) -> ArcopsError:
    return ArcopsError(f"there is a file {path} already, and a record never replaces one", hint="give another name")


def _unwritable(folder: Path, error: OSError) -> ArcopsError:
    hint = "make room there, or name another place" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return ArcopsError(f"cannot write a record into {folder}: {error.strerror}", hint=hint)


def _no_such(folder: Path, word: str) -> ArcopsError:
    return ArcopsError(
        f"there is no record {word!r}: neither a file, nor one in {folder}, nor the beginning of a digest of one",
        hint="`arcops bench list` shows the records",
    )
