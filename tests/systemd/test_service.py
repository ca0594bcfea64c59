"""`arcops service` and `arcops doctor` on a real systemd: from nothing installed to all is well, and back."""

import sys
from collections.abc import Generator

import pytest

from arcops import __version__
from arcops.service import units
from tests.helpers import eventually
from tests.systemd.box import ROOT, Box
from tests.systemd.household import Household
from tests.systemd.needs import need_box

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
UNIT = ".config/systemd/user/arcops.service"


@pytest.fixture(scope="module")
def box() -> Generator[Box]:
    need_box()
    with Box() as made:
        yield made


def home_of(box: Box, user: str, port: int) -> Household:
    """A user with programs and profiles, but without any unit; not logged in, not lingering."""
    box.add_user(user, linger=False)
    house = Household(box, user, port).install()
    box.root("sh", "-c", f"rm {house.home}/.config/systemd/user/*")
    # The tests' checkout is not what the environment's own arcopsd would import on every machine.
    house.write(f"{UNIT}.d/test.conf", f"[Service]\nEnvironment=PYTHONPATH={ROOT}\n")
    return house


def test_from_nothing_to_a_service_that_survives_and_back(box: Box) -> None:
    house = home_of(box, "ann", 8101)
    three = ("lingering", "unit", "service")
    no_bus = house.arcops("service", "install", check=False)
    assert no_bus.returncode == 1
    assert "log in properly" in no_bus.stderr
    assert not box.exists(f"{house.home}/{UNIT}")
    with box.login("ann"):
        assert house.verdicts(*three) == dict.fromkeys(three, "warning")
        said = house.arcops("service", "install")
        assert f"written    {house.home}/{UNIT}" in said.stdout
        assert f"kept       {house.home}/{UNIT}.d/test.conf" in said.stdout
        assert box.read(f"{house.home}/{UNIT}") == units.wanted("arcops.service", units.programs())
        assert "arcops.service is disabled" in house.arcops("doctor", *three).stdout
        assert house.arcops("service", "status", check=False).returncode == 3

        house.arcops("service", "linger", "on")  # for oneself, unprivileged
        assert box.exists("/var/lib/systemd/linger/ann")
        house.arcops("service", "install", "--enable", "--now")
    # Logged out by now: lingering keeps it.
    assert house.verdicts(*three, "session", "residue") == dict.fromkeys((*three, "session", "residue"), "ok")
    status = house.arcops("service", "status")
    assert "arcops.service is active (running" in status.stdout
    assert f"this one, the daemon is arcops {__version__} of " in status.stdout
    seen = house.status()
    assert seen is not None
    assert seen.survival is not None
    assert (seen.survival.logout, seen.survival.reboot) == (True, True)
    assert "comes back after a reboot" in house.arcops("status", check=False).stdout
    assert "ready" in house.arcops("service", "logs").stdout

    before, daemon = house.serve(), house.main_pid()
    said = house.arcops("service", "restart", "--keep-backend")
    after = house.until("serving").backend
    assert house.main_pid() != daemon
    assert after is not None
    assert (after.pid, after.launch_id, after.adopted) == (before.pid, before.launch_id, True)
    assert before.launch_id in said.stderr
    found = house.verdicts(*three, "residue", "port", "runtime", "configuration", "other-servers", "exposure")
    assert set(found.values()) == {"ok"}, house.arcops("doctor").stdout

    house.arcops("service", "restart")
    assert house.until("serving").backend != after

    refused = house.arcops("service", "uninstall", check=False)
    assert refused.returncode == 4
    house.arcops("service", "uninstall", "--now")
    assert not box.exists(f"{house.home}/{UNIT}")
    assert box.exists(f"{house.home}/{UNIT}.d/test.conf")
    assert house.status() is None
    assert house.verdicts("unit", "service", "residue") == {"unit": "warning", "service": "warning", "residue": "ok"}


def test_lingering_off_is_a_problem_and_ends_the_service(box: Box) -> None:
    house = home_of(box, "bob", 8102)
    box.linger("bob", on=True)
    house.arcops("service", "install", "--enable", "--now")
    refused = house.arcops("service", "linger", "off", check=False)
    assert refused.returncode == 2
    assert "within half a second" in refused.stderr
    assert "(sessions now: 0); arcops.service is active" in refused.stderr
    assert box.manager_runs("bob")
    with box.login("bob"):
        house.arcops("service", "linger", "off", "--yes")
        assert house.verdicts("lingering", "unit", "service") == {
            "lingering": "problem",
            "unit": "ok",
            "service": "ok",
        }
        house.arcops("doctor", "lingering", "--fix")
        assert house.verdicts("lingering") == {"lingering": "ok"}
    house.arcops("service", "linger", "off", "--yes")
    eventually(lambda: house.status() is None, within=150.0, every=0.1, why="the service goes on")


