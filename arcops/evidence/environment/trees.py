"""Folders of code: which files in them are loaded, and one digest over those. Bounded; no folder is read twice."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from arcops.core.evidence.work import digest

MOST_FILES: Final = 100_000
"""Of code, in one tree; torch has 15,000."""
DEEPEST: Final = 40
_CODE = re.compile(r".*\.(?:py|pyd|so(?:\.\d{1,6}){0,4}|json|jinja|spv|cubin|hsaco|cl)", re.DOTALL)
"""Modules and libraries; and what packages load beside them: tuned settings, templates, compiled kernels."""
_ASIDE = frozenset({"__pycache__", "node_modules", "build"})


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder's code."""

    digest: str | None
    """None where there is none, or it cannot be read as a whole."""
    files: int
    problem: str = ""


def is_code(name: str) -> bool:
    """Whether a file of this name is loaded by whoever uses the package."""
    return _CODE.fullmatch(name) is not None


def code_in(top: str, *, links: bool = False) -> Iterator[str]:
    """Every file of code below a folder, by its path relative to it; a link to a folder as `name/`, unless `links` are
    to be followed. At most `MOST_FILES` and one. What cannot be listed is left out."""
    seen: set[tuple[int, int]] = set()
    found = 0
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(os.path.join(top, folder)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            path = f"{folder}{entry.name}"
            is_folder = _is_folder(entry)
            if is_folder and entry.is_symlink() and not links:
                yield f"{path}/"
            elif is_folder:
                if depth < DEEPEST and _wanted(entry, seen):
                    waiting.append((f"{path}/", depth + 1))
                continue
            elif is_code(entry.name):
                yield path
            else:
                continue
            found += 1
            if found > MOST_FILES:
                return


def tree_of(top: str, hash_of: Callable[[str], str]) -> Tree:
    """One digest over all code below a folder, wherever the folder is. `hash_of` raises OSError."""
    lines: list[str] = []
    problems: list[str] = []
    for path in code_in(top, links=True):
        try:
            lines.append(f"{path} {hash_of(os.path.join(top, path))}")
        except OSError as error:
            problems.append(f"{path} cannot be read: {error.strerror}")
            lines.append(f"{path} ?")
    if len(lines) > MOST_FILES:
        return Tree(None, len(lines), f"{top} has more than {MOST_FILES:,} files of code: it was not read")
    if not lines:
        return Tree(None, 0)
    return Tree(
        digest("\n".join(sorted(lines)).encode("utf-8", "surrogateescape")), len(lines), "; ".join(problems[:3])
    )


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _wanted(entry: "os.DirEntry[str]", seen: set[tuple[int, int]]) -> bool:
    """Not what is compiled or hidden, no environment within, and nothing twice (links may lead in rings)."""
    if entry.name in _ASIDE or entry.name.startswith(".") or os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
        return False
    try:
        found = entry.stat()
    except OSError:
        return False
    key = (found.st_dev, found.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True
