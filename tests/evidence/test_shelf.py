"""The shelf: written once, in one step; found again; damage is never hidden."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.evidence import sealed, shelf
from arcops.evidence.record import FORMAT, Record
from tests.core.evidence.measured import ladder, record

HERE, THERE = "sha256:" + "1" * 64, "sha256:" + "2" * 64
BEGAN = 1_796_000_100.0


def gated(began: float = BEGAN, profile: str = "mtp", where: str = HERE, chat: Verdict = Verdict.PASSED) -> Record:
    """A qualification of a profile."""
    gates = tuple(Gate(name, Verdict.PASSED, "") for name in ("start", "tools"))
    return Record(
        arcops_record=FORMAT,
        kind="qualification",
        arcops="0.1.0",
        began=began,
        ended=began + 1,
        command=("arcops", "qualify", profile),
        qualification=Qualification(profile, where, (*gates, Gate("chat", chat, ""))),
    )


def refusal(act: Callable[[], object]) -> ArcopsError:
    with pytest.raises(ArcopsError) as caught:
        act()
    return caught.value


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_record_is_kept_under_its_kind_time_and_digest(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path / "new" / "records", record())
    assert stored.path.name == f"ladder-20261130T005500Z-{stored.digest[7:19]}.json"
    assert stat.S_IMODE(stored.path.stat().st_mode) == 0o444
    assert stat.S_IMODE(stored.path.parent.stat().st_mode) == 0o700
    assert names(stored.path.parent) == [stored.path.name], "nothing temporary is left"
    assert shelf.read(stored.path) == stored
    assert stored.record == record()


def test_a_place_that_ends_in_json_is_a_file(tmp_path: Path) -> None:
    assert shelf.write(tmp_path / "mine.json", record()).path == tmp_path / "mine.json"
    (tmp_path / "folder.json").mkdir()
    assert shelf.write(tmp_path / "folder.json", record()).path.parent == tmp_path / "folder.json"


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, record())
    assert "a record never replaces one" in refusal(lambda: shelf.write(tmp_path, record())).message
    other = tmp_path / "taken.json"
    other.write_text("precious")
    for act in (lambda: shelf.write(other, record()), lambda: shelf.prepare(other)):
        assert "there is a file" in refusal(act).message
    dangling = tmp_path / "link.json"
    dangling.symlink_to(tmp_path / "nowhere")
    assert "there is a file" in refusal(lambda: shelf.write(dangling, record())).message
    assert other.read_text() == "precious"
    assert names(tmp_path) == sorted(["link.json", "taken.json", stored.path.name])


def test_a_name_that_nothing_can_have_is_found_before_an_hour_of_measuring(tmp_path: Path) -> None:
    said = refusal(lambda: shelf.prepare(tmp_path / f"{'a' * 300}.json"))
    assert "no record can be written as" in said.message
    assert "there is no record" in refusal(lambda: shelf.named(tmp_path, "g" * 300)).message


def test_no_more_is_read_of_a_file_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = shelf.write(tmp_path, record())
    monkeypatch.setattr(shelf, "MOST_BYTES", 1 << 60)
    assert shelf.read(stored.path) == stored, "a buffer for the most that may be there cannot be had"


def test_a_full_disk_is_refused_in_words_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = refusal(lambda: shelf.write(tmp_path, record()))
    assert said.message == f"cannot write a record into {tmp_path}: No space left on device"
    assert "make room" in said.hint
    assert names(tmp_path) == []


def test_a_file_system_without_hard_links_keeps_records_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    stored = shelf.write(tmp_path, record())
    assert shelf.read(stored.path) == stored
    assert names(tmp_path) == [stored.path.name]
    assert "there is a file" in refusal(lambda: shelf.write(tmp_path, record())).message
    assert shelf.read(stored.path) == stored


def test_a_folder_that_cannot_be_written_is_found_before_an_hour_of_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refusal(lambda: shelf.prepare(tmp_path / "file" / "records"))
    assert "cannot write a record into" in said.message
    shelf.prepare(tmp_path / "records")
    assert names(tmp_path / "records") == []


def test_what_cannot_be_is_not_written(tmp_path: Path) -> None:
    broken = msgspec.structs.replace(record(), kind="party")
    assert "says what cannot be" in refusal(lambda: shelf.write(tmp_path, broken)).message
    assert names(tmp_path) == []


def test_each_thing_that_is_no_record_is_named(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path / "r", record())
    link = tmp_path / "link.json"
    link.symlink_to(stored.path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in (
        (tmp_path / "gone.json", "there is no record"),
        (link, "is a symbolic link, and no record"),
        (tmp_path, "is a folder, and no record"),
        (stored.path / "deeper", "there is no record"),
        (pipe, "is no regular file"),
        (Path("/dev/zero"), "is no regular file"),
    ):
        assert words in refusal(lambda path=path: shelf.read(path)).message


def test_a_gigantic_file_is_not_read(tmp_path: Path) -> None:
    giant = tmp_path / "ladder.json"
    with giant.open("wb") as file:
        file.truncate(sealed.MOST_BYTES * 40)
    assert "is larger than any record: more than 128 MiB" in refusal(lambda: shelf.read(giant)).message
    (found,) = shelf.find(tmp_path)
    assert "is larger than any record" in found.problem


def test_the_newest_record_is_found_first_and_the_damaged_ones_are_there(tmp_path: Path) -> None:
    old, new = (shelf.write(tmp_path, record(began=began)) for began in (BEGAN, BEGAN + 3600))
    (tmp_path / "ladder-20261130T010000Z-000000000000.json").write_bytes(b"{}")
    (tmp_path / "notes.txt").write_text("no record, and nobody says that it is one")
    found = shelf.find(tmp_path)
    assert [one.digest for one in found] == [new.digest, None, old.digest]
    assert "is not a record of arcops" in found[1].problem
    assert found[0].head is not None
    assert found[0].head.profile == "target-only"


def test_records_of_one_kind_are_found_whatever_their_files_are_called(tmp_path: Path) -> None:
    shelf.write(tmp_path, record())
    stored = shelf.write(tmp_path, gated())
    renamed = shelf.write(tmp_path / "mine.json", gated(BEGAN - 5))
    assert [one.path for one in shelf.find(tmp_path, "qualification")] == [stored.path, renamed.path]


def test_a_folder_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert shelf.find(tmp_path / "nowhere") == ()


def test_a_time_in_a_name_that_no_calendar_has_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "ladder-99999999T999999Z-000000000000.json").write_text("")
    assert len(shelf.find(tmp_path)) == 1


def test_a_record_is_named_by_path_by_name_and_by_the_beginning_of_its_digest(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, record())
    digits = stored.digest.removeprefix("sha256:")
    for word in (str(stored.path), stored.path.name, stored.path.stem, stored.digest, digits[:4], digits[:4].upper()):
        assert shelf.named(tmp_path, word) == stored.path


@pytest.mark.parametrize("word", ["abc", "nonsense", "0000", "", "sha256:"])
def test_a_name_of_nothing_is_refused(tmp_path: Path, word: str) -> None:
    shelf.write(tmp_path, record())
    assert "there is no record" in refusal(lambda: shelf.named(tmp_path, word)).message


def test_a_beginning_of_several_digests_is_refused_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (shelf.write(tmp_path, record(began=began)) for began in (BEGAN, BEGAN + 1))
    heads = {
        stored.path: shelf.Found(stored.path, f"sha256:abcd{number}", None)
        for number, stored in enumerate((first, second))
    }
    monkeypatch.setattr(shelf, "find", lambda _folder: tuple(heads.values()))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - a stand-in
    said = refusal(lambda: shelf.named(tmp_path, "abcd"))
    assert (first.path.name in said.message, second.path.name in said.message) == (True, True)
    assert said.exit_code is ExitCode.USAGE
    assert shelf.named(tmp_path, "abcd1") == second.path


def test_a_copy_of_a_record_makes_its_digest_no_less_clear(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, record())
    shelf.write(tmp_path / "copy.json", record())
    assert shelf.read(shelf.named(tmp_path, stored.digest)).digest == stored.digest


def test_a_profile_is_qualified_only_in_the_very_environment(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, gated())
    assert shelf.qualified_in(tmp_path, "mtp", HERE) == stored
    assert shelf.qualified_in(tmp_path, "mtp", THERE) is None
    assert shelf.qualified_in(tmp_path, "dflash2", HERE) is None
    assert shelf.qualified_in(tmp_path / "nowhere", "mtp", HERE) is None


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED])
def test_what_did_not_pass_qualifies_nothing(tmp_path: Path, verdict: Verdict) -> None:
    shelf.write(tmp_path, gated(chat=verdict))
    assert shelf.qualified_in(tmp_path, "mtp", HERE) is None
    assert shelf.latest_qualified(tmp_path, "mtp") is None


def test_an_environment_that_failed_since_is_not_qualified_any_more(tmp_path: Path) -> None:
    elsewhere = shelf.write(tmp_path, gated(BEGAN - 10, where=THERE))
    shelf.write(tmp_path, gated(BEGAN))
    shelf.write(tmp_path, gated(BEGAN + 10, chat=Verdict.FAILED))
    assert shelf.qualified_in(tmp_path, "mtp", HERE) is None
    assert shelf.latest_qualified(tmp_path, "mtp") == elsewhere
    again = shelf.write(tmp_path, gated(BEGAN + 20))
    assert shelf.qualified_in(tmp_path, "mtp", HERE) == again


def test_what_could_not_be_told_takes_nothing_back(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, gated(BEGAN))
    shelf.write(tmp_path, gated(BEGAN + 10, chat=Verdict.UNKNOWN))
    assert shelf.qualified_in(tmp_path, "mtp", HERE) == stored
    assert shelf.latest_qualified(tmp_path, "mtp") == stored


def test_a_qualification_that_was_edited_qualifies_nothing(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, gated(chat=Verdict.FAILED))
    content = stored.path.read_bytes()
    stored.path.unlink()
    stored.path.write_bytes(content.replace(b'"failed"', b'"passed"'))
    assert shelf.qualified_in(tmp_path, "mtp", HERE) is None
    assert shelf.latest_qualified(tmp_path, "mtp") is None
    (found,) = shelf.find(tmp_path, "qualification")
    assert "was edited after it was written" in found.problem


def test_a_record_of_a_long_ladder_is_written_and_read_in_seconds(tmp_path: Path) -> None:
    stored = shelf.write(tmp_path, record(ladder(passes=200)))
    assert len(shelf.read(stored.path).record.run.stages) == 401  # type: ignore[union-attr]
