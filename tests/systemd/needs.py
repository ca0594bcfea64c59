"""What this machine has to have for a box of its own systemd, and for cards in it."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.helpers import cannot_run_here

SHM = Path("/dev/shm")
_FUSE = Path("/dev/fuse")
_LEAST_ROOM = 128 * 1024 * 1024
"""Bytes on the tmpfs that takes what the box writes: some 30 MB, the rest is for a test."""
_TOOLS = {
    "/usr/lib/systemd/systemd": "systemd",
    "/usr/bin/dbus-daemon": "dbus",
    "/usr/lib/systemd/user/dbus.socket": "dbus-user-session",
    "/usr/lib/polkit-1/polkitd": "polkitd",
    "/usr/bin/nsenter": "util-linux",
    "/usr/sbin/ip": "iproute2",
}


def why_not() -> str | None:
    """Why no box can be made here; None where one can."""
    if os.geteuid() != 0:
        return "a box with a systemd of its own needs root"
    missing = [f"{path} ({package})" for path, package in _TOOLS.items() if not os.path.exists(path)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not list(Path("/usr/lib").glob("*/security/pam_systemd.so")):
        return "not installed: pam_systemd.so (libpam-systemd)"
    if "--wdns" not in subprocess.run(["nsenter", "--help"], capture_output=True, text=True, check=False).stdout:
        return "nsenter has no --wdns: it came with util-linux 2.38"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlayfs"
    mount = cgroup_mount()
    if mount is None:
        return "cgroup2 is not mounted"
    if not os.access(mount, os.W_OK):
        return f"{mount} is read-only"
    if shutil.disk_usage(SHM).free < _LEAST_ROOM:
        return f"{SHM} has less than {_LEAST_ROOM // 1024**2} MiB free"
    return None


def need_box() -> None:
    """Skip on a developer's machine that cannot make a box, and fail in CI."""
    reason = why_not()
    if reason is not None:
        cannot_run_here(reason)


def need_stand_in_cards() -> None:
    """Skip or fail likewise where no box can have cards that answer."""
    need_box()
    if not os.access(_FUSE, os.R_OK | os.W_OK):
        cannot_run_here(f"{_FUSE} cannot be opened: the kernel has no FUSE, or its module is not loaded")


def cgroup_mount() -> Path | None:
    """Where cgroup2 is mounted; beside the old hierarchies it is a directory further down."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        fields = line.split()
        if fields[2] == "cgroup2":
            return Path(fields[1])
    return None
