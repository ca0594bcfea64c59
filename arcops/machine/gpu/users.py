"""Who the processes are that have a card open."""

from collections.abc import Iterable

from arcops.core.cards.holders import User
from arcops.machine import proc


def users_of(pids: Iterable[int], root: str = proc.ROOT) -> dict[int, User]:
    """Each process by its pid. What has gone meanwhile has no more than that."""
    return {pid: _user(pid, root) for pid in sorted(set(pids))}


def _user(pid: int, root: str) -> User:
    stat = proc.stat(pid, root)
    command, user = proc.describe(pid, root)
    if command is None and stat is not None:
        command = stat.command
    return User(pid, None if stat is None else stat.start, command, user, proc.cgroup_of(pid, root))
