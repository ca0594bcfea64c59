"""The units themselves: systemd understands them, they promise what they should, and the box leaves nothing behind."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.helpers import eventually
from tests.systemd.box import ROOT, Box
from tests.systemd.household import UNITS, Household, units_of
from tests.systemd.needs import cgroup_mount, need_box

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

SYSTEM_AT_MOST, USER_AT_MOST = 40, 65
"""systemd-analyze's exposure, times ten. What the user units are above the system's is in `IMPOSSIBLE`, one by one."""

ALL_THAT_WORKS = """
MemoryDenyWriteExecute=yes
SystemCallFilter=
SystemCallFilter=@basic-io
RestrictAddressFamilies=none
"""
"""What a user's manager can forbid besides, with no thought for whatever has to run in it."""

NEEDED = {
    "SystemCallFilter=~@resources": "torch pins its threads and places memory: sched_setaffinity, set_mempolicy",
    "SystemCallFilter=~@debug": "pidfd_getfd: workers on several cards pass memory to one another",
    "RestrictAddressFamilies=~AF_(INET|INET6)": "vLLM's port",
    "RestrictAddressFamilies=~AF_UNIX": "the control socket, the bus, vLLM's own sockets",
    "RestrictAddressFamilies=~AF_NETLINK": "who listens on a port is asked over netlink",
    "MemoryDenyWriteExecute=": "Triton's compiler writes what it then runs",
}
"""Findings of systemd-analyze that stay in a user unit because vLLM or the supervisor would not work."""

IMPOSSIBLE = {
    "CapabilityBoundingSet=": 218,
    "PrivateDevices=yes": 218,
    "ProtectClock=yes": 218,
    "ProtectKernelLogs=yes": 218,
    "ProtectKernelModules=yes": 218,
    "RootDirectory=/usr": 226,
    "User=nobody": 216,
    "DeviceAllow=/dev/null": 0,
    "IPAddressDeny=any": 0,
    "PrivateMounts=yes": 0,
    "PrivateNetwork=yes": 0,
    "PrivateTmp=yes": 0,
    "ProcSubset=pid": 0,
    "ProtectControlGroups=yes": 0,
    "ProtectHome=read-only": 0,
    "ProtectHostname=yes": 0,
    "ProtectKernelTunables=yes": 0,
    "ProtectProc=invisible": 0,
    "ProtectSystem=strict": 0,
}
"""Findings that stay because a user's manager cannot do what is asked: the exit code of a unit that asks for it.

0: it starts, in the very namespaces that it would be in without.
"""
BLINDS = "PrivateUsers="
"""The one that works, and would make most of the others possible: but no supervisor could see any more who has the
card, nor adopt a backend (docs/decisions/0010-units.md)."""


@pytest.fixture(scope="module")
def house() -> Generator[Household]:
    need_box()
    with Box() as box:
        box.add_user("op")
        Household(box, "op", system=True).install()
        yield Household(box, "op").install()


