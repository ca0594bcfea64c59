"""What launches took, in files that may be anything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.machine import footprints
from arcops.machine.footprints import LARGEST, MOST_KEPT, Footprint

ONE = Footprint("runtime-a", "launch-1", 1_700_000_000.0, 20, 30, 60, 1_000, 1_000)
OTHER = replace(ONE, runtime="runtime-b", launch_id="launch-2", peak=None)


def test_what_was_kept_is_found_by_profile_and_runtime(tmp_path: Path) -> None:
    folder = str(tmp_path / "footprints")
    footprints.keep(folder, "dflash2", ONE)
    footprints.keep(folder, "dflash2", OTHER)
    assert footprints.last(folder, "dflash2", "runtime-a") == ONE
    assert footprints.last(folder, "dflash2", "runtime-b") == OTHER
    assert footprints.last(folder, "dflash2", "runtime-c") is None
    assert footprints.last(folder, "target-only", "runtime-a") is None
    assert [path.name for path in Path(folder).iterdir()] == ["dflash2.json"], "nothing else is left there"


def test_a_later_launch_takes_the_place_of_an_earlier_one_with_the_same_runtime(tmp_path: Path) -> None:
    footprints.keep(str(tmp_path), "p", ONE)
    later = replace(ONE, launch_id="launch-3", weights=21)
    footprints.keep(str(tmp_path), "p", later)
    assert footprints.kept(str(tmp_path), "p") == (later,)


def test_the_newest_are_kept_and_no_more_than_so_many(tmp_path: Path) -> None:
    many = [replace(ONE, runtime=f"runtime-{number}") for number in range(MOST_KEPT + 3)]
    for one in many:
        footprints.keep(str(tmp_path), "p", one)
    assert footprints.kept(str(tmp_path), "p") == tuple(reversed(many[-MOST_KEPT:]))


def changed(**values: object) -> bytes:
    return written({"runtime": "runtime-a", "launch_id": "launch-1", "at": 1.0, "weights": 20, **values})


def written(one: object, **others: object) -> bytes:
    return json.dumps({"schema": 1, "footprints": [one], **others}).encode()


def test_such_a_file_is_read_before_something_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(changed())
    assert footprints.last(str(tmp_path), "p", "runtime-a") == Footprint("runtime-a", "launch-1", 1.0, 20)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[" * 20_000,
        b"{}",
        changed()[:-9],
        written({}, schema=1),
        written({"runtime": "runtime-a", "launch_id": "launch-1", "at": 1.0}, schema=2),
        changed(weights=-1),
        changed(weights=2**63),
        changed(weights=1.5),
        changed(pool="much"),
        changed(at=1e300),
        changed(at=-5.0),
        changed(padding="x" * LARGEST),
    ],
    ids=range(15),
)
def test_bad_content_is_an_absence_and_the_next_launch_writes_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.json").write_bytes(content)
    assert footprints.last(str(tmp_path), "p", "runtime-a") is None
    footprints.keep(str(tmp_path), "p", ONE)
    assert footprints.kept(str(tmp_path), "p") == (ONE,)


def test_a_link_at_the_temporary_files_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "p.json.tmp").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"p\.json\.tmp"):
        footprints.keep(str(tmp_path), "p", ONE)
    assert not elsewhere.exists()
