"""What is left of earlier launches?"""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arcops.doctor.finding import Fix, FixKind, Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import launch_folder, lock, residue
from arcops.machine.process import describe
from arcops.machine.record import LaunchRecord, Unbelievable
from arcops.machine.residue import Group, Keeper

_LAUNCH = re.compile(r"[0-9]{14}-[0-9a-f]+")
"""A launch id: without this, what the instance `left-2` left would be `left`'s."""
MOST_EMPTY = 8
"""Empty cgroups that are named; of the others only the number is told."""
_ADOPTS = "(a new supervisor takes it up, or clears it away)"


@dataclass(frozen=True, slots=True)
class Facts:
    instance: str
    daemon: bool
    """A supervisor of this instance runs: whatever its launch has is no residue."""
    record: LaunchRecord | Unbelievable | None
    record_path: str
    groups: tuple[Group, ...]
    """Of this instance, by the name."""
    keepers: tuple[Keeper, ...]
    """Of this instance, by their status' place or by the record."""
    dead_socket: str | None
    """The control socket, on which nobody listens."""
    start: str = "arcops service start"
    """How a new supervisor is started."""
    folders: tuple[str, ...] = ()
    """Of launches of this instance, with sockets and temporary files; those that a process has a socket in left out."""


def probe(sight: Sight) -> Facts:
    instance = sight.paths.instance
    daemon = bool(lock.holders_of(str(sight.paths.daemon_lock)))
    groups = tuple(
        one
        for one in residue.groups(sight.uid, sight.roots.proc)
        if one.name.startswith(f"{instance}-") and _LAUNCH.fullmatch(one.name.removeprefix(f"{instance}-"))
    )
    own = set(_keeper_pids(groups))
    status_files = f"{sight.paths.keeper_dir}/".encode()
    keepers = tuple(
        one
        for one in residue.keepers(sight.uid, sight.roots.proc)
        if one.pid in own or _names(sight.roots.proc, one.pid, status_files)
    )
    place, dead = str(sight.paths.record), _dead(sight.paths.socket)
    every = launch_folder.left(str(sight.paths.keeper_dir))
    folders = tuple(one for one in every if not launch_folder.in_use(one))
    return Facts(instance, daemon, sight.launch(), place, groups, keepers, dead, sight.unit.command("start"), folders)


def judge(facts: Facts) -> Outcome:
    current = facts.record.launch_id if isinstance(facts.record, LaunchRecord) else None
    groups = [one for one in facts.groups if current is None or one.name != f"{facts.instance}-{current}"]
    keepers = [one for one in facts.keepers if one.launch_id != current]
    strays = sorted({pid for one in groups for pid in one.pids} | {one.pid for one in keepers})
    # With a supervisor they are nobody's trouble, and one of them may be for the launch that it is about to make.
    empty = [one for one in groups if not one.pids and not facts.daemon]
    fixes = [Fix(kind=FixKind.REMOVE_CGROUP, target=one.path) for one in empty if one.removable]
    evidence = _named(groups)
    evidence += [f"keeper of launch {one.launch_id}: pid {one.pid}" for one in keepers]
    if strays:
        summary = f"processes of an earlier launch live: {'; '.join(map(_described, strays))}"
        remedy = f"arcopsd clears them before its next launch; else look, then: kill {' '.join(map(str, strays))}"
        return Outcome(Verdict.PROBLEM, summary, tuple(evidence), remedy, tuple(fixes))
    if not facts.daemon:
        left = _without_daemon(facts, current, evidence, fixes)
        if left is not None:
            return left
    if empty:
        return Outcome(
            Verdict.WARNING, "empty cgroups of earlier launches are left", tuple(evidence), _fix(fixes), tuple(fixes)
        )
    return ok("nothing of an earlier launch is left", *([f"launch {current} is the supervisor's"] if current else []))


def _named(groups: Sequence[Group]) -> list[str]:
    """A line for each cgroup with processes in it, and for the first of the empty ones."""
    empty = [one for one in groups if not one.pids]
    shown = [*(one for one in groups if one.pids), *empty[:MOST_EMPTY]]
    lines = [f"{one.path}: {_count(one.pids)}" for one in shown]
    rest = len(empty) - MOST_EMPTY
    return [*lines, f"and {rest:,} more that are empty"] if rest > 0 else lines


def _without_daemon(facts: Facts, current: str | None, evidence: list[str], fixes: list[Fix]) -> Outcome | None:
    """What a supervisor would have, and none is there."""
    if current is not None:
        inside = sorted({pid for one in facts.groups for pid in one.pids} | {one.pid for one in facts.keepers})
        seen = (f"{facts.record_path} speaks of launch {current}", *evidence, *map(_described, inside))
        what = f"launch {current} runs on without a supervisor" if inside else f"the record of launch {current} is left"
        return Outcome(Verdict.WARNING, what, seen, f"{facts.start}   {_ADOPTS}", tuple(fixes))
    found: list[str] = []
    if isinstance(facts.record, Unbelievable):
        evidence.append(f"{facts.record_path}: {facts.record.reason}")
        found.append("a launch record that nobody believes")
        if facts.record.worthless:
            fixes.append(Fix(kind=FixKind.REMOVE_FILE, target=facts.record_path))
    if facts.dead_socket is not None:
        evidence.append(f"{facts.dead_socket}: nobody listens")
        found.append("a control socket without a supervisor")
        fixes.append(Fix(kind=FixKind.REMOVE_FILE, target=facts.dead_socket))
    if facts.folders:
        # With a supervisor they are nobody's trouble: it sweeps them at its start, and now and then.
        evidence += [f"{one}: of a launch that is gone" for one in facts.folders]
        found.append(f"sockets and temporary files of {_launches(len(facts.folders))}")
        fixes += [Fix(kind=FixKind.REMOVE_FOLDER, target=one) for one in facts.folders]
    if not found:
        return None
    return Outcome(Verdict.WARNING, f"left over: {' and '.join(found)}", tuple(evidence), _fix(fixes), tuple(fixes))


def _fix(fixes: list[Fix]) -> str:
    return "arcops doctor --fix residue" if fixes else ""


def _keeper_pids(groups: tuple[Group, ...]) -> list[int]:
    return [pid for one in groups for pid in one.pids]


def _names(root: str, pid: int, place: bytes) -> bool:
    """The keeper's status file lies with this instance."""
    try:
        return any(word.startswith(place) for word in Path(root, str(pid), "cmdline").read_bytes().split(b"\0"))
    except OSError:
        return False


def _dead(path: Path) -> str | None:
    if not path.is_socket():
        return None
    with socket.socket(socket.AF_UNIX) as probe_socket:
        probe_socket.settimeout(2.0)
        try:
            probe_socket.connect(str(path))
        except ConnectionRefusedError:
            return str(path)
        except OSError:
            return None
    return None


def _launches(count: int) -> str:
    return "an earlier launch" if count == 1 else f"{count} earlier launches"


def _count(pids: tuple[int, ...]) -> str:
    return f"pids {', '.join(map(str, pids))}" if pids else "empty"


def _described(pid: int) -> str:
    command, _ = describe(pid)
    return f"pid {pid}" + (f" ({command})" if command else "")


RESIDUE = Check("residue", "Is anything left of an earlier launch?", lambda sight: judge(probe(sight)))
