import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.launch import Launch
from arcops.core.world import ProcessId
from arcops.machine import process, record
from arcops.machine.record import LaunchRecord, StandsInFor, Unbelievable

LAUNCH = Launch(
    profile="dflash2",
    argv=("/opt/vllm/bin/vllm", "serve", "/models/q"),
    environment=(("A", "1"),),
    setup=None,
    host="127.0.0.1",
    port=8000,
    served_name="q",
    api_key_file=None,
    locks=("/sys/bus/pci/devices/0000:03:00.0",),
    cards=("0000:03:00.0",),
    speculates=True,
)
RECORD = LaunchRecord(
    launch_id="L1",
    boot_id="boot",
    instance="main",
    launch=LAUNCH,
    enclosure=Enclosure(EnclosureKind.SCOPE, "arcops-main-L1.scope"),
    status_path="/run/s",
    log_path="/var/l",
    spawned_at=1.5,
    spawned_monotonic=2.5,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "launch.json")


def reason(found: object) -> str:
    assert isinstance(found, Unbelievable)
    return found.reason


def test_a_record_is_read_as_it_was_written_and_only_by_its_owner(path: str) -> None:
    full = replace(RECORD, keeper=ProcessId(1, 2), main=ProcessId(3, 4), proven=True)
    record.write(path, RECORD)
    record.write(path, full)
    assert record.read(path, "boot") == full
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["launch.json"]


def test_a_record_that_is_not_there_is_none(path: str) -> None:
    assert record.read(path, "boot") is None
    record.remove(path)


def test_a_removed_record_is_gone(path: str) -> None:
    record.write(path, RECORD)
    record.remove(path)
    assert record.read(path, "boot") is None


def test_a_record_of_another_boot_is_not_believed(path: str) -> None:
    record.write(path, RECORD)
    assert "earlier boot" in reason(record.read(path, "another"))


def test_a_record_of_another_schema_is_not_believed_whatever_it_looks_like(path: str) -> None:
    Path(path).write_text(json.dumps({"schema": 99, "boot_id": "boot", "new": True}))
    assert "schema 99" in reason(record.read(path, "boot"))


def test_whose_processes_a_record_of_another_schema_speaks_of_can_be_read_and_it_is_not_worthless(path: str) -> None:
    record.write(path, replace(RECORD, keeper=ProcessId(1, 2), main=ProcessId(3, 4), schema=99))
    found = record.read(path, "boot")
    assert isinstance(found, Unbelievable)
    assert not found.worthless
    assert (found.enclosure, found.keeper, found.main) == (RECORD.enclosure, ProcessId(1, 2), ProcessId(3, 4))


def test_only_what_nobody_will_ever_read_is_worthless(path: str) -> None:
    record.write(path, RECORD)
    earlier = record.read(path, "another")
    os.truncate(path, 100)
    torn = record.read(path, "boot")
    os.unlink(path)
    os.mkdir(path)
    unread = record.read(path, "boot")
    assert [isinstance(one, Unbelievable) and one.worthless for one in (earlier, torn, unread)] == [True, True, False]


def test_a_record_of_an_arcops_that_did_not_say_what_it_stands_in_for_is_read(path: str) -> None:
    told = replace(RECORD, stands_in_for=StandsInFor(3, "guarded", "bad value"))
    record.write(path, told)
    assert record.read(path, "boot") == told
    written = json.loads(Path(path).read_text())
    del written["stands_in_for"]
    Path(path).write_text(json.dumps(written))
    assert record.read(path, "boot") == RECORD


def test_a_record_of_an_arcops_that_did_not_say_when_it_was_ready_is_read(path: str) -> None:
    record.write(path, RECORD)
    content = json.loads(Path(path).read_text())
    del content["ready_at"]
    Path(path).write_text(json.dumps(content))
    assert record.read(path, "boot") == RECORD


@pytest.mark.parametrize("keep", [0, 1, 100])
def test_a_torn_record_is_not_believed(path: str, keep: int) -> None:
    record.write(path, RECORD)
    os.truncate(path, keep)
    assert "torn" in reason(record.read(path, "boot"))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"null", b'{"schema": 1, "boot_id": "boot"}', b"{}" * 600_000])
def test_garbage_is_not_believed(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    assert "torn" in reason(record.read(path, "boot"))


def test_a_record_that_cannot_be_read_is_not_believed(path: str) -> None:
    os.mkdir(path)
    assert "cannot be read" in reason(record.read(path, "boot"))


def test_a_reused_pid_in_a_record_is_not_alive(path: str) -> None:
    mine = process.identify(os.getpid())
    assert mine is not None
    record.write(
        path, replace(RECORD, boot_id=process.boot_id(), main=replace(mine, start=mine.start - 1), keeper=mine)
    )
    found = record.read(path, process.boot_id())
    assert isinstance(found, LaunchRecord)
    assert found.main is not None
    assert found.keeper is not None
    assert not process.alive(found.main)
    assert process.alive(found.keeper)
