"""What is found of earlier launches, in a planted tree of cgroups."""

import os
from pathlib import Path

from arcops.machine import residue


def planted(root: Path) -> tuple[str, str]:
    """A /proc that names a cgroup tree in which two launches were; and the place of the scope."""
    mount, self_ = root / "cgroup", root / "proc/self"
    scope = mount / "user.slice/app.slice/arcops-main-20270115080000-aa00.scope"
    for group, pids in ((scope, "11\n12\n"), (mount / "arcops/left-20270115070000-bb00", "")):
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(pids)
    self_.mkdir(parents=True)
    (self_ / "mounts").write_text(f"cgroup {mount} cgroup2 rw 0 0\n")
    return str(root / "proc"), str(scope)


def test_scopes_and_cgroups_of_launches_are_found_with_what_is_in_them(tmp_path: Path) -> None:
    proc, scope = planted(tmp_path)
    own, made = sorted(residue.groups(os.getuid(), proc), key=lambda one: one.scope)
    assert (own.name, own.pids, own.removable) == ("left-20270115070000-bb00", (), True)
    assert (made.name, made.path, made.pids) == ("main-20270115080000-aa00", scope, (11, 12))
    assert not made.removable, "systemd collects it"


def test_what_another_users_launch_has_is_not_ours(tmp_path: Path) -> None:
    proc, _ = planted(tmp_path)
    assert residue.groups(os.getuid() + 1, proc) == ()
