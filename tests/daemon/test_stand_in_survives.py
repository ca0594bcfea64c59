"""What stands in is known as that whatever became of the database, and whenever its profile was read."""

import os
import signal
import sqlite3
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from arcops import wire
from arcops.machine import record
from arcops.machine.process import boot_id
from arcops.machine.record import LaunchRecord
from tests.daemon.crashing import PATIENCE, CrashingRig
from tests.daemon.rig import Rig
from tests.daemon.test_hostile_machine import fill, small_disk
from tests.daemon.test_policy import guarded, pid_of, reasons, serving_instead, stood_in
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def record_of(rig: Rig) -> LaunchRecord:
    found = record.read(str(rig.paths.record), boot_id())
    assert isinstance(found, LaunchRecord)
    return found


def lose_database(rig: Rig) -> None:
    """Between two supervisors."""
    rig.kill_daemon()
    for path in rig.paths.state_dir.glob("arcops.db*"):
        path.unlink()


def kill_backend(rig: Rig) -> None:
    os.kill(pid_of(rig.wait_for("serving", within=PATIENCE)), signal.SIGKILL)


def brittle(rig: Rig, on_failure: str = "target-only") -> None:
    """The profile `brittle`, which serves, and is given up at its first failure."""
    rig.profile("brittle", extends="mtp", on_failure=on_failure, restart={"per_hour": 0})


