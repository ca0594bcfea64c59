"""Bounded reads: from the start, from the end, and of what is no file."""

import os
from pathlib import Path

import pytest

from arcops.machine import files


def test_the_end_of_a_file_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    assert files.end(path, 100).content == b"one\ntwo\nthree\n"
    assert files.end(path, 100).whole
    assert files.end(path, 9).content == b"three\n"
    assert files.end(path, 10).content == b"two\nthree\n", "the line that begins just there is whole"
    assert not files.end(path, 9).whole
    assert files.end(path, 5).content == b"", "no line of the rest is whole"


def test_the_start_of_a_file_says_how_much_there_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    part = files.start(path, 10)
    assert (part.content, part.size, part.whole) == (b"x" * 10, 100, False)
    assert files.start(Path("/proc/self/limits"), 65536).whole


def test_nobody_waits_for_a_pipe_and_no_link_is_followed_unasked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for read in (files.start, files.end):
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path / "pipe", 10)
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path, 10)
        with pytest.raises(OSError, match="symbolic links"):
            read(tmp_path / "link", 10, follow=False)
        assert read(tmp_path / "link", 10**6).content
