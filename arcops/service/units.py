"""The text of the units: from `units/`, with the place of this arcops' own programs put in. Pure but for reading those.

`units/` is the one source: where it has `%h/.local/bin/arcopsd` (the system's: `/usr/local/bin/arcopsd`), a unit gets
the absolute path of the arcopsd that belongs to this very arcops, and a first line says who wrote the file.
"""

import difflib
import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import arcops
from arcops.config.paths import DEFAULT_INSTANCE
from arcops.core.errors import ArcopsError

MARKER = "# Written by `arcops service install`"
"""How the first line of a unit of ours begins: only such a file is ever removed."""
_FIRST_LINE = f"{MARKER}, and removed by `arcops service uninstall`. Change it with a drop-in: systemctl --user edit."
_FIRST_LINE_SYSTEM = f"{MARKER} --system. Change it with a drop-in: systemctl edit."
_PROGRAM = re.compile(r"(?:%h/\.local|/usr/local)/bin/(arcopsd?)\b")
_UNIT_TAKES = re.compile(r"[\w ./@+:,=~%-]+")
"""What a path may have in a unit file: systemd gives quotes, dollars and backslashes a meaning of their own."""

SYSTEM_FILE = "arcops-system@.service"
"""The variant for the system's manager; %i is the user."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One service of systemd's, for one instance of arcops."""

    name: str
    """`arcops.service`, `arcops@left.service`."""
    file: str
    """The file that it comes from: `arcops.service`, `arcops@.service`."""

    @classmethod
    def of(cls, instance: str) -> "Unit":
        if instance == DEFAULT_INSTANCE:
            return cls("arcops.service", "arcops.service")
        return cls(f"arcops@{instance}.service", "arcops@.service")

    @classmethod
    def of_system(cls, user: str) -> "Unit":
        """The system's variant, for a user. Which instance it runs is said by its environment."""
        return cls(SYSTEM_FILE.replace("@", f"@{user}"), SYSTEM_FILE)

    @property
    def system(self) -> bool:
        """It is the system manager's, and root's to change."""
        return self.file == SYSTEM_FILE

    def command(self, verb: str) -> str:
        """What a person types to start, stop or restart it, or to see its log (`logs`)."""
        if not self.system:
            return f"arcops service {verb}"
        return f"sudo journalctl --unit={self.name}" if verb == "logs" else f"sudo systemctl {verb} {self.name}"


def programs() -> Path:
    """The directory of this arcops' own `arcops` and `arcopsd`. Raises ArcopsError where they are not installed."""
    places = [
        os.path.dirname(sys.executable),
        sysconfig.get_path("scripts"),
        os.path.dirname(os.path.abspath(sys.argv[0])),
    ]
    for place in dict.fromkeys(places):
        if all(os.access(os.path.join(place, name), os.X_OK) for name in ("arcops", "arcopsd")):
            return Path(place)
    raise ArcopsError(
        f"there is no arcopsd beside this arcops (looked in {', '.join(dict.fromkeys(places))})",
        hint="install arcops (pipx install, or pip install in an environment of its own), and use that one",
    )


def shipped() -> Path:
    """The units that came with arcops: inside an installed package, or beside it in a source checkout."""
    package = Path(arcops.__file__).resolve().parent
    inside = package / "data" / "units"
    return inside if inside.is_dir() else package.parent / "units"


def wanted(file: str, directory: Path) -> str:
    """The text that the unit file `file` is to have, for programs in `directory`. Raises ArcopsError."""
    try:
        source = (shipped() / file).read_text(encoding="utf-8")
    except OSError as error:
        raise ArcopsError(f"the unit {file} did not come with this arcops: {error.strerror}") from error
    return render(source, directory, _FIRST_LINE_SYSTEM if file == SYSTEM_FILE else _FIRST_LINE)


def render(source: str, directory: Path, first_line: str = _FIRST_LINE) -> str:
    """`source` with the programs of `directory`. Raises ArcopsError for a directory that no unit can name."""
    place = str(directory)
    if not _UNIT_TAKES.fullmatch(place):
        raise ArcopsError(f"a unit cannot name programs in {place!r}", hint="install arcops in a plainer directory")
    # `%` begins a specifier of systemd's, and a space ends a word unless it is escaped.
    escaped = place.replace("%", "%%").replace(" ", "\\x20")
    return f"{first_line}\n{_PROGRAM.sub(lambda found: f'{escaped}/{found[1]}', source)}"


def is_ours(text: str) -> bool:
    """Whether `arcops service install` wrote it."""
    return text.startswith(MARKER)


def difference(path: Path, now: str, then: str) -> str:
    """A unified diff from what stands in the file to what is to stand there."""
    lines = difflib.unified_diff(
        now.splitlines(), then.splitlines(), f"{path} (as it is)", f"{path} (as this arcops writes it)", lineterm=""
    )
    return "\n".join(lines)
