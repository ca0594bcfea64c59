"""`arcops report` without a daemon: what it packs, where it puts it, and what it says of a hostile state."""

import json
import os
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.core.errors import ExitCode
from arcops.machine.store import Store, StoredEvent, StoredOrder
from tests.cli.conftest import Ran
from tests.sites import MadeUpSite

Command = Callable[..., Ran]


def unpacked(archive: Path) -> dict[str, str]:
    """Every member by its name below the archive's one folder."""
    with tarfile.open(archive) as tar:
        folders = {member.name.partition("/")[0] for member in tar}
        assert len(folders) == 1
        return {
            member.name.partition("/")[2]: file.read().decode()
            for member in tar
            if (file := tar.extractfile(member)) is not None
        }


def missing(members: dict[str, str]) -> dict[str, str]:
    return {gap["name"]: gap["why"] for gap in json.loads(members["manifest.json"])["missing"]}


@pytest.fixture
def state(site: MadeUpSite) -> Path:
    """The state folder of the instance main, with a history and logs."""
    folder = site.root / "home/.local/state/arcops/main"
    (folder / "logs").mkdir(parents=True)
    store = Store.open(str(folder / "arcops.db"))
    store.save_order(StoredOrder(1, "run", "target-only", None, None, 10.0))
    for number in range(3):
        store.add_event(StoredEvent(0, float(number), "phase", "serving", "target-only", "l1", f"reason {number}"))
    store.close()
    for number in range(7):
        (folder / "logs" / f"2026-{number}.log").write_text(f"line of {number}\n")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("site")
def test_on_a_machine_without_anything_the_report_says_so(arcops: Command, here: Path) -> None:
    ran = arcops("report")
    assert ran.code == 0
    assert "without the daemon: no daemon answers" in ran.err
    (archive,) = here.iterdir()
    assert archive.name.startswith("arcops-report-main-20")
    assert archive.name.endswith("Z.tar.gz")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert ran.out.startswith(f"{archive.name}: ")
    assert len(ran.out.splitlines()) == 1
    members = unpacked(archive)
    assert {"status.json", "events.jsonl", "launch.json", "logs", "keeper"} <= set(missing(members))
    assert json.loads(members["host/system.json"])["python"]


def test_what_is_there_is_packed(arcops: Command, here: Path, state: Path, site: MadeUpSite) -> None:
    site.write_profile("own", "extends: target-only\nmodel: {path: /x}\n")
    kept = state / "evidence" / "2026-6-hang"
    kept.mkdir(parents=True)
    (kept / "why.txt").write_text("no progress\n")
    assert arcops("report", "--to", "out.tar.gz").code == 0
    members = unpacked(here / "out.tar.gz")
    assert [json.loads(line)["reason"] for line in members["events.jsonl"].splitlines()] == [
        "reason 0",
        "reason 1",
        "reason 2",
    ]
    assert json.loads(members["orders.jsonl"])["profile"] == "target-only"
    assert "extends: target-only" in members["config/profiles/own.yaml"]
    assert "models_dir" in members["config/site.yaml"]
    assert [name for name in members if name.startswith("logs/")] == [f"logs/2026-{n}.log" for n in range(2, 7)]
    assert members["evidence/2026-6-hang/why.txt"] == "no progress\n"
    assert "exit code 0" in members["runtime/version.txt"], "the vllm that site.yaml names was asked"


def test_one_launch_alone_and_one_that_there_is_not(arcops: Command, here: Path, state: Path) -> None:
    assert (state / "logs").is_dir()
    assert arcops("report", "--to", "out.tar.gz", "--launch", "2026-1").code == 0
    assert [name for name in unpacked(here / "out.tar.gz") if name.startswith("logs/")] == ["logs/2026-1.log"]
    for unknown in ("none", "../../secret", ""):
        ran = arcops("report", "--launch", unknown)
        assert ran.code == ExitCode.USAGE
        assert "there is no log" in ran.err


