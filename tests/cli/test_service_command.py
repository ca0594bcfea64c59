"""`arcops service` against managers that only write down what they are told."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.cli import output
from arcops.config.paths import Paths
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading
from arcops.machine import linger as linger_file
from arcops.machine import process, record
from arcops.machine.proc import user_name
from arcops.machine.record import LaunchRecord
from arcops.service import units
from tests.cli.conftest import Ran
from tests.cli.test_connect import LEAKS
from tests.fakes.systemd import FakeSystemd
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]
USER = user_name(os.getuid())


@pytest.fixture
def systemd(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    fake = FakeSystemd(site.root)
    monkeypatch.setenv("PATH", fake.path)

    def lingering(user: str) -> Reading[bool]:
        return Known((fake.linger / user).exists(), 0.0)

    monkeypatch.setattr(linger_file, "lingering", lingering)
    return fake


@pytest.fixture
def unit(site: MadeUpSite) -> Path:
    """Where the unit of `main` is to be."""
    return Path(site.env["HOME"]) / ".config/systemd/user/arcops.service"


def say(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[str]:
    """A person at a terminal, who answers like this; what was asked."""
    asked: list[str] = []

    def confirmed(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(output, "can_ask", lambda: True)
    monkeypatch.setattr(output, "confirmed", confirmed)
    return asked


@pytest.mark.parametrize(("typed", "yes"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_only_a_yes_is_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, yes: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert output.confirmed("Overwrite it?") is yes
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Overwrite it? [y/N] ")
    assert not output.can_ask()


def test_install_writes_the_unit_with_the_place_of_this_arcops(
    arcops: Arcops, systemd: FakeSystemd, unit: Path
) -> None:
    said = arcops("service", "install")
    assert said.code == 0, said.err
    assert f"written    {unit}" in said.out
    text = unit.read_text()
    assert text == units.wanted("arcops.service", units.programs())
    assert f"ExecStart={units.programs()}/arcopsd --instance main" in text
    assert oct(unit.stat().st_mode & 0o777) == "0o644"
    assert systemd.calls() == ["systemctl --user daemon-reload"]
    assert "not done: arcops service install --enable --now --linger" in said.err


def test_install_does_all_that_it_is_told_and_nothing_twice(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    said = arcops("service", "install", "--enable", "--now", "--linger")
    assert said.code == 0, said.err
    assert systemd.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable arcops.service",
        f"loginctl --no-ask-password enable-linger {USER}",
        "systemctl --user start arcops.service",
    ]
    assert "not done" not in said.err
    again = arcops("service", "install")
    assert again.code == 0
    assert f"unchanged  {unit}" in again.out
    assert "systemctl --user daemon-reload" not in systemd.calls()[4:]


def test_another_instance_is_one_of_the_template(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    assert arcops("service", "install", "--instance", "left", "--enable").code == 0
    template = unit.with_name("arcops@.service")
    assert "arcopsd --instance %i" in template.read_text()
    assert not unit.exists()
    assert "systemctl --user enable arcops@left.service" in systemd.calls()
    assert arcops("-i", "left", "service", "uninstall").code == 0
    assert not template.exists()


def test_a_template_that_another_instance_needs_is_kept(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    arcops("service", "install", "--instance", "left")
    wants = unit.parent / "default.target.wants"
    wants.mkdir()
    (wants / "arcops@right.service").symlink_to("../arcops@.service")
    said = arcops("service", "uninstall", "--instance", "left")
    assert "arcops@right.service need it" in said.out
    assert unit.with_name("arcops@.service").exists()


def test_a_template_of_which_an_instance_runs_is_kept(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    arcops("service", "install", "--instance", "left")
    systemd.put("units", "arcops@right.service loaded active running arcops\n")
    said = arcops("service", "uninstall", "--instance", "left")
    assert "arcops@right.service need it" in said.out
    assert unit.with_name("arcops@.service").exists()


def test_a_changed_unit_is_shown_and_left_unless_forced(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    arcops("service", "install")
    unit.write_text(unit.read_text().replace("RestartSec=2", "RestartSec=7"))
    said = arcops("service", "install")
    assert (said.code, said.out) == (2, "")
    assert "-RestartSec=7\n+RestartSec=2" in said.err
    assert "--force" in said.err
    assert "RestartSec=7" in unit.read_text()
    forced = arcops("service", "install", "--force")
    assert forced.code == 0
    assert f"replaced   {unit}" in forced.out
    assert "RestartSec=2" in unit.read_text()


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked(
    arcops: Arcops, systemd: FakeSystemd, unit: Path, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/mine\n")
    asked = say(monkeypatch, answer)
    said = arcops("service", "install")
    assert said.code == (0 if answer else 2)
    assert len(asked) == 1
    assert "was not written by `arcops service install`" in asked[0]
    assert ("/mine" in unit.read_text()) is not answer


def test_drop_ins_are_the_operators(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    drop_in = unit.parent / "arcops.service.d/env.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nEnvironment=A=b\n")
    assert f"kept       {drop_in}" in arcops("service", "install").out
    assert arcops("service", "uninstall").code == 0
    assert drop_in.exists()
    assert not unit.exists()


def test_uninstall_removes_only_what_install_wrote(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/mine\n")
    said = arcops("service", "uninstall")
    assert said.code == 0
    assert "did not write it" in said.out
    assert unit.exists()


def test_uninstall_refuses_while_it_runs(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    arcops("service", "install", "--enable", "--now")
    said = arcops("service", "uninstall")
    assert said.code == 4
    assert "--now" in said.err
    assert unit.exists()
    assert arcops("service", "uninstall", "--now").code == 0
    assert not unit.exists()
    assert not systemd.has("active-arcops.service")
    assert not systemd.has("enabled-arcops.service")


def test_a_masked_unit_is_not_written_over(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    said = arcops("service", "install", "--force")
    assert said.code == 1
    assert "unmask" in said.err
    assert os.readlink(unit) == "/dev/null"


def test_without_a_user_bus_nothing_is_written_and_the_way_there_is_told(
    arcops: Arcops, systemd: FakeSystemd, unit: Path
) -> None:
    systemd.put("fail-systemctl-show", "Failed to connect to bus: No medium found\n")
    for words in (["install"], ["status"], ["start"], ["uninstall"]):
        said = arcops("service", *words)
        assert (said.code, said.out) == (1, ""), words
        assert "the user's systemd cannot be reached: Failed to connect to bus: No medium found" in said.err
        assert "log in properly" in said.err
    assert not unit.exists()


def test_the_directory_of_another_user_is_named(
    arcops: Arcops, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd.put("fail-systemctl-show", "Failed to connect to bus: Operation not permitted\n")
    monkeypatch.setattr("arcops.machine.managers.os.getuid", lambda: 4711)
    said = arcops("service", "status")
    assert "No medium" not in said.err
    assert "systemd cannot be reached" in said.err


def test_a_manager_that_hangs_is_one_clear_error(
    arcops: Arcops, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcops.machine.managers.ask.__defaults__", (0.2,))
    monkeypatch.setattr("arcops.service.state.look.__defaults__", (0.2,))
    systemd.put("hang-systemctl")
    said = arcops("service", "status")
    assert said.code == 1
    assert "does not answer within 0.2 s" in said.err


def test_start_forgives_a_start_limit(arcops: Arcops, systemd: FakeSystemd) -> None:
    arcops("service", "install")
    systemd.put("failed-arcops.service")
    assert arcops("service", "start").code == 0
    assert systemd.calls()[-2:] == [
        "systemctl --user reset-failed arcops.service",
        "systemctl --user start arcops.service",
    ]


def test_a_stop_that_was_not_in_order_is_a_failure(arcops: Arcops, systemd: FakeSystemd) -> None:
    arcops("service", "install", "--now")
    systemd.put("failed-arcops.service")
    said = arcops("service", "stop")
    assert said.code == 1
    assert "not in good order" in said.err


@pytest.mark.parametrize("kind", [EnclosureKind.SESSION, EnclosureKind.SCOPE])
def test_a_stop_that_left_a_backend_without_a_supervisor_is_a_failure(
    arcops: Arcops, systemd: FakeSystemd, unit: Path, site: MadeUpSite, kind: EnclosureKind
) -> None:
    arcops("service", "install", "--now")
    launch = Launch("p", ("/v",), (), None, "127.0.0.1", 8000, "s", None, (), ())
    left = LaunchRecord(
        *("20270115080000-aa00", process.boot_id(), "main", launch),
        *(Enclosure(kind, "x.scope"), "/s", "/l", 1.0, 1.0),
        main=process.identify(os.getpid()),
    )
    paths = Paths.of("main", site.env)
    paths.make()
    record.write(str(paths.record), left)
    for words in (["stop"], ["uninstall", "--now"]):
        arcops("service", "start")
        said = arcops("service", *words)
        assert said.code == 1
        assert "launch 20270115080000-aa00 runs on without a supervisor" in said.err
        assert "`arcops service start` adopts it" in said.err
        assert ("systemctl --user stop x.scope" in systemd.calls()) is (kind is EnclosureKind.SCOPE), "waited for"
    assert unit.exists()


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_what_is_not_installed_cannot_be_started_or_stopped(arcops: Arcops, systemd: FakeSystemd, verb: str) -> None:
    said = arcops("service", verb)
    assert said.code == 3
    assert "arcops service install" in said.err


def test_a_failing_verb_points_to_the_journal(arcops: Arcops, systemd: FakeSystemd) -> None:
    arcops("service", "install")
    systemd.put("fail-systemctl-start", "Job for arcops.service failed.\n")
    said = arcops("service", "start")
    assert said.code == 1
    assert "Job for arcops.service failed." in said.err
    assert "arcops service logs" in said.err


@LEAKS
def test_keeping_the_backend_needs_a_daemon_that_agrees(
    arcops: Arcops, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch, site: MadeUpSite
) -> None:
    arcops("service", "install", "--now")
    said = arcops("service", "restart", "--keep-backend")
    assert said.code == 8
    assert "systemctl --user restart arcops.service" not in systemd.calls()
    assert arcops("service", "restart").code == 0
    assert "systemctl --user restart arcops.service" in systemd.calls()


def test_status_says_how_it_is_and_3_when_it_does_not_run(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    bare = arcops("service", "status")
    assert bare.code == 3
    assert "not installed" in bare.out
    arcops("service", "install", "--enable", "--now")
    said = arcops("service", "status")
    assert said.code == 0
    for row in (
        "arcops.service is active (running, pid 4242)",
        f"{unit} (loaded, enabled)",
        "restarts     0 by systemd; last result: success",
        "watchdog     30 s",
        "lingering    off",
        f"the unit starts {units.programs()}/arcopsd; no daemon answers",
    ):
        assert row in said.out, said.out
    found = json.loads(arcops("service", "status", "--json").out)
    assert (found["active"], found["main_pid"], found["watchdog"], found["same"]) == ("active", 4242, 30.0, None)


def test_a_unit_of_another_arcops_is_told(arcops: Arcops, systemd: FakeSystemd, unit: Path) -> None:
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/opt/other/bin/arcopsd\n")
    assert "the unit starts /opt/other/bin/arcopsd, which is not there" in arcops("service", "status").out


def test_system_changes_nothing_and_prints_what_root_has_to_do(
    arcops: Arcops, systemd: FakeSystemd, unit: Path, tmp_path: Path
) -> None:
    said = arcops("service", "install", "--system")
    assert said.code == 0, said.err
    assert systemd.calls() == []
    assert not unit.exists()
    assert f"systemctl enable --now arcops-system@{USER}.service" in said.out
    assert f"ExecStart={units.programs()}/arcopsd" in said.out
    etc = tmp_path / "etc"
    place = f"/etc/systemd/system/{units.SYSTEM_FILE}"
    script = said.out.replace(f"cat > {place}", f"cat > {etc}/{units.SYSTEM_FILE}").rpartition("\nEOF\n")[0] + "\nEOF\n"
    etc.mkdir()
    subprocess.run(["sh", "-eu"], input=script, text=True, check=True)
    assert (etc / "arcops-system@.service").read_text() == units.wanted(units.SYSTEM_FILE, units.programs())
    assert "ARCOPS_INSTANCE=left" in arcops("-i", "left", "service", "install", "--system").out


def test_linger_on_needs_no_question_and_off_does(
    arcops: Arcops, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert arcops("service", "linger", "on").code == 0
    assert (systemd.linger / USER).exists()
    refused = arcops("service", "linger", "off")
    assert refused.code == 2
    assert "within half a second" in refused.err
    assert "(sessions now: 1)" in refused.err
    assert (systemd.linger / USER).exists()
    say(monkeypatch, answer=False)
    assert arcops("service", "linger", "off").code == 2
    assert arcops("service", "linger", "off", "--yes").code == 0
    assert not (systemd.linger / USER).exists()
    assert arcops("service", "linger", "perhaps").code == 2


def test_where_polkit_refuses_the_command_for_root_is_told(arcops: Arcops, systemd: FakeSystemd) -> None:
    systemd.put("fail-loginctl-enable-linger", "Could not enable linger: Interactive authentication required.\n")
    said = arcops("service", "linger", "on")
    assert said.code == 1
    assert f"as root: sudo loginctl enable-linger {USER}" in said.err


def test_lingering_that_did_not_come_about_is_an_error(
    arcops: Arcops, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off(user: str) -> Reading[bool]:
        return Known(value=False, at=0.0)

    monkeypatch.setattr(linger_file, "lingering", off)
    said = arcops("service", "linger", "on")
    assert said.code == 1
    assert "lingering is not on" in said.err


def test_logs_are_the_journals_and_an_empty_one_is_explained(
    arcops: Arcops, systemd: FakeSystemd, site: MadeUpSite
) -> None:
    said = arcops("service", "logs")
    assert said.code == 1
    assert "the journal shows this user nothing of arcops.service" in said.err
    systemd.put("journal", "arcopsd: ready\n")
    # In a process of its own: it becomes journalctl.
    argv = [sys.executable, "-m", "arcops.cli.main", "service", "logs", "-n", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "arcopsd: ready\n")
    assert systemd.calls()[-1] == "journalctl --user --unit=arcops.service --lines=7"


def test_what_a_service_does_not_get_from_this_shell_is_told(arcops: Arcops, systemd: FakeSystemd) -> None:
    assert "ARCOPS_CONFIG_DIR: set in this shell, and unknown to the service" in arcops("service", "install").err
