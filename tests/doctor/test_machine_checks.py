"""Cards, groups, holders, ports, what is left, room and log: from planted trees."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.cards.holders import Census, Holding, User
from arcops.core.quantity import Known
from arcops.core.world import Holder
from arcops.doctor import Verdict
from arcops.doctor.checks import configuration, disk, exposure, holders, kernel_log, others
from arcops.doctor.checks.groups import Facts as GroupFacts
from arcops.doctor.checks.groups import Group, find_manager, groups_of
from arcops.doctor.checks.groups import judge as judge_groups
from tests.core.simulated import launch
from tests.doctor.patient import UID, USER, Patient

CARD = "0000:09:00.0"
LAUNCH = "20270115080000-ab12"


# -- cards ------------------------------------------------------------------------------------------------------------
def test_without_cards_everything_runs_on_the_cpu(patient: Patient) -> None:
    report = patient.report("render-node", "driver", "groups", "card-holders")
    assert {one.verdict for one in report.findings} == {Verdict.OK}
    assert report.findings[0].summary == "no profile has a card: everything runs on the CPU"


def test_a_card_that_is_well(patient: Patient) -> None:
    folder = patient.card()
    (folder / "uevent").write_text("DRIVER=xe\nPCI_CLASS=30000\nPCI_ID=8086:E223\n")
    node, driver = patient.report("render-node", "driver").findings
    assert (node.verdict, node.summary) == (Verdict.OK, f"{patient.dev}/dri/renderD128 of card {CARD} opens")
    assert driver.verdict is Verdict.OK
    assert driver.summary == f"card {CARD} (Intel Arc Pro B70) has the driver xe"
    assert driver.evidence == (
        "xe, of the kernel 6.18.0",
        "DRIVER=xe PCI_ID=8086:E223",
        "GuC firmware: cannot be read (debugfs is not mounted)",
    )


def test_the_firmware_is_told_where_it_can_be_read(patient: Patient) -> None:
    (patient.card() / "drm/card1").mkdir()
    info = patient.site.sysfs / "kernel/debug/dri/1/gt0/uc/guc_info"
    info.parent.mkdir(parents=True)
    info.write_text("GuC firmware: xe/bmg_guc_70.bin\n\tversion: wanted 70.45.2, found 70.49.4\n")
    module = patient.site.sysfs / "module/xe"
    module.mkdir(parents=True)
    (module / "version").write_text("1.2\n")
    found = patient.ask("driver")
    assert found.evidence[0] == "xe 1.2"
    assert "version: wanted 70.45.2, found 70.49.4" in found.evidence[1]


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (None, "has no driver"),
        ("vfio-pci", "was given to virtual machines"),
        ("nouveau", "arcops cannot read who holds its memory"),
    ],
)
def test_a_card_that_cannot_be_used(patient: Patient, driver: str | None, words: str) -> None:
    patient.card(driver=driver, node=None)
    node, found, held = patient.report("render-node", "driver", "card-holders").findings
    assert node.verdict is found.verdict is Verdict.PROBLEM
    assert "has no render node" in node.summary
    assert words in found.summary
    assert held.verdict is Verdict.UNKNOWN


def test_a_node_that_is_not_there_or_does_not_open_is_a_problem(patient: Patient) -> None:
    patient.card()
    (patient.dev / "dri/renderD128").unlink()
    found = patient.ask("render-node")
    assert found.verdict is Verdict.PROBLEM
    assert "No such file or directory" in found.summary
    patient.site.write_site("cards: ['0000:77:00.0']\n")
    assert patient.ask("render-node").summary == "there is no card 0000:77:00.0 in this machine"


# -- groups -----------------------------------------------------------------------------------------------------------
def group_facts(*, member: bool, has: frozenset[int], manager: int | None = 7) -> GroupFacts:
    group = Group("render", 105, "/dev/dri/renderD128", member)
    return GroupFacts(USER, UID, True, (group,), manager, has)


def test_a_user_outside_the_group_is_told_how_to_get_in() -> None:
    outcome = judge_groups(group_facts(member=False, has=frozenset({4711})))
    assert (outcome.verdict, outcome.summary) == (Verdict.PROBLEM, "ann is not in the group render")
    assert "sudo usermod -aG render ann" in outcome.remedy


def test_a_manager_keeps_the_groups_that_it_was_started_with() -> None:
    outcome = judge_groups(group_facts(member=True, has=frozenset({4711})))
    assert outcome.verdict is Verdict.PROBLEM
    assert "keeps the groups it was started with" in outcome.summary
    assert "systemctl restart user@4711" in outcome.remedy
    assert judge_groups(group_facts(member=True, has=frozenset({4711, 105}))).verdict is Verdict.OK
    assert judge_groups(group_facts(member=True, has=frozenset(), manager=None)).verdict is Verdict.OK


def test_the_manager_and_its_groups_are_found_in_proc(patient: Patient) -> None:
    patient.process(70, "/usr/lib/systemd/systemd", "--system")
    patient.process(71, "/usr/lib/systemd/systemd", "--user", groups="4711 105 44")
    assert find_manager(os.getuid(), str(patient.proc)) == 71
    assert groups_of(71, str(patient.proc)) == {4711, 105, 44}
    assert find_manager(UID, str(patient.proc)) is None


def test_the_group_of_the_node_and_the_group_file_are_compared(patient: Patient) -> None:
    patient.card()
    node = patient.dev / "dri/renderD128"
    node.chmod(0o660)
    gid = node.stat().st_gid
    patient.group.write_text(f"renderers:x:{gid}:bob\n")
    found = patient.ask("groups", uid=UID)
    assert found.summary == "ann is not in the group renderers"
    patient.group.write_text(f"renderers:x:{gid}:bob,ann\n")
    assert patient.ask("groups", uid=UID).verdict is Verdict.OK


# -- holders ----------------------------------------------------------------------------------------------------------
def test_a_stranger_on_the_card_is_named(patient: Patient) -> None:
    patient.card()
    folder = patient.process(900, "/usr/bin/python3")
    (folder / "fd/5").symlink_to("/dev/dri/renderD128")
    (folder / "fdinfo/5").write_text(
        f"drm-driver:\txe\ndrm-pdev:\t{CARD}\ndrm-client-id:\t9\ndrm-total-vram0:\t1024 MiB\n"
        "drm-resident-vram0:\t1024 MiB\n"
    )
    found = patient.ask("card-holders")
    assert found.verdict is Verdict.PROBLEM
    assert f"1,024 MiB of card {CARD}" in found.summary
    assert "900" in found.remedy


def test_whom_nobody_may_look_into_is_unknown_and_not_free() -> None:
    assert holders.judge_card(CARD, [], 3).verdict is Verdict.UNKNOWN
    assert holders.judge_card(CARD, [], 0).verdict is Verdict.OK


def counted(*holdings: Holding, used: int) -> Known[Census]:
    return Known(Census(CARD, 1.0, holdings, (), 0, Known(used, 1.0)), 1.0)


def test_memory_that_nobody_can_be_named_for_is_not_called_free() -> None:
    total = Known(32 * 2**30, 1.0)
    found = holders.judge_census(CARD, counted(used=20 * 2**30), frozenset(), total)
    assert found.verdict is Verdict.UNKNOWN
    assert "20,480 MiB" in found.summary
    assert holders.judge_census(CARD, counted(used=300 * 2**20), frozenset(), total).verdict is Verdict.OK
    ours = Holding(7, (User(900, 1, "vllm", None, None),), 20 * 2**30, 20 * 2**30, ours=True)
    assert holders.judge_census(CARD, counted(ours, used=20 * 2**30), frozenset(), total).verdict is Verdict.OK


def test_a_command_is_allowed_only_where_every_profile_with_the_card_allows_it() -> None:
    both = launch("a", cards=(CARD,), allow_holders=("Xorg", "kwin"))
    one = launch("b", cards=(CARD,), allow_holders=("Xorg",))
    other = launch("c", cards=("0000:99:00.0",))
    assert holders.allowed_by_all([both, one, other], CARD) == {"Xorg"}
    assert holders.allowed_by_all([both, one, other], "0000:77:00.0") == frozenset()


def test_a_stranger_on_the_port_is_named(patient: Patient) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        number = stranger.getsockname()[1]
        patient.profile("mine", f"server: {{port: {number}}}\n")
        found = patient.ask("port")
        assert found.verdict is Verdict.PROBLEM
        assert f"pid {os.getpid()}" in found.summary
        assert f"port {number}" in found.summary
    assert patient.ask("port").verdict is Verdict.OK


def test_a_port_whose_owner_cannot_be_seen_is_a_problem_all_the_same() -> None:
    outcome = holders.judge_port(8000, [Holder(None, None, None, "port 8000")], ["a", "b"])
    assert (outcome.verdict, outcome.evidence) == (Verdict.PROBLEM, ("wanted by a, b",))
    assert outcome.remedy.startswith("sudo ss -ltnp")


# -- other servers ----------------------------------------------------------------------------------------------------
def test_other_servers_are_found_by_their_units(patient: Patient) -> None:
    lines = [f"{name} loaded active running x" for name in ("ollama.service", "arcops.service", "cron.service")]
    patient.systemd.put("units", "\n".join(lines))
    found = patient.ask("other-servers")
    assert found.verdict is Verdict.WARNING
    assert "ollama.service" in found.summary
    assert "systemctl --user stop ollama.service" in found.remedy
    assert "arcops.service" not in found.summary


def test_a_listener_on_a_usual_port_is_told() -> None:
    facts = others.Facts((), (), ((11434, "x (pid 3) of user bob on 127.0.0.1:11434"),))
    assert others.judge(facts).verdict is Verdict.WARNING
    assert "usual for Ollama" in others.judge(facts).evidence[0]
    assert others.judge(others.Facts("no bus", "no bus", ())).verdict is Verdict.UNKNOWN
    assert others.judge(others.Facts((), "no bus", ())).verdict is Verdict.OK


# -- the rest ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("host", "key", "mode", "verdict", "words"),
    [
        ("127.0.0.1", None, None, Verdict.OK, "this machine alone"),
        ("::1", "/k", 0o600, Verdict.OK, "with a key"),
        ("0.0.0.0", "/k", 0o600, Verdict.WARNING, "other machines reach it"),
        ("0.0.0.0", None, None, Verdict.PROBLEM, "with no key"),
        ("127.0.0.1", "/k", 0o644, Verdict.PROBLEM, "may be read by others (mode 0644)"),
        ("127.0.0.1", "/k", None, Verdict.PROBLEM, "cannot be looked at"),
    ],
)
def test_exposure(host: str, key: str | None, mode: int | None, verdict: Verdict, words: str) -> None:
    outcome = exposure.judge(exposure.Facts("p", host, 8000, key, mode, UID, UID))
    assert outcome.verdict is verdict
    assert words in outcome.summary


def test_a_key_that_others_may_read_is_found(patient: Patient, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    key.chmod(0o644)
    patient.profile("mine", f"server: {{api_key_file: {key}}}\n")
    found = patient.ask("exposure")
    if found.verdict is Verdict.OK:  # config/ has refused the profile already, with its own words
        assert "mine" in " ".join(patient.ask("configuration").evidence)
    else:
        assert found.remedy == f"chmod 600 {key}"


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("free", "left_files", "verdict"),
    [
        (5000, None, Verdict.OK),
        (500, 10**6, Verdict.WARNING),
        (5, 10**6, Verdict.PROBLEM),
        (5000, 3, Verdict.PROBLEM),
    ],
)
def test_room(free: int, left_files: int | None, verdict: Verdict) -> None:
    place = disk.Place("logs", Path("/l"), 64 * MIB, 1024 * MIB, free * MIB, left_files)
    assert disk.judge(place).verdict is verdict


def test_the_thresholds_are_said(patient: Patient) -> None:
    assert any("warning below 1,024 MiB" in line for line in patient.ask("disk").evidence)


def test_the_kernel_log(patient: Patient) -> None:
    (patient.proc / "sys/kernel/dmesg_restrict").write_text("1\n")
    found = patient.ask("kernel-log")
    assert found.verdict is Verdict.WARNING
    assert "kernel.dmesg_restrict=1" in found.evidence
    assert "systemd-journal" in found.remedy
    patient.systemd.put("journal", "kernel: hello\n")
    assert patient.ask("kernel-log").verdict is Verdict.OK
    (patient.dev / "kmsg").write_text("")
    assert patient.ask("kernel-log").summary == "/dev/kmsg opens"
    assert kernel_log.judge(kernel_log.Facts(USER, "", "", None)).evidence == ("kernel.dmesg_restrict=unknown",)


def test_the_runtime_says_its_version_and_how_long_it_took(patient: Patient) -> None:
    patient.profile("mine")
    patient.site.vllm.write_text("#!/bin/sh\necho some noise\necho 0.29.0\n")
    found = patient.ask("runtime")
    assert (found.verdict, found.summary) == (Verdict.OK, f"{patient.site.vllm} is 0.29.0")
    assert found.evidence[0].startswith("after 0.")
    patient.site.vllm.write_text("#!/bin/sh\necho 'ImportError: libze_loader.so.1' >&2\nexit 1\n")
    found = patient.ask("runtime")
    assert found.verdict is Verdict.PROBLEM
    assert "ImportError: libze_loader.so.1" in found.summary


def test_a_runtime_that_hangs_is_ended_with_its_children(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcops.doctor.checks.runtime.WITHIN", 0.3)
    patient.profile("mine")
    patient.site.vllm.write_text('#!/bin/sh\nsleep 600 &\necho $! > "$0.pid"\nwait\n')
    found = patient.ask("runtime")
    assert found.verdict is Verdict.PROBLEM
    assert "does not answer within 0.3 s" in found.summary


def test_what_may_not_be_read_or_written_is_a_problem_and_not_absent(patient: Patient) -> None:
    facts = configuration.probe(patient.sight())
    assert "site.yaml" in configuration.judge(facts).evidence[0]
    closed = configuration.judge(replace(facts, closed=True))
    assert (closed.verdict, closed.summary) == (Verdict.PROBLEM, f"{patient.sight().paths.config_dir} may not be read")
    absent = configuration.judge(replace(facts, site_there=False))
    assert absent.evidence[0].endswith("site.yaml is not there")
    place = replace(disk.probe(patient.sight())[0], writable=False)
    assert disk.judge(place).verdict is Verdict.PROBLEM
    assert "cannot be written to" in disk.judge(place).summary


def test_the_configuration(patient: Patient) -> None:
    assert patient.ask("configuration").summary == "no profile can run on this machine"
    patient.profile("mine")
    assert patient.ask("configuration").verdict is Verdict.OK
    patient.site.write_profile("broken", "nosuch: 1\n")
    found = patient.ask("configuration")
    assert (found.verdict, found.remedy) == (Verdict.WARNING, "arcops profile check broken")
    patient.site.write_site("nosuch: 1\n")
    report = patient.report("configuration", "render-node", "port")
    assert report.findings[0].verdict is Verdict.PROBLEM
    assert {one.verdict for one in report.findings[1:]} == {Verdict.UNKNOWN}
