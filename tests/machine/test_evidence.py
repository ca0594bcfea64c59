"""Folders of evidence: private, bounded, and never followed out of their directory."""

import os
import stat
from pathlib import Path

import pytest

from arcops.machine.evidence import KEPT, MOST_BYTES, EvidenceFolder, prune


def test_a_folder_and_its_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = EvidenceFolder(str(tmp_path / "evidence"), "L1-suspect")
    folder.make()
    folder.write("why.txt", "because\n")
    assert folder.path == tmp_path / "evidence" / "L1-suspect"
    assert (folder.path / "why.txt").read_text() == "because\n"
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (folder.path.parent, folder.path, folder.path / "why.txt")]
    assert modes == [0o700, 0o700, 0o600]


def test_what_is_too_long_loses_its_beginning(tmp_path: Path) -> None:
    folder = EvidenceFolder(str(tmp_path), "L1-hang")
    folder.make()
    folder.write("log-tail.txt", "old\n" + "x" * MOST_BYTES + "\nnew\n")
    text = (folder.path / "log-tail.txt").read_text()
    assert len(text) <= MOST_BYTES
    assert text.startswith("(the beginning is cut off)\n")
    assert text.endswith("\nnew\n")


def test_a_later_one_of_the_same_name_takes_its_place(tmp_path: Path) -> None:
    for name in ("first.txt", "second.txt"):
        folder = EvidenceFolder(str(tmp_path), "L1-suspect")
        folder.make()
        folder.write(name, "")
    assert [file.name for file in folder.path.iterdir()] == ["second.txt"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_in_the_way_is_removed_and_never_followed(tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    way = tmp_path / "evidence" / "L1-suspect"
    way.parent.mkdir()
    if kind == "link":
        way.symlink_to(elsewhere)
    else:
        way.touch()
    EvidenceFolder(str(way.parent), "L1-suspect").make()
    assert way.is_dir()
    assert not way.is_symlink()
    assert (elsewhere / "precious").exists()


def test_a_name_cannot_lead_out_of_the_directory(tmp_path: Path) -> None:
    folder = EvidenceFolder(str(tmp_path), "../../L1/x y")
    assert folder.path.parent == tmp_path
    assert folder.path.name == ".._.._L1_x_y"


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 5):
        folder = tmp_path / f"L{number:02d}-hang"
        folder.mkdir()
        (folder / "why.txt").touch()
        os.utime(folder, (number, number))
    EvidenceFolder(str(tmp_path), "new").make()
    kept = sorted(one.name for one in tmp_path.iterdir())
    assert kept == sorted(["new", *(f"L{number:02d}-hang" for number in range(6, KEPT + 5))])


def test_a_directory_that_is_not_there_has_nothing_to_remove(tmp_path: Path) -> None:
    prune(str(tmp_path / "none"))
