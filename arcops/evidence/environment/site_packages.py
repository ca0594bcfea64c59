"""One site-packages: whose its files are, and which are nobody's."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from arcops.core.evidence.environment import ChangedFile, Departure
from arcops.evidence.environment.trees import code_in, tree_of
from arcops.machine.hashes import Hashes
from arcops.machine.wheels import Record

_MODULE = re.compile(r".*\.(?:py|pth|so(?:\.\d{1,6}){0,4})", re.DOTALL)
_METADATA = (".dist-info", ".egg-info")


@dataclass(slots=True)
class Site:
    """What the RECORDs of a folder's distributions say of it, as they are read one by one."""

    folder: str
    owned: set[str] = field(default_factory=set[str])
    """Paths that a RECORD names."""
    owners: dict[str, int] = field(default_factory=dict[str, int])
    """Folder (relative, `""` aside) -> the number of the distribution that brought files into it; the first one's."""
    unrecorded: set[str] = field(default_factory=set[str])
    """Names at the top that belong to distributions without a RECORD."""

    def take_up(self, number: int, record: Record) -> None:
        """These files are the distribution's of this number."""
        for named in record.files:
            self.owned.add(named.path)
            folder = os.path.dirname(named.path)
            while folder and not folder.startswith(("..", "/")) and folder not in self.owners:
                self.owners[folder] = number
                folder = os.path.dirname(folder)

    def owner_of(self, path: str) -> int:
        """The number of the distribution whose folder an added file is in: of the nearest one above it."""
        folder: str = os.path.dirname(path.rstrip("/"))
        while folder not in self.owners:
            folder = os.path.dirname(folder)
        return self.owners[folder]

    def added(self) -> Iterator[str]:
        """Code within packages' folders that no RECORD names."""
        tops = sorted(top for top in self.owners if "/" not in top)
        for top in tops:
            if top.endswith(_METADATA):
                # vLLM finds its plugins by these, whoever wrote them.
                path = f"{top}/entry_points.txt"
                if path not in self.owned and os.path.exists(os.path.join(self.folder, path)):
                    yield path
                continue
            for path in code_in(os.path.join(self.folder, top)):
                if f"{top}/{path}" not in self.owned:
                    yield f"{top}/{path}"

    def loose(self, hashes: Hashes) -> tuple[list[ChangedFile], list[str]]:
        """What lies at the top and belongs to nothing; and what of it could not be read, in words."""
        found: list[ChangedFile] = []
        problems: list[str] = []
        try:
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            return [], [f"{self.folder} cannot be listed: {error.strerror}"]
        for name in names:
            if name in self.owned or name in self.owners or name in self.unrecorded or name.startswith("."):
                continue
            path = os.path.join(self.folder, name)
            if not os.path.isdir(path):
                if _MODULE.fullmatch(name):
                    found.append(as_it_is(self.folder, name, hashes))
            elif name != "__pycache__" and not name.endswith(_METADATA):
                tree = tree_of(path, hashes.of)
                problems += [f"{name}: {tree.problem}"] if tree.problem else []
                found += [ChangedFile(f"{name}/", Departure.ADDED, tree.digest)] if tree.files else []
        return found, problems


def as_it_is(folder: str, path: str, hashes: Hashes) -> ChangedFile:
    """A file (or, with `/` at its end, a folder) that nothing speaks of."""
    whole = os.path.join(folder, path)
    try:
        found = tree_of(whole, hashes.of).digest if path.endswith("/") else f"sha256:{hashes.of(whole)}"
    except OSError as error:
        return ChangedFile(path, Departure.UNREADABLE, None, error.strerror or "")
    return ChangedFile(path, Departure.ADDED, found)
