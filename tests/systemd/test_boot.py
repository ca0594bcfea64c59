"""What is up after a boot, and what outlives a logout: it depends on lingering, and on the last order."""

from collections.abc import Generator

import pytest

from tests.helpers import eventually
from tests.systemd.box import Box
from tests.systemd.household import Household
from tests.systemd.needs import need_box

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

GONE_WITHIN = 150.0
"""Seconds for a user's manager to end after the last logout; in a box logind waits one."""


@pytest.fixture(scope="module")
def box() -> Generator[Box]:
    need_box()
    with Box() as one:
        yield one


@pytest.fixture(scope="module")
def stays(box: Box) -> Household:
    """Lingers, and is ordered to serve."""
    return enabled(box, "stays", 8000)


@pytest.fixture(scope="module")
def halted(box: Box) -> Household:
    """Lingers, and is ordered to stop."""
    house = enabled(box, "halted", 8001)
    house.curl("/v1/stop", "main", "-d", "{}")
    house.until("stopped")
    return house


@pytest.fixture(scope="module")
def goes(box: Box) -> Household:
    """Is ordered to serve, and does not linger."""
    house = enabled(box, "goes", 8002)
    box.linger("goes", on=False)
    eventually(lambda: processes_of(house) == "", within=GONE_WITHIN)
    assert house.backends() == [], "its manager took the backend along"
    return house


def enabled(box: Box, name: str, port: int) -> Household:
    box.add_user(name)
    house = Household(box, name, port).install()
    house.ctl("enable", "--now", house.unit)
    house.serve()
    return house


def processes_of(house: Household) -> str:
    return house.box.root("pgrep", "-u", house.user, check=False).stdout


@pytest.mark.parametrize("hard", [False, True], ids=["reboot", "power-cut"])
def test_the_ordered_profile_comes_up_without_a_login_where_its_user_lingers(
    box: Box, stays: Household, halted: Household, goes: Household, hard: bool
) -> None:
    before = stays.until("serving", "target").backend
    box.reboot(hard=hard)
    eventually(lambda: box.manager_runs("stays"), within=90.0)
    backend = stays.until("serving", "target").backend
    assert before is not None
    assert backend is not None
    assert backend.launch_id != before.launch_id
    assert not backend.adopted
    three = ("lingering", "service", "residue")
    assert stays.verdicts(*three) == dict.fromkeys(three, "ok")
    status = halted.until("stopped")
    assert (status.order.goal, status.backend) == ("stop", None), "the order to stop holds as well"
    assert halted.backends() == []
    assert processes_of(goes) == "", "an enabled unit alone is not started by a boot"


def test_an_orderly_shutdown_lets_open_requests_end(box: Box, stays: Household) -> None:
    stays.until("serving")
    stream = stays.stream(tokens=1500).began().seen()
    box.halt()
    whole = stream.is_whole()
    box.boot()
    assert whole, "drained, as at any other stop"
    assert "phase ordered to stop; 1 request is open" in stays.events()
    assert "result success" in [event for event in stays.events() if event.startswith("unit ")][-1]


def test_a_logout_ends_the_service_of_a_user_who_does_not_linger_and_no_other(
    box: Box, stays: Household, goes: Household
) -> None:
    backend = stays.until("serving").backend
    with box.login("goes"), box.login("stays"):
        goes.until("serving", "target")
    eventually(lambda: processes_of(goes) == "", within=GONE_WITHIN, every=0.2)
    still = stays.until("serving").backend
    assert backend is not None
    assert still is not None
    assert still.launch_id == backend.launch_id


def test_lingering_switched_off_ends_the_service_at_once_and_no_boot_brings_it_back(box: Box, stays: Household) -> None:
    stays.until("serving")
    box.linger("stays", on=False)
    eventually(lambda: processes_of(stays) == "", within=GONE_WITHIN)
    box.reboot()
    assert processes_of(stays) == ""
    box.linger("stays", on=True)
    stays.until("serving", "target")
