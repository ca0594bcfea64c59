"""The supervisor as a unit: what systemd sees of it, and what becomes of the backend when it ends in any way."""

import json
from collections.abc import Generator

import pytest

from tests.helpers import eventually
from tests.systemd.box import Box
from tests.systemd.household import Household
from tests.systemd.needs import need_box

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

COMES_BACK_WITHIN = 150.0
"""Seconds until systemd has started the next supervisor; two on an idle machine."""
LONG = 30_000
"""Tokens of a stream that is to outlast a restart on the busiest of machines: a minute of them."""
QUICK = "[Service]\nRestartSec=100ms\n"


@pytest.fixture(scope="module")
def box() -> Generator[Box]:
    need_box()
    with Box() as one:
        yield one


@pytest.fixture(scope="module", params=["user", "system"])
def house(request: pytest.FixtureRequest, box: Box) -> Household:
    """The same for a unit of the user's manager, and for one of the system with no manager of the user at all."""
    system = request.param == "system"
    box.add_user(request.param, linger=not system)
    one = Household(box, request.param, port=8100 if system else 8000, system=system).install()
    one.profile("slow", fake={"FAKE_VLLM_START_SECONDS": "600"})
    one.profile("deaf", fake={"FAKE_VLLM_SIGTERM_DEAF": "1", "FAKE_VLLM_ESCAPE": "1"})
    one.drop_in(one.unit, QUICK)
    return one


@pytest.fixture(autouse=True)
def rested(request: pytest.FixtureRequest) -> None:
    """Each test begins with a supervisor that runs, has never failed and has no backend."""
    if "house" in request.fixturenames:
        house: Household = request.getfixturevalue("house")
        house.ctl("reset-failed", house.unit, check=False)
        house.ctl("start", house.unit)
        house.curl("/v1/stop", "main", "-d", '{"drain": 0}')
        house.until("stopped")


def comes_back(house: Household, before: int) -> int:
    """Wait for the next supervisor, whose pid it gives."""

    def there() -> int | None:
        shown = house.show("MainPID", "ActiveState")
        pid = int(shown["MainPID"])
        return pid if shown["ActiveState"] == "active" and pid not in (0, before) else None

    return eventually(there, within=COMES_BACK_WITHIN, every=0.1, why=house.journal())


def test_start_comes_back_at_once_while_the_model_loads_and_the_status_text_says_how_far_it_is(
    house: Household,
) -> None:
    house.curl("/v1/switch", "main", "-d", json.dumps({"profile": "slow"}))
    house.until("starting", "slow")
    backend = eventually(lambda: pids if len(pids := house.backends()) >= 2 else None, why="keeper and main")
    house.curl("/v1/keep-backend", "main", "-d", "{}")
    house.ctl("restart", house.unit)
    shown = house.show("ActiveState", "SubState", "StatusText")
    assert (shown["ActiveState"], shown["SubState"]) == ("active", "running")
    told = eventually(lambda: house.show("StatusText")["StatusText"], within=90.0)
    assert told.startswith("slow: ")
    eventually(lambda: "slow: starting, " in house.show("StatusText")["StatusText"], within=90.0)
    assert house.backends() == backend, "a start that is under way goes on, too"
    house.curl("/v1/stop", "main", "-d", '{"drain": 0}')
    house.until("stopped")
    assert house.show("StatusText")["StatusText"] == "no profile: stopped, stopped as ordered"