def test_another_arcops_a_crash_and_a_stranger_are_told(box: Box) -> None:
    house = home_of(box, "cid", 8103)
    box.linger("cid", on=True)
    drop_in = f"[Service]\nEnvironment=PYTHONPATH={ROOT}\nRestart=no\nExecStopPost=\n"
    house.write(f"{UNIT}.d/test.conf", drop_in)
    house.arcops("service", "install", "--enable", "--now")
    backend = house.serve()

    box.root("kill", "-9", str(house.main_pid()))
    eventually(lambda: house.show("ActiveState")["ActiveState"] == "failed", within=90.0)
    assert house.verdicts("service", "residue", "port") == {"service": "problem", "residue": "warning", "port": "ok"}
    said = house.arcops("doctor", "residue").stdout
    assert f"launch {backend.launch_id} runs on without a supervisor" in said
    house.arcops("service", "start")
    adopted = house.until("serving").backend
    assert adopted is not None
    assert adopted.pid == backend.pid
    assert house.verdicts("service", "residue") == {"service": "ok", "residue": "ok"}

    other = f"{house.home}/other/arcopsd"
    house.write("other/arcopsd", f'#!/bin/sh\nexec {house.home}/.local/bin/arcopsd "$@"\n', mode="755")
    box.root("sed", "-i", f"s|{units.programs()}/arcopsd|{other}|", f"{house.home}/{UNIT}")
    box.ctl("cid", "daemon-reload")
    told = house.arcops("doctor", "unit", check=False)
    assert told.returncode == 1
    assert f"the unit starts {other}" in told.stdout
    shown = house.arcops("service", "install", check=False)
    assert shown.returncode == 2
    assert f"-ExecStart={other}" in shown.stderr
    assert house.arcops("service", "install", "--force").stdout.startswith("replaced")
    assert house.verdicts("unit") == {"unit": "ok"}

    house.arcops("service", "stop")
    assert house.show("Result")["Result"] == "success"
    serve = (sys.executable, "-m", "http.server", "8103", "--bind", "127.0.0.1")
    box.root("systemd-run", "-q", "--collect", "--unit=stranger", "--working-directory=/tmp", *serve)
    try:
        eventually(lambda: house.verdicts("port") == {"port": "problem"}, within=90.0, why="nobody sees the stranger")
    finally:
        box.root("systemctl", "stop", "stranger.service")
    assert house.verdicts("service", "port") == {"service": "warning", "port": "ok"}


def test_a_stop_while_no_supervisor_runs_ends_the_backend_all_the_same(box: Box) -> None:
    house = home_of(box, "eve", 8105)
    box.linger("eve", on=True)
    # Long enough for a stop to come between a crash and the next start.
    drop_in = f"[Service]\nEnvironment=PYTHONPATH={ROOT}\nRestartSec=600\n"
    house.write(f"{UNIT}.d/test.conf", drop_in)
    house.arcops("service", "install", "--now")
    backend = house.serve()
    box.root("kill", "-9", str(house.main_pid()))
    eventually(lambda: house.show("SubState")["SubState"] == "auto-restart", within=90.0, every=0.1)
    assert house.alive(backend.pid)
    stopped = house.arcops("service", "stop")
    assert "is inactive" in stopped.stdout
    assert house.backends() == []
    assert house.show("Result")["Result"] == "success"


def test_a_service_of_the_systems_is_seen_by_its_user(box: Box) -> None:
    house = home_of(box, "dee", 8104)
    unit = "arcops-system@dee.service"
    three = ("lingering", "session", "unit", "service", "residue")
    for_root = house.arcops("service", "install", "--system").stdout
    # The tests' checkout is not what the environment's own arcopsd would import on every machine.
    box.write(f"/etc/systemd/system/{unit}.d/test.conf", f"[Service]\nEnvironment=PYTHONPATH={ROOT}\n")
    box.root("sh", "-e", stdin=for_root)
    assert not box.manager_runs("dee")
    assert house.verdicts(*three) == dict.fromkeys(three, "ok"), house.arcops("doctor", *three, check=False).stdout
    status = house.arcops("service", "status").stdout
    assert f"{unit} is active (running" in status
    assert "lingering    not needed" in status
    assert f"this one, the daemon is arcops {__version__} of " in status
    assert "ready" in house.arcops("service", "logs").stdout
    refused = house.arcops("service", "stop", check=False)
    assert refused.returncode == 1
    assert f"sudo systemctl stop {unit}" in refused.stderr

    box.root("sed", "-i", "s/^OOMPolicy=continue/OOMPolicy=stop/", "/etc/systemd/system/arcops-system@.service")
    box.root("systemctl", "daemon-reload")
    assert house.verdicts("unit", "service") == {"unit": "warning", "service": "ok"}
    kept = house.arcops("service", "restart", "--keep-backend").stderr
    assert f"systemctl restart {unit}" in kept
    box.root("systemctl", "stop", unit)
    assert house.verdicts("service") == {"service": "warning"}
    box.root("systemctl", "disable", unit)
    assert "arcops.service is not installed" in house.arcops("doctor", "unit").stdout
