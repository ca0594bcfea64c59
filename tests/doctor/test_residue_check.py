"""What is left of earlier launches: found, told, and removed where that is harmless."""

import os
import socket
from dataclasses import replace
from pathlib import Path

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.errors import ArcopsError
from arcops.core.launch import Launch
from arcops.doctor import Fix, FixKind, Verdict
from arcops.doctor.checks import residue
from arcops.doctor.fix import apply
from arcops.machine import record
from arcops.machine.lock import DaemonLock
from arcops.machine.record import LaunchRecord, Unbelievable
from arcops.machine.residue import Group as Left
from arcops.machine.residue import Keeper
from tests.doctor.patient import Patient

CARD = "0000:09:00.0"
LAUNCH = "20270115080000-ab12"


def a_record(launch_id: str = LAUNCH) -> LaunchRecord:
    launch = Launch("p", ("/v",), (), None, "127.0.0.1", 8000, "s", None, (), ())
    return LaunchRecord(launch_id, "boot", "main", launch, Enclosure(EnclosureKind.SESSION, "x"), "/s", "/l", 1.0, 1.0)


def left(*pids: int, launch: str = LAUNCH) -> Left:
    return Left(f"/cg/arcops/main-{launch}", f"main-{launch}", scope=False, pids=pids, removable=True)


def residue_facts(**changes: object) -> residue.Facts:
    return replace(residue.Facts("main", False, None, "/r/launch.json", (), (), None), **changes)


def test_nothing_left_is_well_and_a_running_launch_is_no_residue() -> None:
    assert residue.judge(residue_facts()).verdict is Verdict.OK
    running = residue_facts(daemon=True, record=a_record(), groups=(left(5),), keepers=(Keeper(5, LAUNCH),))
    assert residue.judge(running).verdict is Verdict.OK


def test_empty_cgroups_are_left_to_a_supervisor_that_runs() -> None:
    outcome = residue.judge(residue_facts(daemon=True, record=a_record(), groups=(left(launch="20270115070000-aa00"),)))
    assert (outcome.verdict, outcome.fixes) == (Verdict.OK, ())


def test_of_many_empty_cgroups_the_first_are_named_and_all_can_be_removed() -> None:
    many = tuple(left(launch=f"202701150700{number:02}-aa00") for number in range(30))
    outcome = residue.judge(residue_facts(groups=many))
    assert outcome.verdict is Verdict.WARNING
    assert len(outcome.evidence) == residue.MOST_EMPTY + 1
    assert outcome.evidence[-1] == f"and {30 - residue.MOST_EMPTY} more that are empty"
    assert len(outcome.fixes) == 30


def test_processes_of_a_launch_that_no_record_knows_are_a_problem() -> None:
    outcome = residue.judge(residue_facts(daemon=True, record=a_record("20270115090000-ff00"), groups=(left(1),)))
    assert outcome.verdict is Verdict.PROBLEM
    assert "pid 1" in outcome.summary
    assert residue.judge(residue_facts(keepers=(Keeper(1, LAUNCH),))).verdict is Verdict.PROBLEM


def test_a_backend_without_a_supervisor_is_a_warning_with_a_way_on() -> None:
    outcome = residue.judge(residue_facts(record=a_record(), groups=(left(1),)))
    assert (outcome.verdict, outcome.summary) == (Verdict.WARNING, f"launch {LAUNCH} runs on without a supervisor")
    assert "arcops service start" in outcome.remedy
    assert "record of launch" in residue.judge(residue_facts(record=a_record())).summary


def test_what_is_dead_can_be_removed() -> None:
    stale = Unbelievable("the launch record is of an earlier boot", worthless=True)
    outcome = residue.judge(residue_facts(record=stale, dead_socket="/r/main.sock", groups=(left(),)))
    assert outcome.verdict is Verdict.WARNING
    assert {fix.kind for fix in outcome.fixes} == {FixKind.REMOVE_FILE, FixKind.REMOVE_CGROUP}
    assert {fix.target for fix in outcome.fixes} == {"/cg/arcops/main-" + LAUNCH, "/r/launch.json", "/r/main.sock"}
    newer = Unbelievable("the launch record has schema 9", worthless=False)
    assert residue.judge(residue_facts(record=newer)).fixes == ()


def test_a_dead_socket_and_a_stale_record_are_found_and_removed(patient: Patient) -> None:
    path = patient.runtime / "main.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    stale = a_record()
    record.write(str(patient.runtime / "main/launch.json"), stale)
    found = patient.ask("residue")
    assert found.verdict is Verdict.WARNING
    assert "of an earlier boot" in found.evidence[0]
    assert [error for _, error in apply(patient.sight(), found.fixes)] == [None, None]
    assert not path.exists()
    assert patient.ask("residue").verdict is Verdict.OK


def test_what_launches_that_are_gone_left_is_found_and_removed_and_what_is_in_use_is_neither(
    patient: Patient, tmp_path: Path
) -> None:
    gone, used = (patient.runtime / "main" / name for name in ("20270115080000-ab12", "20270115090000-ff00"))
    temporary = tmp_path / f"arcops-{os.getuid()}-{gone.name}"
    for folder in (gone, used, temporary):
        folder.mkdir(parents=True)
    (gone / "temporary").symlink_to(temporary)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(gone / "a"))
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(used / "a"))
        found = patient.ask("residue")
        assert (found.verdict, found.summary) == (
            Verdict.WARNING,
            "left over: sockets and temporary files of an earlier launch",
        )
        assert found.fixes == (Fix(kind=FixKind.REMOVE_FOLDER, target=str(gone)),)
        assert [error for _, error in apply(patient.sight(), found.fixes)] == [None]
        assert [path.exists() for path in (gone, temporary, used)] == [False, False, True]
        assert patient.ask("residue").verdict is Verdict.OK


def test_nothing_is_removed_while_a_supervisor_runs(patient: Patient, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.touch()
    lock = DaemonLock()
    lock.acquire(str(patient.runtime / "main.lock"))
    try:
        ((_, error),) = apply(patient.sight(), [Fix(kind=FixKind.REMOVE_FILE, target=str(file))])
    finally:
        lock.release()
    assert isinstance(error, ArcopsError)
    assert "while a supervisor runs" in error.message
    assert file.exists()


def test_an_empty_cgroup_is_removed_and_a_full_one_is_not(patient: Patient, tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    empty, full = mount / f"arcops/main-{LAUNCH}", mount / "user.slice/arcops-main-20270115090000-ff00.scope"
    other = mount / "arcops/left-2-20270115080000-ab12"
    for group, pids in ((empty, ""), (full, "1\n"), (other, "")):
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(pids)
    (patient.proc / "self/mounts").write_text(f"cgroup2 {mount} cgroup2 rw 0 0\n")
    found = patient.ask("residue")
    assert found.verdict is Verdict.PROBLEM
    assert found.evidence == (f"{full}: pids 1", f"{empty}: empty")
    assert found.fixes == (Fix(kind=FixKind.REMOVE_CGROUP, target=str(empty)),)
    (empty / "cgroup.procs").unlink()  # a real cgroup's files are no obstacle
    assert [error for _, error in apply(patient.sight(), found.fixes)] == [None]
    ((_, error),) = apply(patient.sight(), [Fix(kind=FixKind.REMOVE_CGROUP, target=str(full))])
    assert isinstance(error, ArcopsError)