def test_nothing_is_overwritten_without_force(arcops: Command, here: Path, site: MadeUpSite) -> None:
    assert site.root.exists()
    target = here / "out.tar.gz"
    target.write_text("mine")
    ran = arcops("report", "--to", str(target))
    assert ran.code == ExitCode.USAGE
    assert "--force" in ran.err
    assert target.read_text() == "mine"
    assert arcops("report", "--to", str(target), "--force").code == 0
    assert unpacked(target)
    assert os.listdir(here) == ["out.tar.gz"], "nothing half-written stays"


def test_a_folder_gets_the_usual_name_and_a_bad_place_is_one_clear_error(
    arcops: Command, here: Path, site: MadeUpSite
) -> None:
    assert site.root.exists()
    (here / "folder").mkdir()
    ran = arcops("report", "--to", "folder", "--json")
    said = json.loads(ran.out)
    assert Path(said["path"]).parent == here / "folder"
    assert said["bytes"] == Path(said["path"]).stat().st_size
    assert "status.json" in said["missing"]
    ran = arcops("report", "--to", "no/such/folder/x.tar.gz")
    assert ran.code == ExitCode.FAILED
    assert "No such file or directory" in ran.err


def test_a_hostile_state_is_named_and_the_rest_is_packed(
    arcops: Command, here: Path, state: Path, site: MadeUpSite
) -> None:
    (state / "arcops.db").write_bytes(b"not a database at all" * 100)
    logs = state / "logs"
    os.mkfifo(logs / "2026-7.log")
    (logs / "2026-8.log").symlink_to("/etc/passwd")
    (logs / "2026-9.log").mkdir()
    site.write_site("runtime: [\n")
    (site.profiles / "broken.yaml").write_bytes(b"\xff\xfe\0" * 50)
    (site.profiles / "pipe.yaml").unlink(missing_ok=True)
    os.mkfifo(site.profiles / "pipe.yaml")
    site.write_profile("guarded", "extends: target-only\nserver: {api_key_file: /no/such/key}\n")
    (state / "evidence").write_text("a file where a folder should be")
    ran = arcops("report", "--to", "out.tar.gz")
    assert ran.code == 0, ran.err
    members = unpacked(here / "out.tar.gz")
    why = missing(members)
    assert "file is not a database" in why["events.jsonl"]
    assert why["logs/2026-7.log"] == "not a regular file"
    assert "symbolic links" in why["logs/2026-8.log"]
    assert why["logs/2026-9.log"] in ("not a regular file", "Is a directory")
    assert why["config/profiles/pipe.yaml"] == "not a regular file"
    assert why["evidence"] == "Not a directory"
    assert "not hidden" in why["the key in /no/such/key"]
    assert "config/profiles/broken.yaml" in members
    assert "logs/2026-6.log" in members
    assert (state / "arcops.db").read_bytes().startswith(b"not a database"), "it is left as it was"


def test_a_huge_log_is_packed_from_its_end_and_the_manifest_says_so(arcops: Command, here: Path, state: Path) -> None:
    with (state / "logs" / "2026-8.log").open("w") as log:
        log.writelines(f"line {number} of a long log\n" for number in range(200_000))
    assert arcops("report", "--to", "out.tar.gz").code == 0
    members = unpacked(here / "out.tar.gz")
    text = members["logs/2026-8.log"]
    assert text.endswith("line 199999 of a long log\n")
    assert text.startswith("line ")
    assert len(text) <= 512 * 1024
    (one,) = [one for one in json.loads(members["manifest.json"])["contents"] if one["name"] == "logs/2026-8.log"]
    assert one["left_out"] == f"{len(text)} of {(state / 'logs' / '2026-8.log').stat().st_size} bytes"


def test_a_database_that_another_program_holds_is_named(arcops: Command, here: Path, state: Path) -> None:
    with sqlite3.connect(state / "arcops.db") as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        assert arcops("report", "--to", "out.tar.gz").code == 0
        holder.rollback()
    holder.close()
    assert "locked" in missing(unpacked(here / "out.tar.gz"))["events.jsonl"]