@pytest.mark.parametrize("unit", units_of(), ids=lambda unit: unit.name)
def test_systemd_has_nothing_to_say_about_a_unit(house: Household, unit: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes"]
    if "system" in unit.name:
        done = house.box.root(*command, f"/etc/systemd/system/{unit.name.replace('@', '@op')}", check=False)
    else:
        name = unit.name.replace("@.", "@left.")
        done = house.box.user("op", *command, "--user", f"{house.home}/.config/systemd/user/{name}", check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_system_unit_may_do_little(house: Household) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={SYSTEM_AT_MOST}", "--no-pager"]
    done = house.box.user("op", *command, str(UNITS / "arcops-system@.service"), check=False)
    assert done.returncode == 0, done.stdout[-300:]


@pytest.mark.parametrize("unit", [unit for unit in units_of() if "system" not in unit.name], ids=lambda unit: unit.name)
def test_what_a_user_unit_may_still_do_it_needs_or_nobody_can_forbid_it(house: Household, unit: Path) -> None:
    command = ["systemd-analyze", "--user", "security", "--offline=true", f"--threshold={USER_AT_MOST}", "--no-pager"]
    done = house.box.user("op", *command, str(unit), check=False)
    print(done.stdout.splitlines()[-1])  # the plain sum
    assert done.returncode == 0, done.stdout[-300:]
    listed = json.loads(house.box.user("op", *command, "--json=short", str(unit)).stdout)
    left = {finding(one["name"]) for one in listed if one["exposure"] is not None}
    assert left == {*NEEDED, *(f"{setting.partition('=')[0]}=" for setting in IMPOSSIBLE), BLINDS}


def test_a_users_manager_cannot_forbid_what_the_user_units_leave_out(house: Household) -> None:
    script = "readlink /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/uts /proc/self/ns/user"
    command = ("systemd-run", "--user", "--quiet", "--wait", "--pipe")

    def what_becomes_of(*settings: str) -> tuple[int, str]:
        done = house.box.user("op", *command, *settings, "sh", "-c", script, check=False)
        return done.returncode, done.stdout

    code, plain = what_becomes_of()
    assert code == 0
    expected = {setting: (code, plain if code == 0 else "") for setting, code in IMPOSSIBLE.items()}
    assert {setting: what_becomes_of(f"--property={setting}") for setting in IMPOSSIBLE} == expected
    code, other = what_becomes_of("--property=PrivateUsers=yes")
    assert (code, other != plain) == (0, True), "a user namespace of its own"


def test_no_unit_of_a_users_manager_gets_below_four_without_a_user_namespace(house: Household) -> None:
    whole = (UNITS / "arcops.service").read_text().replace("[Install]", f"{ALL_THAT_WORKS}\n[Install]")
    house.write("strict.service", whole)
    command = ["systemd-analyze", "--user", "security", "--offline=true", "--threshold=40", "--no-pager"]
    done = house.box.user("op", *command, f"{house.home}/strict.service", check=False)
    print(done.stdout.splitlines()[-1])
    assert done.returncode != 0


def test_in_a_user_namespace_a_supervisor_could_look_into_nothing_that_its_user_runs(house: Household) -> None:
    house.box.user("op", "systemd-run", "--user", "-q", "--unit=other", "sleep", "infinity")
    pid = house.box.show("op", "other.service", "MainPID")["MainPID"]
    command = ("systemd-run", "--user", "--quiet", "--wait", "--pipe")
    # A link tells a socket or a render node; fdinfo tells the memory of a card and a lock.
    looks = ("sh", "-c", 'readlink "/proc/$0/fd/0" && cat "/proc/$0/fdinfo/0"', pid)
    assert house.box.user("op", *command, *looks).stdout.startswith("/dev/null\n")
    blind = house.box.user("op", *command, "--property=PrivateUsers=yes", *looks, check=False)
    assert (blind.returncode != 0, blind.stdout) == (True, "")


def finding(name: str) -> str:
    """A finding as the tables above have it: one for all capabilities, and the first name where it has several."""
    for setting in ("SystemCallFilter", "RestrictAddressFamilies"):
        if name.startswith(setting):
            return name
    return f"{name.partition('=')[0]}="


def test_the_user_units_differ_in_their_instance_alone() -> None:
    one, template = ((UNITS / name).read_text() for name in ("arcops.service", "arcops@.service"))
    same = template.replace(" (%i)", "").replace("arcops@%i", "arcops").replace("instance %i", "instance `main`", 1)
    assert same.replace("%i", "main").replace("arcops@.", "arcops.") == one


def test_a_runner_that_is_killed_leaves_no_box() -> None:
    need_box()
    begin = "import time; from tests.systemd.box import Box"
    code = f"{begin}\nwith Box() as box: print(box.state, flush=True); time.sleep(600)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as runner:
        assert runner.stdout is not None
        state = Path(runner.stdout.readline().strip())
        mount = cgroup_mount()
        assert mount is not None
        assert state.exists()
        assert list(mount.glob(f"{state.name}-*"))
        runner.kill()
    eventually(lambda: not state.exists(), within=90.0, why="its files are left")
    assert not list(mount.glob(f"{state.name}-*"))
