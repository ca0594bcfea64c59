"""Hashes of files: read once, known by their inode, and never believed where somebody could have lied."""

import hashlib
import os
from pathlib import Path

import pytest

from arcops.machine import hashes
from arcops.machine.hashes import MAGIC, Hashes

LATER = 4_000_000_000.0
"""Long after anything here was written: what is read is remembered."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_bytes(b"as it was")
    return path


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "hashes")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def remembered(memory: str, file: Path) -> Hashes:
    """A memory that knows the file, written down and read again."""
    first = Hashes(memory, clock=lambda: LATER)
    first.of(str(file))
    first.keep()
    return Hashes(memory, clock=lambda: LATER)


def test_a_file_is_read_once(memory: str, file: Path) -> None:
    again = remembered(memory, file)
    assert again.of(str(file)) == sha256(b"as it was")
    assert again.known(str(file)) == sha256(b"as it was")
    assert (again.counts.files, again.counts.read, again.counts.bytes_read) == (1, 0, 0)


@pytest.mark.parametrize("content", [b"otherwise", b"as it was, and more"])
def test_a_file_that_was_written_to_is_read_again_whatever_its_time_says(
    memory: str, file: Path, content: bytes
) -> None:
    before = file.stat()
    again = remembered(memory, file)
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert again.known(str(file)) is None
    assert again.of(str(file)) == sha256(content)


def test_a_file_that_was_replaced_by_another_of_its_time_and_size_is_read_again(memory: str, file: Path) -> None:
    again = remembered(memory, file)
    before = file.stat()
    other = file.with_name("other")
    other.write_bytes(b"otherwise")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)
    assert again.of(str(file)) == sha256(b"otherwise")


def test_what_was_touched_a_moment_ago_is_not_remembered(memory: str, file: Path) -> None:
    first = Hashes(memory, clock=lambda: file.stat().st_ctime + hashes.SETTLED / 2)
    first.of(str(file))
    first.keep()
    assert Hashes(memory).known(str(file)) is None


def test_without_belief_everything_is_read_anew_and_once(memory: str, file: Path) -> None:
    remembered(memory, file)
    full = Hashes(memory, believe=False, clock=lambda: LATER)
    assert full.known(str(file)) is None
    full.of(str(file))
    full.of(str(file))
    assert (full.counts.files, full.counts.read) == (2, 1)


def test_a_forged_hash_of_the_right_form_is_caught_by_a_full_look(memory: str, file: Path) -> None:
    """Who can write there as this user is believed, and could change the runtime as well: --full is the answer."""
    remembered(memory, file)
    head, _, body = Path(memory).read_bytes().partition(b"\n")
    forged = body.replace(sha256(b"as it was").encode(), b"0" * 64)
    assert forged != body
    Path(memory).write_bytes(MAGIC + hashlib.sha256(forged).hexdigest().encode() + b"\n" + forged)
    assert len(head) == len(MAGIC) + 64
    assert Hashes(memory).of(str(file)) == "0" * 64
    assert Hashes(memory, believe=False).of(str(file)) == sha256(b"as it was")


@pytest.mark.parametrize("cut", [0, 1, 20, 90, 120, -1])
def test_a_torn_memory_is_not_believed(memory: str, file: Path, cut: int) -> None:
    remembered(memory, file)
    content = Path(memory).read_bytes()
    Path(memory).write_bytes(content[:cut])
    assert Hashes(memory).known(str(file)) is None


def test_a_memory_with_one_digit_changed_is_not_believed(memory: str, file: Path) -> None:
    remembered(memory, file)
    content = Path(memory).read_bytes()
    Path(memory).write_bytes(content.replace(sha256(b"as it was").encode(), b"0" * 64))
    assert Hashes(memory).known(str(file)) is None


def test_a_memory_that_others_may_write_to_is_not_believed(memory: str, file: Path) -> None:
    remembered(memory, file)
    os.chmod(memory, 0o620)
    assert Hashes(memory).known(str(file)) is None


def test_a_link_in_the_memorys_place_is_not_followed(memory: str, file: Path) -> None:
    remembered(memory, file)
    os.rename(memory, f"{memory}.real")
    os.symlink(f"{memory}.real", memory)
    assert Hashes(memory).known(str(file)) is None


def test_a_pipe_in_the_memorys_place_keeps_nobody_waiting(memory: str, file: Path) -> None:
    os.mkdir(os.path.dirname(memory))
    os.mkfifo(memory)
    assert Hashes(memory).known(str(file)) is None


def test_a_well_formed_memory_of_nonsense_is_not_believed(memory: str, file: Path) -> None:
    os.mkdir(os.path.dirname(memory))
    for body in (b"{}", b"[[1]]", b"[" * 100_000, b'[[-1,1,1,1,1,"sha256",7,1]]'):
        Path(memory).write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        os.chmod(memory, 0o600)
        assert Hashes(memory).known(str(file)) is None


def test_what_nobody_has_come_across_for_long_is_forgotten(memory: str, file: Path) -> None:
    remembered(memory, file)
    much_later = Hashes(memory, clock=lambda: LATER + (hashes.KEEP_DAYS + 1) * 86_400)
    much_later.keep()
    assert Hashes(memory).known(str(file)) is None


def test_what_is_no_regular_file_is_refused_at_once(memory: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), str(tmp_path), "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            Hashes(memory).of(path)
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            hashes.read(path)


def test_a_file_that_is_written_to_while_it_is_read_has_no_hash(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(b"x" * 100)
    real = hashlib.new

    def touching(*arguments: object, **named: object) -> object:
        with file.open("ab") as opened:
            opened.write(b"more")
        return real(str(arguments[0]), usedforsecurity=False)

    monkeypatch.setattr(hashlib, "new", touching)
    with pytest.raises(OSError, match="written to while it was read"):
        hashes.read(str(file))


def test_a_file_may_be_hashed_in_more_than_one_way(memory: str, file: Path) -> None:
    one = Hashes(memory, clock=lambda: LATER)
    assert one.of(str(file), "sha512") == hashlib.sha512(b"as it was").hexdigest()
    assert one.of(str(file)) == sha256(b"as it was")
    assert one.counts.read == 2
