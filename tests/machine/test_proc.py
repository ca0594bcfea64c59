import mmap
import os
from pathlib import Path

import pytest

from arcops.machine import proc


def test_a_command_may_contain_brackets_and_spaces() -> None:
    fields = ["S", "7", "9", "9", "0", "-1", "4194304", *["0"] * 4, "12", "30", "0", "0", "20", "0", "1", "0", "4242"]
    found = proc.parse_stat(f"17 (a) b (c)) {' '.join(fields)} 1 2 3")
    assert found == proc.Stat(17, "a) b (c)", "S", 7, 9, 4194304, 42, 1, 4242)


@pytest.mark.parametrize("text", ["", "17", "17 (x)", "17 (x) S 1 2", "x (y) " + "S " * 30])
def test_anything_else_is_no_process(text: str) -> None:
    assert proc.parse_stat(text) is None


def test_a_zombie_with_running_threads_has_not_ended() -> None:
    zombie = proc.Stat(1, "x", "Z", 0, 1, 0, 0, 1, 1)
    assert zombie.ended
    assert not proc.Stat(1, "x", "Z", 0, 1, 0, 0, 2, 1).ended


def test_this_process_is_described() -> None:
    assert proc.describe(os.getpid())[1] == proc.user_name(os.getuid())


def test_a_process_that_has_gone_is_unknown_and_not_an_error() -> None:
    gone = 2**22 + 1  # above the largest pid_max
    assert proc.stat(gone) is None
    assert proc.describe(gone) == (None, None)
    assert proc.descriptors(gone) == ()
    assert proc.descriptor_info(gone, "0") is None


def test_a_user_without_a_name_is_a_number() -> None:
    assert proc.user_name(3_999_999_999) == "3999999999"


def test_descendants_in_a_circle_come_to_an_end() -> None:
    def one(pid: int, parent: int) -> proc.Stat:
        return proc.Stat(pid, "x", "S", parent, 1, 0, 0, 1, 1)

    assert proc.below(10, (one(10, 12), one(11, 10), one(12, 11), one(13, 99))) == {11, 12}


def test_mounts_are_named_as_they_are_and_not_as_the_table_writes_them(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text("tmpfs /a\\040b\\134c tmpfs rw 0 0\ncg /sys/cg cgroup2 rw 0 0\n")
    assert proc.mounts(str(tmp_path)) == ("/a b\\c", "/sys/cg")
    assert proc.cgroup_mount(str(tmp_path)) == "/sys/cg"
    assert proc.cgroup_mount(str(tmp_path / "nowhere")) is None


def test_what_a_process_maps_has_an_inode_and_a_path(tmp_path: Path) -> None:
    path = tmp_path / "with a blank"
    path.write_bytes(bytes(16))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert (path.stat().st_ino, str(path)) in proc.mappings(os.getpid())
    assert proc.mappings(2**22 + 1) == frozenset()
