"""The environments that launches ran in: a file for each, named by its digest, and never written again."""

import os
import re
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from arcops.core.errors import ArcopsError
from arcops.core.evidence.environment import Environment, digest_of

Marks: TypeAlias = tuple[tuple[str, int, int], ...]
"""Name, time and size of each file of a folder: another file, or one that was written to, changes them."""

LARGEST: Final = 64 << 20
"""Bytes of a file; a real one has a hundred thousand."""
SPARE: Final = 20
"""Files that stay though nothing names them, the newest."""
_NAME: Final = re.compile(r"[0-9a-f]{64}\.json")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def path_of(folder: Path, digest: str) -> Path:
    """Where the environment of this digest is kept. Raises ArcopsError for what is no digest."""
    if _DIGEST.fullmatch(digest) is None:
        raise ArcopsError(f"{digest[:80]!r} is no digest of an environment")
    return folder / f"{digest.removeprefix('sha256:')}.json"


def read(folder: Path, digest: str) -> Environment:
    """Raises ArcopsError where it is not there, or is not what its name says."""
    path = path_of(folder, digest)
    content = content_of(folder, digest)
    try:
        found = msgspec.json.decode(content, type=Environment)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArcopsError(f"the environment {path} cannot be read: {error}") from error
    if digest_of(found) != digest:
        raise ArcopsError(f"the environment {path} was changed after it was written")
    return found


def content_of(folder: Path, digest: str) -> bytes:
    """The file as it is, unproven. Raises ArcopsError."""
    path = path_of(folder, digest)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            # A buffer of the most that may be there would be taken from whoever has little.
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > LARGEST else file.read(size)
    except OSError as error:
        raise ArcopsError(f"the environment {path} cannot be read: {error.strerror}") from error
    if size > LARGEST:
        raise ArcopsError(f"the environment {path} is larger than any: more than {LARGEST // 2**20} MiB")
    return content


def marks(folder: Path) -> Marks:
    """What tells whether the records of a folder are others than before. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            named = [entry for entry in entries if entry.name.endswith(".json")]
            seen = [(entry.name, entry.stat(follow_symlinks=False)) for entry in named]
    except FileNotFoundError:
        return ()
    return tuple(sorted((name, status.st_mtime_ns, status.st_size) for name, status in seen))


def keep(folder: Path, environment: Environment) -> str:
    """Keep it, in one step; returns its digest. Raises OSError."""
    digest = digest_of(environment)
    path = path_of(folder, digest)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(environment))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return digest


def prune(folder: Path, named: Collection[str], spare: int = SPARE) -> None:
    """Remove what is not among the `named` digests and not among the newest `spare` of the others. Raises OSError."""
    stay = {path_of(folder, digest).name for digest in named}
    with os.scandir(folder) as entries:
        others = [entry for entry in entries if _NAME.fullmatch(entry.name) and entry.name not in stay]
    aged: list[tuple[int, str]] = []
    for entry in others:
        with suppress(FileNotFoundError):
            aged.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    for _, path in sorted(aged, reverse=True)[spare:]:
        with suppress(FileNotFoundError):
            os.unlink(path)
