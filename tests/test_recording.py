"""The file of a recording: what is written is read, cut off or packed; what is none is refused in words."""

import gzip
import os
import stat
from pathlib import Path

import msgspec
import pytest

from arcops import recording, wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.recording import Entry, Gone, Header, Recording, Writer
from tests.tui import scenes

HEADER = Header(arcops_recording=1, arcops="0.1.0", instance="main", at=scenes.NOW, window=60.0, logs=True)
LINES = wire.LogLines(launch_id=scenes.LAUNCH, lines=("one", "two"))
EVENT = wire.Event(id=7, at=scenes.NOW, kind="phase", phase="serving", profile="a", launch_id=None, reason="r")
ENTRIES = (
    Entry(at=0.1, status=scenes.busy()),
    Entry(at=0.2, history=scenes.history(5)),
    Entry(at=0.3, log=LINES, anew=True),
    Entry(at=0.4, event=EVENT),
    Entry(at=1.1, status=scenes.speculating()),
    Entry(at=2.0, gone=Gone(problem="the daemon has ended", hint="is it being restarted?")),
    Entry(at=3.5, supervisor=("WARNING 01-15 08:00:01 [arcopsd] started",), anew=True),
)


def written(path: Path, entries: tuple[Entry, ...] = ENTRIES, header: Header = HEADER) -> Path:
    with recording.writing(path, header) as writer:
        for entry in entries:
            writer.add(entry)
    return path


def refusal(path: Path) -> ArcopsError:
    with pytest.raises(ArcopsError) as caught:
        recording.read(path)
    return caught.value


