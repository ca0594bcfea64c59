"""Lingering, the unit and the service: from nothing installed to all is well."""

import sys
from pathlib import Path

import pytest

from arcops import __version__, wire
from arcops.core.quantity import Known, Unknown
from arcops.doctor import FixKind, Verdict
from arcops.doctor.checks import lingering, service, unit
from arcops.doctor.fix import apply
from arcops.service import units
from arcops.service.files import UnitFile
from arcops.service.same import Sameness, of_daemon
from arcops.service.state import ServiceState, parse
from tests.doctor.patient import USER, Patient


def state(**changes: str) -> ServiceState:
    shown = {
        "LoadState": "loaded",
        "UnitFileState": "enabled",
        "ActiveState": "active",
        "SubState": "running",
        "MainPID": "42",
        "NRestarts": "0",
        "Result": "success",
        "WatchdogUSec": "30s",
        "ExecStart": "{ path=/x/arcopsd ; argv[]=/x/arcopsd ; }",
        "TimeoutStopUSec": "4min",
        "TimeoutStartUSec": "infinity",
        "DropInPaths": "/a.conf /b.conf",
    }
    return parse("arcops.service", {**shown, **changes})


def test_what_systemctl_shows_is_read() -> None:
    seen = state()
    assert (seen.main_pid, seen.watchdog, seen.program, seen.stop_within) == (42, 30.0, "/x/arcopsd", 240.0)
    assert (seen.start_within, seen.drop_ins) == (3600.0, ("/a.conf", "/b.conf"))
    assert state(MainPID="0").main_pid is None
    assert state(WatchdogUSec="0").watchdog is None
    assert not state(LoadState="not-found").installed
    assert state(ActiveState="deactivating").runs


# -- lingering --------------------------------------------------------------------------------------------------------
def test_lingering_off_is_a_warning_and_a_problem_once_a_unit_counts_on_it(patient: Patient) -> None:
    found = patient.ask("lingering")
    assert (found.verdict, found.remedy) == (Verdict.WARNING, "arcops service linger on")
    assert [fix.kind for fix in found.fixes] == [FixKind.ENABLE_LINGERING]
    install(patient)
    patient.systemd.put("enabled-arcops.service")
    assert patient.ask("lingering").verdict is Verdict.PROBLEM
    (patient.systemd.linger / USER).touch()
    found = patient.ask("lingering")
    assert found.verdict is Verdict.OK
    assert found.evidence == (f"{patient.systemd.linger}/{USER} is there", "loginctl: Linger=yes")


def test_a_user_whom_logind_does_not_know_does_not_linger(patient: Patient) -> None:
    words = "Failed to get user: User ID 4711 is not logged in or lingering\n"
    patient.systemd.put("fail-loginctl-show-user", words)
    found = patient.ask("lingering")
    assert found.verdict is Verdict.WARNING
    assert words.strip() in found.evidence[1]


def test_a_contradiction_about_lingering_is_told() -> None:
    facts = lingering.Facts(USER, Known(True, 0.0), "/l/ann", False, "loginctl: Linger=no", True)
    outcome = lingering.judge(facts)
    assert outcome.verdict is Verdict.WARNING
    assert "file says that lingering is on, and loginctl that it is off" in outcome.summary


def test_lingering_that_cannot_be_read_is_unknown() -> None:
    facts = lingering.Facts(USER, Unknown("no way in", 0.0), "/l/ann", None, "no bus", False)
    assert lingering.judge(facts).verdict is Verdict.UNKNOWN


# -- unit -------------------------------------------------------------------------------------------------------------
def install(patient: Patient) -> None:
    patient.unit.parent.mkdir(parents=True, exist_ok=True)
    patient.unit.write_text(units.wanted("arcops.service", units.programs()))


def test_the_unit_from_nothing_to_well(patient: Patient) -> None:
    found = patient.ask("unit")
    assert (found.verdict, found.remedy) == (Verdict.WARNING, "arcops service install --enable --now --linger")
    install(patient)
    found = patient.ask("unit")
    assert (found.verdict, found.summary) == (
        Verdict.WARNING,
        "arcops.service is disabled: it does not start by itself",
    )
    patient.systemd.put("enabled-arcops.service")
    assert patient.ask("unit").verdict is Verdict.OK


def test_a_unit_that_was_changed_is_a_warning(patient: Patient) -> None:
    install(patient)
    patient.systemd.put("enabled-arcops.service")
    patient.unit.write_text(patient.unit.read_text().replace("KillMode=mixed", "KillMode=process"))
    found = patient.ask("unit")
    assert (found.verdict, found.summary) == (Verdict.WARNING, "arcops.service is not as this arcops writes it")


