"""Has the user's manager the groups that the render nodes want?"""

import grp
import os
import stat
from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok, unknown
from arcops.doctor.run import Check
from arcops.doctor.sight import Roots, Sight, read_text
from arcops.machine import proc


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    gid: int
    wanted_by: str
    """The node that only this group may use."""
    member: bool
    """The group database has the user in it."""


@dataclass(frozen=True, slots=True)
class Facts:
    user: str
    uid: int
    cards: bool
    """Some profile or the site's settings name a card."""
    groups: tuple[Group, ...]
    manager: int | None
    """Pid of the user's manager (for a service of the system's, of its supervisor); None where it does not run."""
    has: frozenset[int]
    """Groups that it has now."""
    system: str = ""
    """The unit, where it is the system's."""

    @property
    def whose(self) -> str:
        return self.system or "the user's manager"

    @property
    def restart(self) -> str:
        return f"sudo systemctl restart {self.system or f'user@{self.uid}'}"


def probe(sight: Sight) -> Facts:
    cards = sight.usable().cards
    system = sight.unit.name if sight.unit.system else ""
    manager = _supervisor(sight) if system else find_manager(sight.uid, sight.roots.proc)
    has = frozenset[int]() if manager is None else groups_of(manager, sight.roots.proc)
    return Facts(sight.user, sight.uid, bool(cards), _wanted(sight, cards), manager, has, system)


def _supervisor(sight: Sight) -> int | None:
    service = sight.service()
    return None if isinstance(service, ArcopsError) else service.main_pid


def judge(facts: Facts) -> Outcome:
    if not facts.cards:
        return ok("no profile has a card, so no group is needed")
    if facts.uid == 0:
        return ok("root needs no group")
    if not facts.groups:
        return unknown("no render node of a configured card is there, so nobody can say whose it would be")
    evidence = [
        f"{one.wanted_by} is for group {one.name} ({one.gid}); {facts.user} is {'' if one.member else 'not '}in it"
        for one in facts.groups
    ]
    has = ", ".join(str(gid) for gid in sorted(facts.has)) or "none"
    running = f"{facts.whose} (pid {facts.manager}) has the groups {has}"
    evidence.append(running if facts.manager else f"{facts.whose} does not run")
    outside = [one.name for one in facts.groups if not one.member and one.gid not in facts.has]
    if outside:
        names = ",".join(dict.fromkeys(outside))
        remedy = f"sudo usermod -aG {names} {facts.user}, then {facts.restart}, or reboot"
        return Outcome(Verdict.PROBLEM, f"{facts.user} is not in the group {names}", tuple(evidence), remedy)
    stale = [one.name for one in facts.groups if one.gid not in facts.has] if facts.manager is not None else []
    if stale:
        names = ", ".join(dict.fromkeys(stale))
        keeps = "the manager that runs" if not facts.system else facts.system
        summary = f"{facts.user} is in {names} by now, but {keeps} keeps the groups it was started with"
        remedy = (
            facts.restart if facts.system else f"reboot, or {facts.restart}   (ends everything that this user runs)"
        )
        return Outcome(Verdict.PROBLEM, summary, tuple(evidence), remedy)
    return ok("the groups are there", *evidence)


def find_manager(uid: int, root: str = "/proc") -> int | None:
    """The `systemd --user` of a user."""
    for pid in sorted(proc.pids(root)):
        try:
            if os.stat(f"{root}/{pid}").st_uid != uid:
                continue
        except OSError:
            continue
        words = (read_text(root, str(pid), "cmdline") or "").split("\0")
        if words[0].rpartition("/")[2] == "systemd" and "--user" in words[1:]:
            return pid
    return None


def groups_of(pid: int, root: str = "/proc") -> frozenset[int]:
    """The group ids of a process: its own and its supplementary ones."""
    found: set[int] = set()
    for line in (read_text(root, str(pid), "status") or "").splitlines():
        key, _, value = line.partition(":")
        if key in ("Gid", "Groups"):
            found.update(int(word) for word in value.split() if word.isdecimal())
    return frozenset(found)


def _wanted(sight: Sight, cards: tuple[str, ...]) -> tuple[Group, ...]:
    """The groups of the render nodes that only their group may use."""
    groups = group_file(sight.roots)
    nodes = {card.address: card.render_node for card in sight.found_cards()}
    found: dict[int, Group] = {}
    for node in filter(None, (nodes.get(address) for address in cards)):
        path = f"{sight.roots.dev}/{node.removeprefix('/dev/')}"
        try:
            status = os.stat(path)
        except OSError:
            continue
        if status.st_uid == sight.uid or status.st_mode & (stat.S_IROTH | stat.S_IWOTH) == stat.S_IROTH | stat.S_IWOTH:
            continue
        name, members = groups.get(status.st_gid, (str(status.st_gid), frozenset[str]()))
        member = sight.user in members or _is_in(sight, status.st_gid)
        found[status.st_gid] = Group(name, status.st_gid, path, member)
    return tuple(found.values())


def group_file(roots: Roots) -> dict[int, tuple[str, frozenset[str]]]:
    """Name and members by group id. Source: group(5)."""
    found: dict[int, tuple[str, frozenset[str]]] = {}
    for line in (read_text(roots.group) or "").splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and fields[2].isdecimal():
            found[int(fields[2])] = fields[0], frozenset(filter(None, fields[3].split(",")))
    return found


def _is_in(sight: Sight, gid: int) -> bool:
    """By the user database, which may know groups that the file does not (LDAP)."""
    if sight.roots.group != Roots().group:
        return False
    try:
        return sight.user in grp.getgrgid(gid).gr_mem or gid in os.getgrouplist(sight.user, os.getgid())
    except (KeyError, OSError):
        return False


GROUPS = Check("groups", "Has the user's manager the groups that the cards want?", lambda sight: judge(probe(sight)))
