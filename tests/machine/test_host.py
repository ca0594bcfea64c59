"""What the machine and its programs say of themselves."""

import os
from pathlib import Path

import pytest

from arcops.machine import history, host, packages, proc
from arcops.machine.store import Store, StoredEvent
from tests.helpers import eventually


def test_a_program_is_asked_and_its_words_are_bounded(tmp_path: Path) -> None:
    said = host.ask(["sh", "-c", "echo out; echo err >&2; exit 3"], env=os.environ, timeout=30)
    assert (said.code, sorted(said.text.split())) == (3, ["err", "out"])
    assert len(host.ask(["head", "-c", "1000000", "/dev/zero"], env=os.environ, timeout=30).text) == 64 * 1024
    with pytest.raises(FileNotFoundError):
        host.ask([str(tmp_path / "none")], env=os.environ, timeout=30)


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    said = host.ask(["sh", "-c", f"sleep 1000 & echo $! > {pids}; echo begun; wait"], env=os.environ, timeout=1.0)
    assert said.code is None
    if pids.exists():
        child = int(pids.read_text())
        eventually(lambda: (found := proc.stat(child)) is None or found.ended, why="its child lives on")


def test_the_disk_of_a_folder_that_is_not_there_is_its_parents(tmp_path: Path) -> None:
    (line,) = host.disk([tmp_path / "not" / "there"]).splitlines()
    assert line.startswith(f"{tmp_path}/not/there: ")
    assert "bytes free" in line


def test_gpu_nodes_are_listed_or_said_to_be_missing() -> None:
    assert host.gpu_nodes()


def test_the_packages_beside_an_executable_are_read_from_their_metadata(tmp_path: Path) -> None:
    place = tmp_path / "lib/python3.11/site-packages"
    for name, text in (
        ("torch-2.11.0", "Name: torch\nVersion: 2.11.0+cpu\n"),
        ("broken-1", ""),
        ("Half-1", "Name: Half\n"),
    ):
        (place / f"{name}.dist-info").mkdir(parents=True)
        (place / f"{name}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\n{text}" if text else "")
    (tmp_path / "bin").mkdir()
    folders = packages.beside(str(tmp_path / "bin" / "vllm"))
    assert folders == (place,)
    assert packages.installed(folders) == {"torch": "2.11.0+cpu"}
    assert packages.beside("/nowhere/bin/vllm") == ()


def test_a_history_is_read_beside_the_daemon_and_a_missing_one_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a ?#%.db"
    store = Store.open(str(path))
    for number in range(5):
        store.add_event(StoredEvent(0, float(number), "phase", "serving", None, None, f"reason {number}"))
    found = history.read(str(path), 3)
    store.close()
    assert [row["reason"] for row in found.events] == ["reason 2", "reason 3", "reason 4"]
    assert (found.orders, found.launches) == ((), ())
    missing = tmp_path / "none.db"
    with pytest.raises(Exception, match="unable to open"):
        history.read(str(missing), 3)
    assert not missing.exists()
