"""`arcops service` where the service is the system's (`arcops-system@USER.service`): seen, and left to root."""

import json
import os
from collections.abc import Callable

import pytest

from arcops.machine.proc import user_name
from arcops.service import places, units
from tests.cli.conftest import Ran
from tests.fakes.systemd import FakeSystemd
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]
UNIT = units.Unit.of_system(user_name(os.getuid())).name


@pytest.fixture
def systemd(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    """Root has installed and enabled the unit for this user."""
    fake = FakeSystemd(site.root)
    monkeypatch.setenv("PATH", fake.path)
    place = fake.root / "etc/systemd/system"
    place.mkdir(parents=True)
    (place / units.SYSTEM_FILE).write_text(units.wanted(units.SYSTEM_FILE, units.programs()))
    monkeypatch.setattr(places, "SYSTEM_PLACES", (str(place),))
    fake.put(f"enabled-{UNIT}")
    return fake


def test_the_status_is_that_of_the_systems_service(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("service", "status")
    assert said.code == 3
    assert said.out.startswith(f"{UNIT} is inactive")
    assert "lingering    not needed" in said.out
    systemd.put(f"active-{UNIT}")
    shown = json.loads(arcops("service", "status", "--json").out)
    assert (shown["unit"], shown["active"], shown["enabled"]) == (UNIT, "active", "enabled")


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_the_systems_service_is_roots_to_start_and_stop(arcops: Arcops, systemd: FakeSystemd, verb: str) -> None:
    said = arcops("service", verb)
    assert said.code == 1
    assert f"{UNIT} is a service of the system's, and root's to {verb}" in said.err
    assert f"sudo systemctl {verb} {UNIT}" in said.err
    assert systemd.calls() == []


def test_the_log_of_the_systems_service_is_in_no_users_journal(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("service", "logs")
    assert said.code == 1
    assert f"journalctl --unit={UNIT}" in said.err
    assert systemd.calls() == [f"journalctl --unit={UNIT} --quiet --no-pager --lines=1"]


def test_a_second_service_for_the_same_instance_is_warned_of(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("service", "install")
    assert said.code == 0
    assert f"{UNIT} supervises this instance already" in said.err
