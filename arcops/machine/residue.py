"""What launches leave on a machine: cgroups and scopes named after them, and their keepers. Only looked for."""

import os
import re
from dataclasses import dataclass

from arcops.machine import proc

_OURS = "arcops"
_SCOPE = re.compile(r"arcops-.+\.scope")
_KEEPER = "/keeper.py"


@dataclass(frozen=True, slots=True)
class Group:
    """A cgroup that a launch had."""

    path: str
    name: str
    """`INSTANCE-LAUNCH`, as both kinds of enclosure have it in their names."""
    scope: bool
    """systemd made it, and collects it when it is empty."""
    pids: tuple[int, ...]
    removable: bool
    """By this user."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """A living keeper of this user."""

    pid: int
    launch_id: str


def groups(uid: int, root_proc: str = proc.ROOT) -> tuple[Group, ...]:
    """Every cgroup of a launch of a user, of any instance, by path; empty where cgroup2 is not mounted.

    The kernel shows everybody all cgroups, and every user has an instance `main`: a user's own belong to that user.
    """
    mount = proc.cgroup_mount(root_proc)
    if mount is None:
        return ()
    found: list[Group] = []
    for folder, below, _ in os.walk(mount):
        here = os.path.basename(folder)
        if here == _OURS and folder != mount:
            found += [_group(os.path.join(folder, name), name, scope=False) for name in below]
            below.clear()
            continue
        for name in list(below):
            if _SCOPE.fullmatch(name):
                path = os.path.join(folder, name)
                found.append(_group(path, name.removeprefix(f"{_OURS}-").removesuffix(".scope"), scope=True))
                below.remove(name)
    return tuple(sorted((one for one in found if _belongs_to(one.path, uid)), key=lambda one: one.path))


def keepers(uid: int, root_proc: str = proc.ROOT) -> tuple[Keeper, ...]:
    """The living keepers of a user, by pid. Raises OSError without /proc."""
    found = (_keeper(pid, uid, root_proc) for pid in sorted(proc.pids(root_proc)))
    return tuple(one for one in found if one is not None)


def _belongs_to(path: str, uid: int) -> bool:
    try:
        return os.stat(path).st_uid == uid
    except OSError:  # it has gone
        return False


def _group(path: str, name: str, *, scope: bool) -> Group:
    pids: set[int] = set()
    for folder, _, _ in os.walk(path):
        try:
            with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                pids.update(int(line) for line in file.read().split())
        except OSError:  # it is going, or a threaded group, whose processes its parent shows
            continue
    mine = not scope and os.access(os.path.dirname(path), os.W_OK)
    return Group(path, name, scope, tuple(sorted(pids)), removable=mine)


def _keeper(pid: int, uid: int, root: str) -> Keeper | None:
    folder = f"{root}/{pid}"
    try:
        if os.stat(folder).st_uid != uid:
            return None
        with open(f"{folder}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    at = next((number for number, word in enumerate(words) if word.endswith(_KEEPER)), None)
    if at is None or at + 2 >= len(words) or "--" not in words[at:]:
        return None
    return Keeper(pid, words[at + 1])
