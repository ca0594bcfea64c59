import os
from pathlib import Path

import pytest

from arcops.machine.backend_log import LogFollower, prune, size, tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "backend.log"


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_only_complete_lines_come_and_each_once(log: Path) -> None:
    follower = LogFollower(str(log))
    assert follower.read_new() == []
    append(log, b"one\ntwo\nthr")
    assert follower.read_new() == ["one", "two"]
    assert follower.read_new() == []
    append(log, b"ee\n")
    assert follower.read_new() == ["three"]


def test_of_a_progress_bar_the_last_state_is_kept(log: Path) -> None:
    append(log, b"\r 0%\r 50%\r100%\nnext\r\n")
    assert LogFollower(str(log)).read_new() == ["100%", "next"]


def test_a_running_progress_bar_shows_its_newest_complete_state(log: Path) -> None:
    follower = LogFollower(str(log))
    append(log, b"\rloading 10%\rloading 20%\rload")
    assert follower.read_new() == ["loading 20%"]
    append(log, b"ing 30%")
    assert follower.read_new() == []
    append(log, b"\r")
    assert follower.read_new() == []
    append(log, b"\rloading 100%\n")
    assert follower.read_new() == ["loading 100%"]


def test_a_carriage_return_at_the_end_of_a_read_may_belong_to_a_line_end(log: Path) -> None:
    follower = LogFollower(str(log))
    append(log, b"windows\r")
    assert follower.read_new() == []
    append(log, b"\nunix\n")
    assert follower.read_new() == ["windows", "unix"]


def test_who_skips_to_the_end_gets_only_what_comes_after(log: Path) -> None:
    follower = LogFollower(str(log))
    follower.skip_to_end()
    append(log, b"x\n" * 300_000 + b"half")
    follower.skip_to_end()
    append(log, b" and half\nnew\n")
    assert follower.read_new() == [" and half", "new"]


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    append(log, b"a\xff\xfeb\n\x00\n")
    assert LogFollower(str(log)).read_new() == ["a\ufffd\ufffdb", "\x00"]


def test_a_character_cut_in_two_by_the_read_is_whole_in_the_line(log: Path) -> None:
    follower = LogFollower(str(log))
    encoded = "µ".encode()
    append(log, encoded[:1])
    assert follower.read_new() == []
    append(log, encoded[1:] + b"\n")
    assert follower.read_new() == ["µ"]


def test_a_truncated_file_is_read_from_its_new_beginning(log: Path) -> None:
    follower = LogFollower(str(log))
    append(log, b"old line\nhalf")
    follower.read_new()
    log.write_bytes(b"new\n")
    assert follower.read_new() == ["new"]


def test_a_file_that_is_removed_and_made_again_is_read_from_its_beginning(log: Path) -> None:
    follower = LogFollower(str(log))
    append(log, b"old\n")
    follower.read_new()
    other = log.with_name("other")
    other.write_bytes(b"a longer first line\n")
    log.unlink()
    assert follower.read_new() == []
    os.replace(other, log)
    assert follower.read_new() == ["a longer first line"]


def test_a_flood_comes_in_bounded_portions_and_is_complete(log: Path) -> None:
    append(log, b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 9_999)
    follower = LogFollower(str(log))
    portions = [follower.read_new() for _ in range(5)]
    assert max(len(portion) for portion in portions) <= 256 * 1024 // 100 + 1
    assert sum(len(portion) for portion in portions) == 10_000


def test_a_line_without_end_is_cut(log: Path) -> None:
    append(log, b"z" * 200_000)
    (line,) = LogFollower(str(log)).read_new()
    assert len(line) == 64 * 1024


def test_the_tail_is_read_from_the_end(log: Path) -> None:
    append(log, b"".join(b"line %d\n" % number for number in range(50_000)))
    assert tail(str(log), 3) == ["line 49997", "line 49998", "line 49999"]
    append(log, b"half")
    assert tail(str(log), 2) == ["line 49999", "half"]


def test_the_tail_of_little_or_nothing_is_what_there_is(log: Path) -> None:
    assert tail(str(log), 5) == []
    append(log, b"one\ntwo\n")
    assert tail(str(log), 5) == ["one", "two"]
    assert tail(str(log), 0) == []


def test_the_tail_is_bounded(log: Path) -> None:
    append(log, b"\n" + b"q" * 3_000_000)
    assert len(tail(str(log), 10)[-1]) <= 64 * 1024


def test_the_size_of_a_missing_log_is_unknown(log: Path) -> None:
    assert size(str(log)) is None
    append(log, b"12345")
    assert size(str(log)) == 5


def test_the_newest_logs_stay(tmp_path: Path) -> None:
    for number in range(5):
        file = tmp_path / f"L{number}.log"
        file.touch()
        os.utime(file, (number, number))
    (tmp_path / "other.txt").touch()
    prune(str(tmp_path), keep=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["L3.log", "L4.log", "other.txt"]
    prune(str(tmp_path / "missing"))
