"""What an earlier supervisor has written down: does anything of it live, or can anything of it still come?"""

from arcops.core.enclosure import EnclosureKind
from arcops.machine import cgroup, keeper_status, process, spawn
from arcops.machine.record import LaunchRecord, Unbelievable

UNREAD = "end that backend (with the arcops that started it, or its processes), remove the record, then start again"
"""What to do about a record that cannot be read, where its backend may live."""


def may_live(unread: Unbelievable) -> bool:
    """Whether a process may still run of which a record speaks that cannot be read: unknown is not gone."""
    if unread.worthless:
        return False
    if unread.enclosure is None or any(one is not None and process.alive(one) for one in (unread.keeper, unread.main)):
        return True
    try:
        return bool(cgroup.members(unread.enclosure, None if unread.keeper is None else unread.keeper.pid))
    except OSError:
        return True


def who(unread: Unbelievable) -> str:
    return "" if unread.main is None else f" (pid {unread.main.pid})"


def shows_itself(entry: LaunchRecord) -> bool:
    """Whether anything was ever seen of a launch: what its keeper wrote, the keeper itself, a process inside."""
    if keeper_status.read(entry.status_path) is not None or process.find_script(spawn.KEEPER, entry.launch_id):
        return True
    if entry.enclosure.kind is EnclosureKind.SESSION:
        return False
    try:
        return bool(cgroup.members(entry.enclosure))
    except OSError:
        return True
