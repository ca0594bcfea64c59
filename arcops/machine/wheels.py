"""What installers leave beside packages: RECORD, METADATA, direct_url.json. Read as text that may be anything.

Sources: the packaging specifications "Recording installed projects", "Core metadata" and "Direct URL data structure".
"""

import base64
import binascii
import csv
import errno
import io
import json
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote

LARGEST_RECORD: Final = 64 << 20
"""Bytes; torch's has one and a half million."""
MOST_FILES: Final = 500_000
"""Lines of one RECORD that are looked at; torch has 16,000."""
LARGEST_METADATA: Final = 4 << 20
LARGEST_ORIGIN: Final = 64 << 10
LARGEST_NAMES: Final = 256 << 10
LONGEST_PATH: Final = 4096
MOST_DISTRIBUTIONS: Final = 5_000
"""In one folder."""
ALGORITHMS: Final = {"sha256": 32, "sha384": 48, "sha512": 64, "sha224": 28, "sha1": 20, "md5": 16}
"""That a RECORD may name, with the bytes of a digest. The last three are for old ones: they tell what was installed."""
_HEADER = re.compile(r"(Name|Version):[ \t]*(\S.{0,200}?)[ \t]*\r?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a RECORD names."""

    path: str
    """Relative to the site-packages, normalised; `../../../bin/x` and `/etc/x` are outside of it."""
    algorithm: str | None
    """None: no hash is given (RECORD itself, what was compiled)."""
    digest: str | None
    """In hexadecimal."""
    size: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """What a RECORD says."""

    files: tuple[Named, ...]
    strange: int = 0
    """Lines that say nothing to be understood."""
    cut: bool = False
    """It is longer than any real one, and was read only so far."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution's metadata."""

    folder: str
    """The site-packages."""
    info: str
    """The name of its folder (or file) of metadata there."""
    name: str
    version: str
    installer: str | None
    """What put it there, as it says itself: `pip`, `uv`, `conda`, `debian`."""
    origin: str | None
    """From where, where that is no index: see `origin_of`."""
    editable: str | None
    """The folder that it is used from, where it is installed as editable."""
    tops: tuple[str, ...]
    """Names of its modules at the top (top_level.txt); empty where it does not say."""
    has_record: bool
    problem: str = ""
    """Why its name or version is not known, in words."""


def distributions_in(folder: str) -> tuple[Installed, ...]:
    """Every distribution with metadata in one site-packages, by name. Raises OSError where it cannot be listed."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    found = (_installed(folder, name) for name in names[:MOST_DISTRIBUTIONS])
    return tuple(sorted(found, key=lambda one: (one.name.lower(), one.info)))


def record_of(one: Installed) -> Record:
    """The files of a distribution by its RECORD. Raises OSError where it cannot be read."""
    path = os.path.join(one.folder, one.info, "RECORD")
    return parse(_text(path, LARGEST_RECORD), one.folder, whole=os.stat(path).st_size <= LARGEST_RECORD)


def parse(text: str, folder: str, *, whole: bool = True) -> Record:
    """The files that the text of a RECORD names: `path,algorithm=digest,size`, as CSV. It is of a site-packages."""
    files: dict[str, Named] = {}
    strange, cut = 0, not whole
    rows = csv.reader(io.StringIO(text.replace("\0", "\ufffd")))
    while True:
        try:
            row = next(rows, None)
        except csv.Error:
            strange += 1
            continue
        if row is None:
            break
        if len(files) >= MOST_FILES:
            cut = True
            break
        if not row:
            continue
        named = _named(row, folder)
        if named is None:
            strange += 1
        else:
            files.setdefault(named.path, named)
    return Record(tuple(files.values()), strange, cut)


def origin_of(text: str) -> tuple[str | None, str | None]:
    """From direct_url.json: where from in words without credentials, and the folder of an editable installation."""
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        return "direct_url.json is no JSON", None
    if not isinstance(data, dict):
        return "direct_url.json is no table", None
    table = cast("dict[str, object]", data)
    url = table.get("url")
    if not isinstance(url, str):
        return "direct_url.json names no URL", None
    words = re.sub(r"(?<=://)[^/@\s]+@", "", url)[:1000]
    vcs, folder = table.get("vcs_info"), table.get("dir_info")
    if isinstance(vcs, dict):
        commit = cast("dict[str, object]", vcs).get("commit_id")
        return f"{words} at {str(commit)[:64]}", None
    if isinstance(folder, dict) and cast("dict[str, object]", folder).get("editable") is True:
        place = unquote(url.removeprefix("file://"))
        return f"{words} (editable)", place if url.startswith("file:///") else None
    return words, None


def _named(row: list[str], folder: str) -> Named | None:
    path = row[0]
    if not path or len(path) > LONGEST_PATH or "\ufffd" in path:
        return None
    path = posixpath.normpath(path.replace("\\", "/"))
    # Some distributions' own packages name their files by absolute paths.
    path = path.removeprefix(f"{folder.rstrip('/')}/")
    size = int(row[2]) if len(row) > 2 and row[2].isdecimal() and row[2].isascii() and len(row[2]) < 19 else None
    algorithm, _, encoded = (row[1] if len(row) > 1 else "").partition("=")
    if not encoded:
        return Named(path, None, None, size)
    algorithm = algorithm.lower()
    digest = _decoded(encoded)
    if algorithm not in ALGORITHMS or digest is None or len(digest) != ALGORITHMS[algorithm]:
        return None
    return Named(path, algorithm, digest.hex(), size)


def _decoded(encoded: str) -> bytes | None:
    """urlsafe base64 without its padding, as the specification wants it; with it as some write it."""
    text = encoded.rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _installed(folder: str, info: str) -> Installed:
    path = os.path.join(folder, info)
    name, version = _by_name(info)
    problem, origin, editable = "", None, None
    inside = path if os.path.isdir(path) else None
    metadata = path if inside is None else os.path.join(path, "METADATA" if info.endswith(".dist-info") else "PKG-INFO")
    try:
        said = dict(_headers(_text(metadata, LARGEST_METADATA)))
        name, version = said.get("name", name), said.get("version", version)
        if "version" not in said:
            problem = f"the metadata in {info} names no version"
    except OSError as error:
        problem = f"the metadata in {info} cannot be read: {error.strerror}"
    if inside is not None and os.path.exists(os.path.join(inside, "direct_url.json")):
        try:
            origin, editable = origin_of(_text(os.path.join(inside, "direct_url.json"), LARGEST_ORIGIN))
        except OSError as error:
            origin = f"direct_url.json cannot be read: {error.strerror}"
    return Installed(
        folder=folder,
        info=info,
        name=name,
        version=version,
        installer=_first_line(inside, "INSTALLER"),
        origin=origin,
        editable=editable,
        tops=_tops(inside),
        has_record=inside is not None and os.path.isfile(os.path.join(inside, "RECORD")),
        problem=problem,
    )


def _by_name(info: str) -> tuple[str, str]:
    name, _, version = info.rpartition(".")[0].partition("-")
    return name, version.partition("-py")[0] or "unknown"


def _headers(text: str) -> Iterator[tuple[str, str]]:
    """The first Name and Version; the body after the first empty line may hold anything."""
    seen: set[str] = set()
    for line in text.split("\n"):
        if not line.strip():
            return
        found = _HEADER.match(line)
        if found is not None and (key := found.group(1).lower()) not in seen:
            seen.add(key)
            yield key, found.group(2)


def _first_line(inside: str | None, name: str) -> str | None:
    if inside is None:
        return None
    try:
        return _text(os.path.join(inside, name), LARGEST_NAMES).strip().partition("\n")[0][:100] or None
    except OSError:
        return None


def _tops(inside: str | None) -> tuple[str, ...]:
    if inside is None:
        return ()
    try:
        lines = _text(os.path.join(inside, "top_level.txt"), LARGEST_NAMES).splitlines()
    except OSError:
        return ()
    return tuple(line.strip() for line in lines if re.fullmatch(r"\w{1,200}", line.strip()))


def _text(path: str, most: int) -> str:
    """The first `most` bytes of a regular file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        # No more than there is: a buffer is made as large as is asked for.
        return file.read(min(found.st_size, most)).decode("utf-8", "replace")
