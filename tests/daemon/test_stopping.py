"""What systemd is told about the end of a supervisor: how long a profile's own limits may take."""

import re

from arcops.core.launch import Limits
from arcops.daemon.handover import UNIT_GIVES, stopping
from arcops.service.units import shipped


def test_the_units_give_what_the_supervisor_thinks_they_give() -> None:
    given = {
        path.name: re.findall(r"^TimeoutStopSec=(.*)$", path.read_text(), re.M)
        for path in shipped().glob("arcops*.service")
    }
    assert set(map(tuple, given.values())) == {(f"{UNIT_GIVES:.0f}",)}


def test_an_ordinary_profile_needs_no_more_than_its_unit_gives() -> None:
    assert stopping(None) == "STOPPING=1"
    assert stopping(Limits()) == "STOPPING=1"


def test_a_profile_that_drains_for_long_asks_for_all_the_time_that_it_may_take() -> None:
    lines = stopping(Limits(drain=900.0, stop_grace=60.0, clear=40.0)).splitlines()
    assert lines == ["STOPPING=1", "EXTEND_TIMEOUT_USEC=1025000000"]