@contextmanager
def locked(rig: Rig) -> Generator[None]:
    """Somebody copies the database."""
    with closing(sqlite3.connect(rig.paths.database, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")
        yield
        copying.execute("ROLLBACK")


@contextmanager
def full(rig: Rig) -> Generator[None]:
    """Not one byte is left where the database is."""
    ballast = fill(rig.paths.state_dir)
    yield
    ballast.unlink()


# -- a database that takes nothing -------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["locked", "full"])
def test_a_stand_in_that_could_not_be_written_down_is_one_for_the_next_supervisor(rig: Rig, how: str) -> None:
    with ExitStack() as stack:
        if how == "full":
            # Logs have a disk of their own: this is about what is written down, not about what a backend says.
            stack.enter_context(small_disk(rig.paths.state_dir))
            stack.enter_context(small_disk(rig.paths.log_dir))
        brittle(rig)
        rig.start()
        assert rig.arcops("switch", "brittle").code == 0
        first = rig.status()
        with locked(rig) if how == "locked" else full(rig):
            kill_backend(rig)
            started = serving_instead_of(rig, "brittle")
            assert any("cannot be written" in one for one in started.trouble), started.trouble
            rig.kill_daemon()
        rig.start()
        adopted = serving_instead_of(rig, "brittle")
        assert adopted.order.id == first.order.id
        assert (pid_of(adopted), adopted.order.standing_in_because) == (
            pid_of(started),
            started.order.standing_in_because,
        )
        assert any("target-only stands in for brittle" in one for one in adopted.trouble)
        assert rig.starts() == 2
        rig.arcops("stop")
        rig.end_daemon()


def serving_instead_of(rig: Rig, ordered: str) -> wire.Status:
    def instead() -> bool:
        status = rig.status()
        return status.phase == "serving" and status.order.standing_in == "target-only"

    until(rig, instead, f"target-only serves in place of {ordered}")
    status = rig.status()
    assert status.backend is not None
    assert (status.backend.profile, status.order.profile) == ("target-only", ordered)
    return status


def until(rig: Rig, condition: Callable[[], bool], wanted: str) -> None:
    eventually(condition, within=PATIENCE, why=f"{wanted}: {rig.daemon_log()[-2000:]}")


def test_what_the_record_alone_has_known_is_in_the_database_afterwards(rig: Rig) -> None:
    brittle(rig)
    rig.start()
    assert rig.arcops("switch", "brittle").code == 0
    with locked(rig):
        kill_backend(rig)
        serving_instead_of(rig, "brittle")
        rig.kill_daemon()
    rig.start()
    serving_instead_of(rig, "brittle")
    assert rig.end_daemon() == 0
    assert not rig.paths.record.exists(), "an orderly end leaves no launch"
    rig.start()
    serving_instead_of(rig, "brittle")
    assert rig.starts() == 3


def test_the_record_of_what_was_ordered_names_nothing_and_that_of_a_stand_in_what_it_is_for(rig: Rig) -> None:
    rig.start()
    assert rig.arcops("switch", "mtp").code == 0
    assert record_of(rig).stands_in_for is None
    guarded(rig)
    assert rig.arcops("switch", "guarded", "--no-rollback").code == 7
    status = serving_instead(rig)
    told = record_of(rig).stands_in_for
    assert told is not None
    assert (told.order_id, told.profile, told.because) == (
        status.order.id,
        "guarded",
        status.order.standing_in_because,
    )


# -- a database that is lost ------------------------------------------------------------------------------------------
def test_after_the_loss_of_the_database_a_stand_in_is_still_none_that_was_ordered(rig: Rig) -> None:
    pid = pid_of(stood_in(rig))
    for _ in range(2):  # what the next supervisor has found is as good as what it was found by
        lose_database(rig)
        rig.start()
        found = serving_instead(rig)
        assert (pid_of(found), found.order.standing_in_because) == (pid, "there is no tool call parser nosuch")
        assert any("run guarded (no order is on record" in reason for reason in reasons(rig, "order"))
    guarded(rig, fail_with="")
    assert rig.arcops("restart").code == 0
    mended = rig.wait_for("serving")
    assert (mended.order.profile, mended.order.standing_in) == ("guarded", None)


def test_after_the_loss_of_the_database_what_was_made_the_order_is_the_order(rig: Rig) -> None:
    pid = pid_of(stood_in(rig))
    assert rig.arcops("switch", "target-only").code == 0
    until(rig, lambda: record_of(rig).stands_in_for is None, "the record says that it was ordered")
    lose_database(rig)
    rig.start()
    status = rig.wait_for("serving")
    assert (pid_of(status), status.order.profile, status.order.standing_in) == (pid, "target-only", None)


def test_an_order_that_is_found_by_its_backend_keeps_its_on_failure(rig: Rig) -> None:
    brittle(rig)
    rig.start()
    assert rig.arcops("switch", "brittle").code == 0
    lose_database(rig)
    rig.start()
    kill_backend(rig)
    status = serving_instead_of(rig, "brittle")
    assert (status.order.profile, rig.starts()) == ("brittle", 2)


# -- a profile that is read late --------------------------------------------------------------------------------------
@pytest.mark.parametrize("lost", [False, True], ids=["order on record", "database lost"])
def test_an_on_failure_that_is_read_after_the_latch_fell_takes_its_place_all_the_same(
    tmp_path: Path, lost: bool
) -> None:
    with CrashingRig(tmp_path) as rig:
        brittle(rig)
        rig.start()
        assert rig.arcops("switch", "brittle").code == 0
        if lost:
            lose_database(rig)
        else:
            rig.kill_daemon()
        rig.hold_profiles(True)
        rig.start()
        kill_backend(rig)
        failed = rig.wait_for("failed", within=PATIENCE)
        assert (failed.order.profile, failed.order.standing_in, rig.starts()) == ("brittle", None, 1)
        rig.hold_profiles(False)
        status = serving_instead_of(rig, "brittle")
        assert (status.order.id, rig.starts()) == (failed.order.id, 2)
        told = reasons(rig, "stand_in")
        assert len(told) == 1
        assert "target-only takes its place, as its on_failure says" in told[0]


def test_a_supervisor_that_dies_before_it_has_read_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    with CrashingRig(tmp_path) as rig:
        brittle(rig)
        rig.start()
        assert rig.arcops("switch", "brittle").code == 0
        rig.kill_daemon()
        rig.hold_profiles(True)
        rig.start()
        kill_backend(rig)
        rig.wait_for("failed", within=PATIENCE)
        until(rig, lambda: latched_on_disk(rig), "the latch is written down")
        rig.kill_daemon()
        rig.hold_profiles(False)
        rig.start()
        serving_instead_of(rig, "brittle")
        assert rig.starts() == 2


def latched_on_disk(rig: Rig) -> bool:
    with closing(sqlite3.connect(rig.paths.database)) as store:
        asked = "SELECT json_extract(value, '$.latched') FROM meta WHERE key = 'own:attempts'"
        row = store.execute(asked).fetchone()
    return row is not None and bool(row[0])
