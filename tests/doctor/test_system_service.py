"""A service of the system's (`arcops-system@USER.service`): the doctor sees it, and leaves the user's manager alone."""

import os
from pathlib import Path

import pytest

from arcops.doctor import FixKind, Verdict
from arcops.machine.proc import user_name
from arcops.service import places, units
from arcops.service.state import manager
from tests.doctor.patient import Patient

SYSTEM = units.Unit.of_system(user_name(os.getuid()))
RUNTIME = f"/run/arcops-{user_name(os.getuid())}"


def install(patient: Patient, *, enabled: bool = True) -> Path:
    """What root does with what `arcops service install --system` prints."""
    path = patient.systemd.root / "etc/systemd/system" / SYSTEM.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(units.wanted(SYSTEM.file, units.programs()))
    if enabled:
        patient.systemd.put(f"enabled-{SYSTEM.name}")
    return path


def test_a_unit_of_the_systems_has_the_systems_manager() -> None:
    assert manager(SYSTEM.name) == "--system"
    assert [manager(units.Unit.of(name).name) for name in ("main", "system", "left")] == ["--user"] * 3
    assert SYSTEM.command("stop") == f"sudo systemctl stop {SYSTEM.name}"
    assert SYSTEM.command("logs") == f"sudo journalctl --unit={SYSTEM.name}"


def test_it_is_found_installed_enabled_and_unchanged(patient: Patient) -> None:
    install(patient)
    sight = patient.sight()
    assert (sight.unit, sight.paths.runtime_dir) == (SYSTEM, Path(RUNTIME, "arcops"))
    found = patient.ask("unit")
    assert (found.verdict, found.summary) == (
        Verdict.OK,
        f"{SYSTEM.name} is installed, enabled and of this arcops",
    )
    for name in ("lingering", "session"):
        found = patient.ask(name)
        assert found.verdict is Verdict.OK
        assert f"{SYSTEM.name} is the system's" in found.summary
        assert not found.fixes


def test_it_is_the_users_own_that_counts_where_root_has_enabled_none_for_this_user(patient: Patient) -> None:
    install(patient, enabled=False)
    assert patient.sight().unit == units.Unit.of("main")
    patient.systemd.put(f"failed-{SYSTEM.name}")
    assert patient.sight().unit == SYSTEM


def test_it_is_of_the_instance_that_its_environment_names(patient: Patient) -> None:
    path = install(patient)
    path.write_text(path.read_text().replace("ARCOPS_INSTANCE=main", "ARCOPS_INSTANCE=left"))
    assert patient.sight().unit == units.Unit.of("main")
    found = places.find("left", user_name(os.getuid()), patient.env, str(patient.systemd.root))
    assert (found.unit, found.env["XDG_RUNTIME_DIR"]) == (SYSTEM, RUNTIME)


def test_a_change_is_seen_and_only_root_can_mend_it(patient: Patient) -> None:
    path = install(patient)
    path.write_text(path.read_text().replace("KillMode=process", "KillMode=mixed"))
    found = patient.ask("unit")
    assert found.verdict is Verdict.WARNING
    assert found.remedy.startswith("arcops service install --system")
    assert all(fix.kind is not FixKind.DAEMON_RELOAD for fix in found.fixes)


def test_two_services_for_one_instance_are_told(patient: Patient) -> None:
    install(patient)
    patient.unit.parent.mkdir(parents=True)
    patient.unit.write_text(units.wanted("arcops.service", units.programs()))
    found = patient.ask("unit")
    assert found.verdict is Verdict.WARNING
    assert f"{SYSTEM.name} and arcops.service would each supervise this instance" in found.summary


def test_one_that_does_not_run_is_roots_to_start(patient: Patient) -> None:
    install(patient)
    found = patient.ask("service")
    assert (found.verdict, found.remedy) == (Verdict.WARNING, f"sudo systemctl start {SYSTEM.name}")
    patient.systemd.put(f"failed-{SYSTEM.name}")
    found = patient.ask("service")
    assert found.verdict is Verdict.PROBLEM
    assert found.remedy == f"sudo journalctl --unit={SYSTEM.name}; then: sudo systemctl start {SYSTEM.name}"


def test_a_manager_that_does_not_answer_has_no_service(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    install(patient)
    monkeypatch.setattr(places, "look", _no_answer)
    assert patient.sight().unit == units.Unit.of("main")


def _no_answer(unit: str, env: object) -> None:
    raise places.ManagerError(f"`systemctl --system show {unit}` does not answer within 10 s")
