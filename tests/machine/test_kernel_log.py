"""The kernel's log: read to its end and no further, in milliseconds; or why not."""

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.core.diagnosis.kernel import KernelLine
from arcops.core.quantity import Known, Unknown
from arcops.machine import kernel_log
from tests.helpers import cannot_run_here
from tests.machine.processes import as_nobody

NOW = 10_000.0


def record(at: float, text: str) -> bytes:
    return f"6,1,{at * 1e6:.0f},-;{text}\n SUBSYSTEM=pci\n".encode()


def reads(*answers: bytes | OSError) -> Callable[[int, int], bytes]:
    """A descriptor of /dev/kmsg: one record a read, then EAGAIN."""
    left = list(answers)

    def read(descriptor: int, size: int) -> bytes:
        answer = left.pop(0) if left else BlockingIOError(errno.EAGAIN, "again")
        if isinstance(answer, OSError):
            raise answer
        return answer

    return read


@pytest.fixture
def anything(tmp_path: Path) -> str:
    file = tmp_path / "kmsg"
    file.touch()
    return str(file)


def test_lines_since_the_moment_are_read_to_the_end_over_an_overrun(
    monkeypatch: pytest.MonkeyPatch, anything: str
) -> None:
    answers = (
        record(5000, "old"),
        BrokenPipeError(errno.EPIPE, "overrun"),
        record(9000, "xe 0000:03:00.0: a"),
        record(9001, "b"),
    )
    monkeypatch.setattr(os, "read", reads(*answers))
    got = kernel_log.read(8999.0, NOW, anything)
    assert got == Known((KernelLine(9000.0, "xe 0000:03:00.0: a"), KernelLine(9001.0, "b")), NOW)


def test_the_logs_clock_may_be_a_little_off(monkeypatch: pytest.MonkeyPatch, anything: str) -> None:
    monkeypatch.setattr(os, "read", reads(record(8998.5, "just before"), record(8000, "long before")))
    got = kernel_log.read(9000.0, NOW, anything)
    assert isinstance(got, Known)
    assert [line.text for line in got.value] == ["just before"]
    month = 30 * 86_400.0
    assert month - 300 < kernel_log.moment(month, month) < month - 60


def test_half_a_log_does_not_pass_for_all_of_it(monkeypatch: pytest.MonkeyPatch, anything: str) -> None:
    monkeypatch.setattr(kernel_log, "MAX_RECORDS", 3)
    monkeypatch.setattr(os, "read", reads(*[record(9000, "x")] * 3))
    assert isinstance(kernel_log.read(0.0, NOW, anything), Unknown)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOENT, errno.EINVAL])
def test_a_log_that_may_not_be_read_is_unknown_with_what_to_do(
    number: int, monkeypatch: pytest.MonkeyPatch, anything: str
) -> None:
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(os, "read", reads(error))
    at_read = kernel_log.read(0.0, NOW, anything)

    def refused(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refused)
    for got in (at_read, kernel_log.read(0.0, NOW, anything)):
        assert isinstance(got, Unknown)
        assert os.strerror(number) in got.reason
        assert "dmesg_restrict" in got.reason
        assert "systemd-journal" in got.reason


def test_a_file_that_ends_is_read_to_its_end(tmp_path: Path) -> None:
    assert kernel_log.read(0.0, NOW, str(tmp_path / "none")) != Known((), NOW)
    file = tmp_path / "kmsg"
    file.write_bytes(b"")
    assert kernel_log.read(0.0, NOW, str(file)) == Known((), NOW)


def test_the_real_log_is_read_in_milliseconds() -> None:
    began = time.process_time()
    got = kernel_log.read(0.0, time.monotonic())
    spent = time.process_time() - began  # of the processor: another program may have it meanwhile
    if isinstance(got, Unknown):
        cannot_run_here(got.reason)
    assert got.value, "every boot has its lines"
    assert all(0 <= line.at < time.monotonic() + 60 for line in got.value)
    assert spent < 0.5, f"{spent:.3f} s of processor time for {len(got.value)} lines"
    assert kernel_log.read(time.monotonic() + 3600, time.monotonic()) == Known((), got.at) or got.value


@pytest.mark.processes
def test_a_user_without_rights_is_told_why() -> None:
    if Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "0":
        pytest.skip("everybody may read the kernel's log here")
    words = as_nobody(lambda: getattr(kernel_log.read(0.0, NOW), "reason", "it could be read"))
    assert "Operation not permitted" in words or "Permission denied" in words


def printing(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r})")


@pytest.mark.processes
def test_the_journal_is_the_second_source() -> None:
    text = "[ 9000.000001] box kernel: xe 0000:03:00.0: a\n[ 9001.0] box kernel: b\n[    1.0] box kernel: Linux version"
    got = kernel_log.read_journal(8999.0, NOW, printing(text))
    assert got == Known((KernelLine(9000.000001, "xe 0000:03:00.0: a"), KernelLine(9001.0, "b")), NOW)
    assert kernel_log.read_journal(9500.0, NOW, printing(text)) == Known((), NOW)


@pytest.mark.processes
def test_a_journal_that_shows_nothing_is_unknown() -> None:
    for text in ("", "-- No entries --", "[ 9000.0] box sshd[7]: Out of memory: Killed process 1 (x)"):
        got = kernel_log.read_journal(0.0, NOW, printing(text))
        assert isinstance(got, Unknown)
        assert "shows this user nothing" in got.reason
        assert "dmesg_restrict" in got.reason


@pytest.mark.processes
def test_a_journal_that_hangs_or_is_not_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "JOURNAL_WITHIN", 0.2)
    hung = kernel_log.read_journal(0.0, NOW, ("sleep", "600"))
    assert isinstance(hung, Unknown)
    assert "no end within" in hung.reason
    missing = kernel_log.read_journal(0.0, NOW, ("/nonexistent/journalctl",))
    assert isinstance(missing, Unknown)
    assert "No such file" in missing.reason


def test_whose_pids_the_kernel_names_is_known() -> None:
    assert kernel_log.names_our_pids() == (os.readlink("/proc/self/ns/pid") == "pid:[4026531836]")