def test_a_supervisor_that_hangs_is_aborted_by_the_watchdog_and_the_next_one_adopts_the_backend(
    house: Household,
) -> None:
    # On a busy machine a supervisor may starve for longer than that: then it is aborted again, and not given up.
    house.drop_in(house.unit, f"[Unit]\nStartLimitIntervalSec=0\n{QUICK}WatchdogSec=3\nTimeoutAbortSec=1\n")
    try:
        house.ctl("restart", house.unit)
        served = house.serve()
        before, restarts = house.main_pid(), house.restarts()
        house.box.root("kill", "-STOP", str(before))
        comes_back(house, before)
        assert house.restarts() > restarts
        adopted = house.until("serving").backend
        assert adopted is not None
        assert (adopted.launch_id, adopted.pid, adopted.adopted) == (served.launch_id, served.pid, True)
        ended = [event for event in house.events() if event.startswith("unit ")][-1]
        assert "result watchdog (" in ended
        assert ended.endswith(f"launch {served.launch_id} is left to the next supervisor")
    finally:
        house.drop_in(house.unit, QUICK)


def test_an_abort_leaves_in_the_journal_where_the_supervisor_was(house: Household) -> None:
    served = house.serve()
    before = house.main_pid()
    house.box.root("kill", "-ABRT", str(before))
    comes_back(house, before)
    adopted = house.until("serving").backend
    assert adopted is not None
    assert adopted.launch_id == served.launch_id
    assert "Fatal Python error: Aborted" in house.journal()
    assert "most recent call first" in house.journal()


def test_a_crash_cuts_no_stream_and_the_next_supervisor_goes_on_with_the_backend(house: Household) -> None:
    served = house.serve()
    stream = house.stream(tokens=LONG).began()
    before = house.main_pid()
    house.box.root("kill", "-KILL", str(before))
    comes_back(house, before)
    adopted = house.until("serving").backend
    assert adopted is not None
    assert (adopted.launch_id, adopted.pid, adopted.adopted) == (served.launch_id, served.pid, True)
    assert stream.goes_on()


def test_a_stop_drains_and_takes_the_backend_down_within_its_time(house: Household) -> None:
    house.serve()
    stream = house.stream(tokens=1500).began().seen()
    house.ctl("stop", house.unit)
    assert stream.is_whole(), "drained, not cut"
    assert house.backends() == []
    assert house.show("Result", "ActiveState") == {"Result": "success", "ActiveState": "inactive"}
    assert "result success" in [event for event in house.events() if event.startswith("unit ")][-1]
    house.ctl("start", house.unit)
    house.until("serving", "target")


def test_a_profile_that_drains_longer_than_the_unit_stops_gets_its_time(house: Household) -> None:
    house.profile("patient", limits={"drain": "400s", "shutdown_timeout": "1s"})
    house.drop_in(house.unit, QUICK + "TimeoutStopSec=2\n")
    try:
        house.serve("patient")
        stream = house.stream(tokens=3000).began().seen()
        house.ctl("stop", house.unit)
        assert stream.is_whole(), "drained, not cut"
        assert house.show("Result")["Result"] == "success"
    finally:
        house.profile("patient")  # it is still what is ordered
        house.drop_in(house.unit, QUICK)


def test_what_a_stop_that_took_too_long_has_left_is_swept(house: Household) -> None:
    house.profile("deaf-long", fake={"FAKE_VLLM_SIGTERM_DEAF": "1", "FAKE_VLLM_ESCAPE": "1"}, limits={"drain": "60s"})
    house.serve("deaf-long")
    # The sweep has as long again: the start of a Python, and three seconds from SIGTERM to SIGKILL. On a machine where
    # many wait for a processor that took more than ten seconds.
    house.drop_in(house.unit, QUICK + "TimeoutStopSec=20\n")
    # A supervisor that hangs does not get to its end by itself, however long it is given.
    house.box.root("kill", "-STOP", str(house.main_pid()))
    try:
        assert len(house.backends()) >= 3, "keeper, main and the stray"
        house.ctl("stop", house.unit)
        assert house.backends() == []
        assert house.show("Result")["Result"] == "timeout"
        ended = [event for event in house.events() if event.startswith("unit ")][-1]
        assert "result timeout" in ended
        assert "was left behind" in ended
    finally:
        house.profile("deaf-long")  # it is still what is ordered, and would be as hard to end
        house.drop_in(house.unit, QUICK)


