"""Where the processes of a launch live: a systemd scope, a cgroup2 directory, or a session; found and ended as a whole.

`sid` is the session of the launch, which is the pid of its keeper. Only the session kind needs it: there, members are
the session and the keeper's descendants, because the keeper is the parent that strays come to.
"""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.machine import proc

_SYSTEMD_ANSWERS_WITHIN = 2.0
"""Seconds. A user manager answers in some 10 ms; one that does not must not hold up a launch."""
_OURS = "arcops"
IN_UNIT = "ARCOPS_BACKEND_IN_UNIT"
"""Set by a system unit that is delegated to its user (Delegate=yes) and whose end spares other processes
(KillMode=process): then the backend lives in a cgroup below it. A scope is the user's manager's, which may end before.
"""
_ROUNDS = 5
"""Rounds of signals in one call: what forks between the list and the signal is met by the next."""
_SCOPES: dict[str, Path] = {}
"""Where a scope was once found. Unit names are never used twice: when the directory has gone, so has the scope."""
_GONE: set[str] = set()
"""Scopes that were not found after the process that was to make them had ended: they will not come any more."""


def choose(instance: str, launch_id: str, env: Mapping[str, str]) -> Enclosure:
    """The best enclosure that can be had here; `env` is the environment that would reach the user's systemd.

    A scope wherever a user manager answers: it lies outside the supervisor's own unit, so it outlives that unit. Else a
    cgroup of our own, unless it would have to lie in the supervisor's own service, which is emptied when that stops.
    A service that says (`IN_UNIT`) that it is not comes before all else.
    """
    name = f"{_OURS}-{instance}-{launch_id}"
    if env.get(IN_UNIT):
        unit = _own_unit_directory()
        if unit is not None and os.access(unit / "cgroup.procs", os.W_OK):
            return Enclosure(EnclosureKind.CGROUP, str(unit / _OURS / f"{instance}-{launch_id}"))
    if _user_manager_answers(env):
        return Enclosure(EnclosureKind.SCOPE, f"{name}.scope")
    for place in _places():
        if os.access(place, os.W_OK | os.X_OK) and os.access(place / "cgroup.procs", os.W_OK):
            return Enclosure(EnclosureKind.CGROUP, str(place / _OURS / f"{instance}-{launch_id}"))
    return Enclosure(EnclosureKind.SESSION, name)


