"""What goes into the archive, what does not and why, and how the archive is written."""

import contextlib
import gzip
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from arcops.core.errors import ArcopsError, ExitCode
from arcops.machine.files import Part
from arcops.report.hiding import Hider

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the archive."""

    name: str
    text: str
    note: str = ""
    """What was left out of it, in words; empty when it is whole."""


@dataclass(slots=True)
class Bundle:
    """Members and gaps, as they are found. Everything passes through the hider, the names and reasons as well."""

    hider: Hider
    members: list[Member] = field(default_factory=list[Member])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Name and reason, in words."""

    def add(self, name: str, text: str, note: str = "") -> None:
        """A member of plain text."""
        self._keep(name, self.hider.text(text), note)

    def add_json(self, name: str, value: object) -> None:
        """A member of JSON: dicts, lists, strings, numbers, booleans and None."""
        self.add(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def add_yaml(self, name: str, text: str, note: str = "") -> None:
        """A member of YAML, which need not be well-formed."""
        self._keep(name, self.hider.yaml(text), note)

    def add_part(self, name: str, part: Part) -> None:
        """A member from a file that may have been too large."""
        note = "" if part.whole else f"{len(part.content)} of {part.size} bytes"
        self.add(name, part.content.decode("utf-8", "replace"), note)

    def lacks(self, name: str, why: str) -> None:
        """Write down what could not be had."""
        self.missing[self.hider.text(name)] = self.hider.text(why)

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        """Do what adds `name`, and write down why where that is not possible."""
        try:
            work()
        except ArcopsError as error:
            self.lacks(name, error.message)
        except OSError as error:
            self.lacks(name, error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one part, the others are wanted all the more
            self.lacks(name, f"{type(error).__name__}: {error}")

    def _keep(self, name: str, text: str, note: str) -> None:
        self.members.append(Member(self.hider.text(name), text, note))

    def manifest(self, about: dict[str, object]) -> str:
        """What the archive holds, and what it does not."""
        contents = [
            {"name": member.name, "bytes": len(member.text.encode("utf-8", "replace")), "left_out": member.note}
            for member in self.members
        ]
        missing = [{"name": name, "why": why} for name, why in self.missing.items()]
        return json.dumps({**about, "contents": contents, "missing": missing}, indent=1, ensure_ascii=False) + "\n"

    def packed(self, folder: str, about: dict[str, object], at: float) -> bytes:
        """The archive, its members below `folder` and dated `at` (seconds since the epoch). Names no user."""
        buffer = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=buffer, mode="wb", mtime=at) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member in (Member(MANIFEST, self.manifest(about)), *self.members):
                content = member.text.encode("utf-8", "replace")
                info = tarfile.TarInfo(f"{folder}/{member.name}")
                info.size, info.mode, info.mtime = len(content), 0o600, at
                archive.addfile(info, io.BytesIO(content))
        return buffer.getvalue()


def write(target: Path, content: bytes, *, force: bool) -> None:
    """Write the archive, for its owner only and whole or not at all. Raises ArcopsError, also for a file that is there
    unless `force`."""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    except OSError as error:
        raise _cannot(target, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:  # mkstemp's mode is 0600
            file.write(content)
        if force:
            os.replace(temporary, target)
        else:
            _place(temporary, target)
    except OSError as error:
        raise _cannot(target, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def refuse_to_overwrite(target: Path) -> None:
    """Raise ArcopsError where something is there already: before the work is done, not after it."""
    if os.path.lexists(target):
        raise _is_there(target)


def _place(temporary: str, target: Path) -> None:
    """Give the file its name, unless somebody has taken that meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _is_there(target) from None
    except OSError:  # a file system without hard links
        refuse_to_overwrite(target)
        os.replace(temporary, target)


def _is_there(target: Path) -> ArcopsError:
    return ArcopsError(f"{target} is there already", hint="--force overwrites it", exit_code=ExitCode.USAGE)


def _cannot(target: Path, error: OSError) -> ArcopsError:
    return ArcopsError(f"cannot write {target}: {error.strerror}", hint="--to names another place")
