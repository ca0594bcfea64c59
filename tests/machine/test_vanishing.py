"""Entries of /proc that vanish, or are forbidden, while they are read: never an error, and never "nobody"."""

import builtins
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.world import ProcessId
from arcops.machine import cgroup, lock, proc, process, sockets
from arcops.machine.gpu import scan

GONE = (errno.ENOENT, errno.ESRCH)
ME = os.getpid()


@pytest.fixture(params=[*GONE, errno.EACCES], ids=["ENOENT", "ESRCH", "EACCES"])
def fault(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, *ends: str) -> list[str]:
    """Opening, listing or following a path that ends so, or lies below a folder that does, fails; what was refused."""
    refused: list[str] = []

    def checked(original: Callable[..., Any]) -> Callable[..., Any]:
        def perhaps(path: Any, *arguments: Any, **named: Any) -> Any:
            text = str(path) if isinstance(path, str | Path) else ""
            if text.startswith("/proc/") and any(text.endswith(end) or f"{end}/" in text for end in ends):
                refused.append(text)
                raise OSError(number, os.strerror(number), text)
            return original(path, *arguments, **named)

        return perhaps

    monkeypatch.setattr(builtins, "open", checked(builtins.open))
    for name in ("listdir", "readlink", "stat"):
        monkeypatch.setattr(os, name, checked(getattr(os, name)))
    return refused


def test_a_stat_that_vanishes_is_a_process_that_has_gone(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    myself = process.identify(ME)
    assert myself is not None
    refused = refuse(monkeypatch, fault, f"/{ME}/stat")
    assert proc.stat(ME) is None
    assert process.identify(ME) is None
    assert not process.alive(myself)
    assert process.cpu_seconds([ME]) == 0.0
    assert ME not in [one.pid for one in proc.every_stat()]
    assert process.open_pidfd(myself) is None
    assert refused


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_who_is_out_of_descriptors_does_not_take_anybody_for_gone(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    myself = process.identify(ME)
    assert myself is not None
    refuse(monkeypatch, number, f"/{ME}/stat", f"/{ME}/fd", f"/{ME}/fdinfo", f"/{ME}/cmdline")
    for look in (
        lambda: process.alive(myself),
        lambda: tuple(proc.every_stat()),
        lambda: proc.descriptors(ME),
        lambda: proc.descriptor_info(ME, "0"),
        lambda: process.find_script("keeper.py", "a launch"),
    ):
        with pytest.raises(OSError, match=os.strerror(number)):
            look()


def test_what_cannot_be_described_is_none(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    refuse(monkeypatch, fault, f"/{ME}/status")
    assert proc.describe(ME) == (None, None)


@pytest.mark.parametrize("number", GONE)
def test_descriptors_that_vanish_are_none(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    refuse(monkeypatch, number, f"/{ME}/fd")
    assert proc.descriptors(ME) == ()
    refuse(monkeypatch, number, f"/{ME}/fdinfo")
    assert proc.descriptor_info(ME, "0") is None


def test_descriptors_that_are_forbidden_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EACCES, f"/{ME}/fd", f"/{ME}/fdinfo")
    with pytest.raises(PermissionError):
        proc.descriptors(ME)
    with pytest.raises(PermissionError):
        proc.descriptor_info(ME, "0")


@pytest.mark.parametrize("where", ["fd", "fdinfo"])
def test_a_lock_whose_holder_cannot_be_looked_into_is_never_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    path = str(tmp_path / "a.lock")
    locks = lock.Locks()
    locks.take([path])
    try:
        refuse(monkeypatch, errno.EACCES, f"/{ME}/{where}")
        assert [holder.pid for holder in lock.name_holders(path)] == [ME]
        assert not lock.holds(path, [ME])
        assert lock.Locks().try_take([path]) == path
    finally:
        locks.release()


@pytest.mark.parametrize("number", GONE)
def test_a_holder_that_vanishes_while_it_is_looked_for_is_an_unnamed_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    path = str(tmp_path / "a.lock")
    locks = lock.Locks()
    locks.take([path])
    try:
        refuse(monkeypatch, number, f"/{ME}/fd")
        assert [holder.pid for holder in lock.name_holders(path)] == [None]
    finally:
        locks.release()


def test_a_script_whose_command_line_vanishes_is_not_found(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    refuse(monkeypatch, fault, "/cmdline")
    assert process.find_script("keeper.py", "a launch") == ()


@pytest.mark.parametrize("number", [*GONE, errno.EACCES])
def test_a_look_at_a_cards_holders_leaves_out_who_vanishes_and_counts_who_is_forbidden(number: int) -> None:
    def enter(path: str, flags: int, *, dir_fd: int) -> int:
        if path == f"{ME}/fd":
            raise OSError(number, os.strerror(number), path)
        return os.open(path, flags, dir_fd=dir_fd)

    before = scan.scan(among=[ME])
    after = scan.scan(among=[ME], calls=scan.Calls(open=enter))
    assert (before.unreadable, after.unreadable) == (0, int(number == errno.EACCES))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_look_at_a_cards_holders_without_descriptors_of_its_own_says_so(number: int) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        scan.scan(among=[ME], calls=scan.Calls(open=full))


def test_a_cgroup_that_vanishes_while_it_is_read_has_no_members(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    (tmp_path / "one" / "cgroup.procs").write_text(f"{ME}\n")
    enclosure = Enclosure(EnclosureKind.CGROUP, str(tmp_path / "one"))
    assert cgroup.members(enclosure) == (ME,)
    original = Path.read_text

    def vanished(self: Path, *arguments: Any, **named: Any) -> str:
        if self.parent == inner:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return original(self, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", vanished)
    assert cgroup.members(enclosure) == (ME,)


def test_a_cgroup_that_may_not_be_read_is_unknown_and_not_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cgroup.procs").write_text("")

    def forbidden(self: Path, *_: Any, **__: Any) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(PermissionError):
        cgroup.members(Enclosure(EnclosureKind.CGROUP, str(tmp_path)))


def test_a_table_of_sockets_that_cannot_be_read_at_all_is_unknown(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    def no_netlink(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(sockets, "_ask", no_netlink)
    refuse(monkeypatch, fault, "/proc/net/tcp")
    with pytest.raises(OSError, match="/proc/net/tcp"):
        sockets.listening(8000)


def test_a_signal_to_a_process_that_vanishes_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: int) -> int:
        raise ProcessLookupError

    monkeypatch.setattr(os, "pidfd_open", gone)

    assert process.signal(ProcessId(ME, 1), signal.SIGTERM) is False
