"""Whether the supervisor survives a logout and a reboot, from planted files."""

from pathlib import Path

import pytest

from arcops.daemon.survival import Placing, judge, look

ANN = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/arcops.service\n"
LEFT = "12:cpu:/\n0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-arcops.slice/arcops@left.service\n"
SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
SCOPE = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n"
SYSTEM = "0::/system.slice/system-arcops.slice/arcops-system@ann.service\n"


def place(root: Path, cgroup: str, enabled: str | None = None, *, system: bool = False) -> Path:
    (root / "cgroup").write_text(cgroup)
    folder = root / (
        "etc/systemd/system/multi-user.target.wants" if system else "config/systemd/user/default.target.wants"
    )
    folder.mkdir(parents=True)
    if enabled is not None:
        (folder / enabled).symlink_to("../nowhere")
    return root / "cgroup"


def placing(root: Path, instance: str, lingering: bool | None, cgroup: Path) -> Placing:
    return look(instance, lingering, {"XDG_CONFIG_HOME": str(root / "config")}, cgroup=str(cgroup), root=str(root))


@pytest.mark.parametrize(
    ("instance", "cgroup", "enabled", "lingering", "logout", "reboot", "words"),
    [
        ("main", ANN, "arcops.service", True, True, True, "survives a logout, and comes back after a reboot"),
        ("left", LEFT, "arcops@left.service", True, True, True, "arcops@left.service is enabled"),
        ("main", ANN, None, True, True, False, "arcops.service is not enabled: this survives a logout, and does not"),
        ("left", LEFT, "arcops.service", True, True, False, "not enabled"),
        ("main", ANN, "arcops.service", False, False, False, "nothing of this survives a logout"),
        ("main", ANN, "arcops.service", None, None, None, "unknown"),
        ("main", SESSION, "arcops.service", True, None, None, "its unit, which is enabled, would"),
        ("main", SCOPE, None, True, None, False, "started by hand"),
        ("main", SESSION, None, False, False, False, "lingering is off"),
    ],
)
def test_survival_of_a_users_daemon(
    tmp_path: Path,
    instance: str,
    cgroup: str,
    enabled: str | None,
    lingering: bool | None,
    logout: bool | None,
    reboot: bool | None,
    words: str,
) -> None:
    found = judge(placing(tmp_path, instance, lingering, place(tmp_path, cgroup, enabled)))
    assert (found.logout, found.reboot) == (logout, reboot)
    assert words in found.why


@pytest.mark.parametrize("enabled", [True, False])
def test_a_service_of_the_systems_needs_no_lingering(tmp_path: Path, enabled: bool) -> None:
    unit = "arcops-system@ann.service"
    cgroup = place(tmp_path, SYSTEM, unit if enabled else None, system=True)
    found = judge(placing(tmp_path, "main", False, cgroup))
    assert (found.logout, found.reboot) == (True, enabled)
    assert unit in found.why


def test_where_nothing_can_be_read_nothing_is_claimed(tmp_path: Path) -> None:
    found = judge(placing(tmp_path, "main", None, tmp_path / "none"))
    assert (found.logout, found.reboot) == (None, False)
