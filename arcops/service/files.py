"""Unit files on the disk: read, written whole, removed. Drop-ins are the operator's, and only ever named."""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from arcops.config.paths import xdg_dir
from arcops.core.errors import ArcopsError
from arcops.service.units import Unit, is_ours

_MODE = 0o644
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A unit file as it is."""

    path: Path
    text: str | None
    """None where there is none."""
    link: str | None
    """Where it leads, if it is a link: masked, or kept somewhere else by the operator."""
    drop_ins: tuple[Path, ...]

    @property
    def masked(self) -> bool:
        return self.link == _NOWHERE

    @property
    def ours(self) -> bool:
        return self.text is not None and self.link is None and is_ours(self.text)


def directory(env: Mapping[str, str]) -> Path:
    """Where a user's own units are. Source: systemd.unit(5)."""
    return xdg_dir(env, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"


def exists(env: Mapping[str, str], unit: Unit) -> bool:
    """Whether this user has the file of a unit, and may start it."""
    path = directory(env) / unit.file
    return path.exists() and not (path.is_symlink() and os.readlink(path) == _NOWHERE)


def read(path: Path, also: str = "") -> UnitFile:
    """The file as it is now; `also` names a unit whose own drop-ins count too. Raises ArcopsError."""
    link = os.readlink(path) if path.is_symlink() else None
    drop_ins = sorted(
        found
        for name in dict.fromkeys((path.name, also or path.name))
        for found in (path.parent / f"{name}.d").glob("*.conf")
    )
    try:
        text = None if link == _NOWHERE else path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = None
    except OSError as error:
        raise ArcopsError(f"the unit file {path} cannot be read: {error.strerror}") from error
    return UnitFile(path, text, link, tuple(drop_ins))


def write(path: Path, text: str) -> None:
    """Replace the file in one step, readable for everybody as units are. Raises ArcopsError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), _MODE)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise ArcopsError(f"cannot write {path}: {error.strerror}") from error


def remove(path: Path) -> None:
    """Raises ArcopsError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ArcopsError(f"cannot remove {path}: {error.strerror}") from error


def enabled_instances(where: Path, template: str) -> tuple[str, ...]:
    """Units of a template (`arcops@.service`) that some target of this user wants at its start."""
    stem, suffix = template.split("@")
    found = {
        entry.name
        for entry in where.glob(f"*.wants/{stem}@*{suffix}")
        if stat.S_ISLNK(entry.lstat().st_mode) and entry.name != template
    }
    return tuple(sorted(found))