def wrap(enclosure: Enclosure, argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that starts `argv` inside; for a scope systemd-run, which executes it in place (same pid).

    A scope of a supervisor that is a unit is ordered before it, and so stopped after it: at a logout or a shutdown
    systemd would end both at once, and cut what the supervisor lets drain. It is part of that unit: a stop of the unit
    when no supervisor runs (between a crash and the next start, or after the last of them) ends the backend too. A
    restart, systemd's own after a crash or an operator's, spares it: a scope can be started only once, so that
    systemd hands no restart on to it.
    """
    if enclosure.kind is not EnclosureKind.SCOPE:
        return tuple(argv)
    unit = _own_unit_directory()
    order = () if unit is None else (f"--property=Before={unit.name}", f"--property=PartOf={unit.name}")
    scope = ("systemd-run", "--user", "--scope", "--collect", "--quiet", f"--unit={enclosure.name}", *order)
    return (*scope, "--", *argv)


def enter(enclosure: Enclosure) -> Path | None:
    """Make the cgroup and return the directory that the keeper is to join; None for the other kinds. Raises OSError."""
    if enclosure.kind is not EnclosureKind.CGROUP:
        return None
    directory = Path(enclosure.name)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def path(enclosure: Enclosure, member: int | None = None) -> Path | None:
    """The cgroup directory, or None when there is none: not yet, not any more, or never (a session).

    `member`, a process of the launch, spares the search for a scope. A scope that was just spawned is not there until
    systemd has made it: until then its keeper is what there is. Raises OSError when cgroup2 is not mounted.
    """
    match enclosure.kind:
        case EnclosureKind.SCOPE:
            return _scope_path(enclosure.name, member)
        case EnclosureKind.CGROUP:
            directory = Path(enclosure.name)
            return directory if directory.is_dir() else None
        case EnclosureKind.SESSION:
            return None
        case _:
            assert_never(enclosure.kind)


def members(enclosure: Enclosure, sid: int | None = None) -> tuple[int, ...]:
    """Every living process inside, by pid, the keeper included; empty when the enclosure is gone.

    Raises OSError when it cannot be known.
    """
    if enclosure.kind is EnclosureKind.SESSION:
        return _session_members(sid)
    directory = path(enclosure, sid)
    if directory is None:
        return ()
    found: set[int] = set()
    for each in _tree(directory):
        text = _read(each / "cgroup.procs")
        # A 0 is a process outside our pid namespace: it has no name here, but it is not nobody.
        found.update(int(line) for line in text.split())
    return tuple(sorted(found))


def kill(enclosure: Enclosure, sid: int | None = None) -> None:
    """SIGKILL for everything inside. Returns at once: whether they are gone is for `members` to say.

    The keeper `sid` is spared as long as it has company: it holds the locks until the last of its children has ended,
    even one that hangs in the driver, and then goes by itself. Call again until all are gone: a fork may slip through,
    and a keeper that is left alone and does not go is killed by a later call.
    Raises OSError when it cannot be done; an enclosure that is gone is done.
    """
    inside = members(enclosure, sid)
    # A 0 is outside our pid namespace: it cannot be signalled by number (0 would be our own group).
    if sid not in inside or inside == (sid,) or 0 in inside:
        _kill_all(enclosure, sid, inside)
        return
    for _ in range(_ROUNDS):
        others = [pid for pid in members(enclosure, sid) if pid != sid]
        if not others:
            return
        _kill_each(others)


def remove(enclosure: Enclosure) -> None:
    """Remove an empty cgroup of ours; systemd collects scopes itself. Raises OSError (EBUSY) while it has members."""
    if enclosure.kind is not EnclosureKind.CGROUP:
        return
    for each in reversed(list(_tree(Path(enclosure.name)))):
        try:
            each.rmdir()
        except FileNotFoundError:
            continue


def _user_manager_answers(env: Mapping[str, str]) -> bool:
    runtime = env.get("XDG_RUNTIME_DIR")
    if not runtime:
        return False
    sockets = (Path(runtime, "systemd", "private"), Path(runtime, "bus"))
    if not any(one.exists() for one in sockets):
        return False
    try:
        subprocess.run(
            ["systemctl", "--user", "--no-pager", "show", "--property=Version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SYSTEMD_ANSWERS_WITHIN,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _mount() -> Path | None:
    found = proc.cgroup_mount()
    return None if found is None else Path(found)


def _kill_all(enclosure: Enclosure, sid: int | None, inside: tuple[int, ...]) -> None:
    directory = path(enclosure, sid)
    if directory is None:
        _kill_each(inside)
        return
    try:
        with open(directory / "cgroup.kill", "r+", encoding="ascii") as file:
            file.write("1")
    except FileNotFoundError:
        # Kernels before 5.14 have no cgroup.kill.
        for _ in range(_ROUNDS):
            _kill_each(members(enclosure, sid))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def _own_group(pid: int | str = "self") -> str | None:
    """The cgroup2 path of a process below the mount, `/` first."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    except OSError:
        return None


def _own_unit_directory() -> Path | None:
    """The cgroup of the service that this process runs in; None outside of any, and in a part of one."""
    mount, own = _mount(), _own_group()
    if mount is None or own is None or not own.endswith(".service"):
        return None
    return mount / own.lstrip("/")


def _places() -> Iterator[Path]:
    """Directories under which a cgroup of ours lives as long as it has to: the top, or a group that is delegated."""
    mount = _mount()
    if mount is None:
        return
    yield mount
    own = _own_group()
    if own is not None and own != "/" and not any(part.endswith(".service") for part in Path(own).parts):
        yield mount / own.lstrip("/")


def _scope_path(unit: str, member: int | None) -> Path | None:
    known = _SCOPES.get(unit)
    if known is not None:
        return known if known.is_dir() else None
    if unit in _GONE:
        return None
    mount = _mount()
    if mount is None:
        raise OSError(errno.ENODEV, "cgroup2 is not mounted")
    group = None if member is None else _own_group(member)
    if group is None or not group.endswith(f"/{unit}"):
        # The kernel's tree is asked, not systemd: it knows as well after the user manager has gone.
        directory = next((each for each in _tree(mount) if each.name == unit), None)
    else:
        directory = mount / group.lstrip("/")
    if directory is None or not directory.is_dir():
        if member is not None and group is None:
            _GONE.add(unit)
        return None
    _SCOPES[unit] = directory
    return directory


def _tree(directory: Path) -> Iterator[Path]:
    """The directory and those below it, parents first; empty when it is gone."""
    for folder, _, _ in os.walk(directory):
        yield Path(folder)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError as error:
        # Gone between listing and reading: the kernel says ENOENT before the open and ENODEV after it.
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return ""
        raise


def _session_members(sid: int | None) -> tuple[int, ...]:
    if sid is None:
        raise OSError(errno.ESRCH, "the session of the launch is not known yet")
    every = tuple(proc.every_stat())
    inside = proc.below(sid, every) | {one.pid for one in every if one.session == sid}
    return tuple(sorted(one.pid for one in every if one.pid in inside and not one.ended))


def _kill_each(pids: Sequence[int]) -> None:
    for pid in pids:
        if pid <= 0:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