def test_a_unit_of_another_arcops_is_a_problem(patient: Patient, tmp_path: Path) -> None:
    install(patient)
    other = tmp_path / "other/arcopsd"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    patient.unit.write_text(patient.unit.read_text().replace(str(units.programs()), str(other.parent)))
    found = patient.ask("unit")
    assert found.verdict is Verdict.PROBLEM
    assert f"the unit starts {other}, and this arcops has {units.programs()}/arcopsd" in found.summary


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"LoadState": "masked"}, Verdict.PROBLEM, "is masked"),
        ({"LoadState": "bad-setting"}, Verdict.PROBLEM, "systemd cannot use arcops.service: bad-setting"),
        ({"NeedDaemonReload": "yes"}, Verdict.WARNING, "has not read it since"),
        ({"LoadState": "not-found"}, Verdict.WARNING, "has not read it since"),
    ],
)
def test_what_the_manager_makes_of_the_unit(changes: dict[str, str], verdict: Verdict, words: str) -> None:
    file = UnitFile(Path("/u/arcops.service"), units.MARKER, None, ())
    facts = unit.Facts(units.Unit.of("main"), file, units.MARKER, state(**changes), "", Sameness(True, ""))
    outcome = unit.judge(facts)
    assert outcome.verdict is verdict
    assert words in outcome.summary


def test_a_unit_file_without_a_manager_is_unknown(patient: Patient) -> None:
    install(patient)
    patient.systemd.put("fail-systemctl-show", "Failed to connect to bus: No medium found\n")
    found = patient.ask("unit")
    assert found.verdict is Verdict.UNKNOWN
    assert "the user's systemd cannot be reached: Failed to connect to bus: No medium found" in found.evidence
    assert patient.ask("session").verdict is Verdict.WARNING


# -- service ----------------------------------------------------------------------------------------------------------
def facts(seen: ServiceState | None, daemon: wire.DaemonInfo | str) -> service.Facts:
    return service.Facts(units.Unit.of("main"), seen, "no bus", daemon, of_daemon(daemon))


def daemon(pid: int = 42, version: str = __version__, prefix: str | None = None) -> wire.DaemonInfo:
    return wire.DaemonInfo(pid=pid, version=version, started_at=1.0, prefix=prefix or sys.prefix)


@pytest.mark.parametrize(
    ("seen", "told", "verdict", "words"),
    [
        (state(), daemon(), Verdict.OK, "runs, and answers"),
        (state(), daemon(version="0.0.9"), Verdict.PROBLEM, "is arcops 0.0.9, this is"),
        (state(), daemon(prefix="/opt/other"), Verdict.PROBLEM, "is of /opt/other"),
        (state(MainPID="7"), daemon(), Verdict.WARNING, "does not run as arcops.service"),
        (state(LoadState="not-found", ActiveState="inactive", MainPID="0"), daemon(), Verdict.OK, "does not run as"),
        (state(NRestarts="4"), daemon(), Verdict.WARNING, "restart it 4 times"),
        (None, daemon(), Verdict.OK, "whether as a service cannot be asked"),
        (state(), "no daemon", Verdict.PROBLEM, "runs, and does not answer"),
        (state(ActiveState="activating"), "no daemon", Verdict.WARNING, "is activating"),
        (state(ActiveState="failed", Result="watchdog"), "no daemon", Verdict.PROBLEM, "has failed (watchdog)"),
        (state(ActiveState="inactive"), "no daemon", Verdict.WARNING, "no arcopsd runs"),
        (None, "no daemon", Verdict.UNKNOWN, "cannot be asked"),
    ],
)
def test_the_service(seen: ServiceState | None, told: wire.DaemonInfo | str, verdict: Verdict, words: str) -> None:
    outcome = service.judge(facts(seen, told))
    assert outcome.verdict is verdict, outcome
    assert words in outcome.summary


# -- session ----------------------------------------------------------------------------------------------------------
def test_the_session_is_well_where_the_manager_answers(patient: Patient) -> None:
    found = patient.ask("session")
    assert found.verdict is Verdict.OK
    assert "systemd 252" in found.evidence


def test_the_runtime_directory_of_another_user_is_a_problem(patient: Patient) -> None:
    found = patient.ask("session", uid=4711)
    assert found.verdict is Verdict.PROBLEM
    assert "is another user's" in found.summary


# -- --fix ------------------------------------------------------------------------------------------------------------
def test_fix_switches_lingering_on(patient: Patient) -> None:
    fixes = patient.ask("lingering").fixes
    assert [error for _, error in apply(patient.sight(), fixes)] == [None]
    assert any(call.startswith("loginctl --no-ask-password enable-linger") for call in patient.systemd.calls())
