"""What an earlier supervisor has left: does anything of it live, can anything still come, what is to be swept?"""

import os
from collections.abc import Callable, Iterator

from arcops.core.enclosure import EnclosureKind
from arcops.machine import cgroup, keeper_status, launch_folder, process, spawn
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


def sweep(directory: str, current: Callable[[], str | None]) -> Iterator[str]:
    """Remove what launches have left whose processes are gone, but not the `current` one's; in words.

    In a directory of status files. What a process still has a socket in is left alone, whoever that is. Raises OSError
    once all are gone that can be removed.
    """
    stays: OSError | None = None
    for folder in launch_folder.left(directory):
        launch_id = os.path.basename(folder)
        # Asked anew for each: a launch is the current one before its folder is made.
        if launch_id == current() or process.find_script(spawn.KEEPER, launch_id) or launch_folder.in_use(folder):
            continue
        try:
            launch_folder.remove(folder)
        except OSError as error:
            stays = error
            continue
        yield f"sockets and temporary files that launch {launch_id} had left were removed"
    if stays is not None:
        raise stays