def test_a_supervisor_that_cannot_live_is_given_up_and_its_backend_serves_on(house: Household) -> None:
    served = house.serve()
    house.drop_in(house.unit, "[Unit]\nStartLimitBurst=2\n" + QUICK)
    try:
        for _ in range(6):
            if house.show("ActiveState")["ActiveState"] == "failed":
                break
            before = house.main_pid()
            if before:
                house.box.root("kill", "-KILL", str(before), check=False)
            eventually(
                lambda before=before: (
                    house.show("MainPID", "ActiveState") != {"MainPID": str(before), "ActiveState": "active"}
                ),
                within=COMES_BACK_WITHIN,
            )
            eventually(
                lambda: house.show("ActiveState", "SubState")["SubState"] in ("running", "failed"),
                within=COMES_BACK_WITHIN,
                every=0.1,
            )
        assert house.show("ActiveState")["ActiveState"] == "failed"
        assert "Start request repeated too quickly" in house.journal()
        assert house.alive(served.pid), "a healthy backend is nobody's to end"
        if not house.system:
            assert house.verdicts("service", "residue") == {"service": "problem", "residue": "warning"}
    finally:
        house.drop_in(house.unit, QUICK)
    house.ctl("reset-failed", house.unit)
    house.ctl("start", house.unit)
    adopted = house.until("serving").backend
    assert adopted is not None
    assert adopted.launch_id == served.launch_id


def test_a_stop_while_no_supervisor_runs_ends_the_scope_and_leaves_a_backend_that_has_none_to_be_adopted(
    house: Household,
) -> None:
    served = house.serve()
    # Long enough for a stop to come between a crash and the next start.
    house.drop_in(house.unit, QUICK + "RestartSec=600\n")
    try:
        house.box.root("kill", "-KILL", str(house.main_pid()))
        eventually(lambda: house.show("SubState")["SubState"] == "auto-restart", within=90.0)
        assert house.alive(served.pid)
        house.ctl("stop", house.unit)
        if not house.system:
            eventually(lambda: house.backends() == [], within=COMES_BACK_WITHIN, why="the backend is left")
            return
        assert house.alive(served.pid)
        house.ctl("start", house.unit)
        adopted = house.until("serving").backend
        assert adopted is not None
        assert adopted.launch_id == served.launch_id
    finally:
        house.drop_in(house.unit, QUICK)


def test_a_restart_that_keeps_the_backend_cuts_no_stream(house: Household) -> None:
    served = house.serve()
    stream = house.stream(tokens=LONG).began()
    before = house.main_pid()
    assert house.curl("/v1/keep-backend", "main", "-d", "{}").returncode == 0
    house.ctl("restart", house.unit)
    assert house.main_pid() != before
    adopted = house.until("serving").backend
    assert adopted is not None
    assert adopted.launch_id == served.launch_id
    assert stream.goes_on()
    house.ctl("restart", house.unit)
    after = house.until("serving").backend
    assert after is not None
    assert after.launch_id != served.launch_id, "asked for once, it holds once"


def test_a_reload_is_over_when_it_says_so_and_a_bad_file_changes_nothing(house: Household) -> None:
    served = house.serve()
    house.ctl("reload", house.unit)
    house.profile("target", scheduling={"max_num_seqs": 3})
    done = house.arcops("reload")
    assert "--max-num-seqs: 3" in done.stdout
    assert house.show("ActiveState", "SubState") == {"ActiveState": "active", "SubState": "running"}
    house.profile("target", scheduling={"max_num_sequences": 3})
    assert house.ctl("reload", house.unit, check=False).returncode != 0
    bad = house.arcops("reload", check=False)
    assert bad.returncode == 6
    assert "max_num_sequences" in bad.stderr
    status = house.status()
    assert status is not None
    assert status.backend is not None
    assert status.backend.launch_id == served.launch_id
    house.profile("target")
