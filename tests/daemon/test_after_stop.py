"""When the supervisor's process has ended: is the backend for the next one, or is it swept?"""

import os
import stat
from pathlib import Path

import pytest

from arcops.core.quantity import Known, Reading, Unknown
from arcops.daemon.after_stop import Ended, after_stop, comes_back
from arcops.daemon.clock import Clock
from arcops.daemon.handover import ARMED_FOR, KEPT, STOPPED, Handover, ended_how
from arcops.machine.store import Store
from arcops.machine.systemd import job_of
from tests.daemon.rig import Rig
from tests.helpers import eventually

STOP, RESTART, START, NONE = (Known(job, 0.0) for job in ("stop", "restart", "start", None))
UNKNOWN = Unknown("no bus", 0.0)


@pytest.mark.parametrize(
    ("job", "result", "told", "follows"),
    [
        # A crash or an abort, and nothing is asked of systemd: it starts the next one.
        (NONE, "signal", None, True),
        (NONE, "watchdog", None, True),
        (NONE, "exit-code", None, True),
        (UNKNOWN, "signal", None, True),
        # A stop.
        (STOP, "success", STOPPED, False),
        (STOP, "timeout", STOPPED, False),
        (STOP, "timeout", None, False),
        (UNKNOWN, "timeout", STOPPED, False),
        # A restart of a supervisor that hung, or was not done in time: the next one judges what it finds.
        (RESTART, "timeout", None, True),
        (RESTART, "timeout", STOPPED, True),
        (START, "timeout", None, True),
        # Told to end by a signal from elsewhere: what is done in order is not started again, what failed is.
        (NONE, "success", STOPPED, False),
        (NONE, "signal", STOPPED, True),
        # Kept on purpose, for the supervisor that a restart brings; a stop brings none.
        (STOP, "success", KEPT, False),
        (NONE, "success", KEPT, True),
        (RESTART, "success", KEPT, True),
        (UNKNOWN, "success", KEPT, True),
    ],
)
def test_the_backend_is_left_alone_exactly_if_a_supervisor_follows(
    job: Reading[str | None], result: str, told: str | None, follows: bool
) -> None:
    assert comes_back(job, Ended(result, "killed", "KILL"), told) == follows


def test_an_end_is_told_in_systemds_words() -> None:
    assert str(Ended.of({"SERVICE_RESULT": "watchdog", "EXIT_CODE": "killed", "EXIT_STATUS": "ABRT"})) == (
        "result watchdog (killed ABRT)"
    )
    assert str(Ended.of({})) == "result unknown"


def test_a_backend_is_kept_for_a_minute_after_it_was_asked_and_the_first_end_decides(tmp_path: Path) -> None:
    now = 100.0
    clock = Clock(monotonic=lambda: now)
    kept = Handover(clock, tmp_path)
    assert kept.arm() == ARMED_FOR
    now += ARMED_FOR - 1
    assert kept.keeps()
    assert ended_how(tmp_path) == KEPT
    now += 10
    assert kept.keeps(), "a second signal changes nothing"

    late = Handover(clock, tmp_path)
    late.begin()
    assert ended_how(tmp_path) is None
    late.arm()
    now += ARMED_FOR
    assert not late.keeps()
    assert ended_how(tmp_path) == STOPPED


def systemctl(folder: Path, jobs: str) -> dict[str, str]:
    """An environment in which systemd has these jobs."""
    folder.mkdir(exist_ok=True)
    program = folder / "systemctl"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{jobs}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.processes
def test_the_job_is_that_of_the_very_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = systemctl(tmp_path, "7 arcops@left.service stop running\n8 arcops.service restart running")
    monkeypatch.setenv("PATH", env["PATH"])
    for unit, kind in (("arcops.service", "restart"), ("arcops@left.service", "stop"), ("arcops@x.service", None)):
        job = job_of(unit, env)
        assert isinstance(job, Known)
        assert job.value == kind
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    assert isinstance(job_of("arcops.service", env), Unknown)


@pytest.mark.processes
@pytest.mark.parametrize("job", ["stop", "restart"])
def test_a_backend_that_a_killed_supervisor_left_is_swept_or_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("deaf", sigterm_deaf=True, escape=True)
        rig.start()
        assert rig.arcops("switch", "deaf").code == 0
        rig.kill_daemon()
        left = rig.backend_pids()
        assert len(left) >= 3
        env = {**systemctl(tmp_path / "bin", f"7 arcops.service {job} running"), "SERVICE_RESULT": "timeout"}
        monkeypatch.setenv("PATH", env["PATH"])
        after_stop(rig.paths, "arcops.service", env)
        store = Store.open(str(rig.paths.database))
        (last,) = store.last_events(1)
        store.close()
        assert last.kind == "unit"
        if job == "stop":
            assert rig.backend_pids() == []
            assert not rig.paths.record.exists()
            assert "was left behind" in last.reason
        else:
            assert rig.backend_pids() == left
            assert "left to the next supervisor" in last.reason
            rig.end_strays()
        eventually(lambda: not rig.backend_pids())