@pytest.fixture(params=["it.rec", "it.rec.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_what_was_written_is_read(path: Path) -> None:
    found = recording.read(written(path))
    assert (found.header, found.length, found.cut) == (HEADER, 3.5, False)
    assert [found.beat(index) for index in range(3)] == [ENTRIES[0], ENTRIES[4], ENTRIES[5]]
    assert found.log == [(0.3, ENTRIES[2])]
    assert found.events == [(0.4, EVENT)]
    assert [point for _, point in found.history] == list(scenes.history(5))
    assert found.supervisor == [(3.5, ENTRIES[6])]


def test_cards_are_in_it_as_the_status_and_the_history_tell_them(path: Path) -> None:
    glance = wire.CardGlance(
        address="0000:03:00.0", name=None, at=scenes.NOW, memory_used=1.0, memory_total=2.0, power=None,
        temperature=3.0, clock=4.0, busy=0.5, throttling=("thermal",), resets=1, absent={"power": "not in this driver"},
    )  # fmt: skip
    power = wire.Spread(mean=171.0, low=42.0, high=190.0)
    samples = wire.Samples(
        step=1.0, points=(msgspec.structs.replace(scenes.samples(1)[0], card_power=power),), next=None
    )
    status = msgspec.structs.replace(scenes.busy(), cards=(glance,))
    found = recording.read(written(path, (Entry(at=0.1, status=status), Entry(at=0.2, samples=samples))))
    assert found.beat(0).status == status
    assert found.samples == [(0.2, samples)]


def test_a_name_that_ends_in_gz_is_packed_and_told_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    packed = written(tmp_path / "it.gz")
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert recording.read(packed.rename(tmp_path / "plain.rec")).length == 3.5


def test_it_is_for_its_owner_only(path: Path) -> None:
    assert stat.S_IMODE(written(path).stat().st_mode) == 0o600


@pytest.mark.parametrize("lost", [1, 10, 200])
def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(path: Path, lost: int) -> None:
    content = written(path).read_bytes()
    path.write_bytes(content[:-lost])
    found = recording.read(path)
    assert found.cut
    assert found.beats


def test_what_was_flushed_is_readable_whatever_happens_next(path: Path) -> None:
    with recording.writing(path, HEADER) as writer:
        writer.add(ENTRIES[0])
        writer.flush()
        assert recording.read(path).beat(0) == ENTRIES[0]
        writer.add(ENTRIES[4])


def test_a_time_that_goes_back_counts_as_the_one_before_it(tmp_path: Path) -> None:
    found = recording.read(written(tmp_path / "it.rec", (ENTRIES[4], ENTRIES[0])))
    assert [at for at, _ in found.beats] == [1.1, 1.1]


def test_what_a_later_version_adds_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "it.rec")
    with path.open("a") as file:
        file.write('{"at": 9.0, "weather": {"rain": true}}\n')
    assert recording.read(path).length == 9.0


@pytest.mark.parametrize(
    ("content", "says", "code"),
    [
        (b"", "is no recording of arcops", ExitCode.FAILED),
        (b"hello\nworld\n", "is no recording of arcops", ExitCode.FAILED),
        (b'{"schema": 1}\n', "is no recording of arcops", ExitCode.FAILED),
        (b"\x1f\x8bnot really", "damaged", ExitCode.FAILED),
        (gzip.compress(b"{}\n"), "is no recording of arcops", ExitCode.FAILED),
        (msgspec.json.encode(HEADER) + b"\n", "no status is in it", ExitCode.FAILED),
        (msgspec.json.encode(HEADER) + b'\n{"at":1}\nnonsense\n{"at":2}\n', "line 3 cannot be read", ExitCode.FAILED),
    ],
)
def test_what_is_no_recording_is_refused_with_a_hint(tmp_path: Path, content: bytes, says: str, code: ExitCode) -> None:
    path = tmp_path / "it.rec"
    path.write_bytes(content)
    error = refusal(path)
    assert says in error.message
    assert error.hint
    assert error.exit_code is code


def test_one_of_a_newer_format_names_the_version_that_plays_it(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(HEADER, arcops_recording=2, arcops="9.1")
    error = refusal(written(tmp_path / "it.rec", header=newer))
    assert "newer format" in error.message
    assert "arcops 9.1 or later" in error.hint


def test_a_file_that_is_not_there_is_a_wrong_word_on_the_command_line(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nothing.rec")
    assert "No such file" in error.message
    assert error.exit_code is ExitCode.USAGE


def test_what_is_there_is_not_overwritten_unless_that_is_wanted(path: Path) -> None:
    written(path)
    with pytest.raises(ArcopsError, match="is there already") as caught, recording.writing(path, HEADER):
        pytest.fail("it was opened")
    assert caught.value.exit_code is ExitCode.USAGE
    with recording.writing(path, HEADER, force=True) as writer:
        writer.add(ENTRIES[4])
    assert recording.read(path).beat(0) == ENTRIES[4]


def test_what_is_no_plain_file_is_never_taken_away(tmp_path: Path) -> None:
    there = tmp_path / "link"
    there.symlink_to("/dev/stdout")
    with (
        pytest.raises(ArcopsError, match="no plain file"),
        recording.writing(there, HEADER, force=True),
    ):
        pytest.fail("it was opened")
    assert there.is_symlink()


def test_a_recording_that_grows_too_large_ends_and_stays_readable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 20_000)

    def fill(writer: Writer) -> None:
        while True:
            writer.add(ENTRIES[0])

    with pytest.raises(recording.FullError), recording.writing(path, HEADER) as writer:
        fill(writer)
    found = recording.read(path)
    assert len(found.beats) > 3
    assert not found.cut


def test_one_that_is_larger_than_any_is_not_read_to_its_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path)
    monkeypatch.setattr(recording, "MOST_BYTES", 2_000)
    assert "longer than any" in refusal(path).message


def test_a_full_disk_is_told_in_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(recording.os, "open", lambda *_: full)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - in its place
    with pytest.raises(ArcopsError, match=r"cannot write .*: No space left"), recording.writing(path, HEADER):
        pytest.fail("it was opened")


def test_statuses_are_not_kept_as_objects(tmp_path: Path) -> None:
    """A day of them would be a gigabyte."""
    found: Recording = recording.read(written(tmp_path / "it.rec"))
    assert all(isinstance(line, bytes) for _, line in found.beats)
