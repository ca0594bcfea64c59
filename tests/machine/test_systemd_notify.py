import errno
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from arcops.core.quantity import Known, Unknown
from arcops.machine.linger import lingering
from arcops.machine.systemd import notify
from tests.machine.processes import as_nobody


def test_systemd_hears_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
        notify("STATUS=serving dflash2")
        assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"STATUS=serving dflash2"
    notify("WATCHDOG=1")  # the manager has gone: never an error


def test_an_abstract_address_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0arcops-test-{os.getpid()}")
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@arcops-test-{os.getpid()}")
        notify("STATUS=lädt")
        assert manager.recv(100) == "STATUS=lädt".encode()


def test_a_manager_that_takes_nothing_any_more_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    filler.sendto(b"X", address)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("WATCHDOG=1")
        manager.setblocking(False)
        heard: set[bytes] = set()
        with suppress(BlockingIOError):
            while True:
                heard.add(manager.recv(100))
        assert heard == {b"X"}


def test_a_process_that_is_out_of_descriptors_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_them(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    monkeypatch.setattr(socket, "socket", out_of_them)
    notify("WATCHDOG=1")


def test_without_systemd_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")


def test_lingering_is_what_logind_has_written_down(tmp_path: Path) -> None:
    (tmp_path / "ann").touch()
    on, off = lingering("ann", str(tmp_path)), lingering("bob", str(tmp_path))
    assert isinstance(on, Known)
    assert isinstance(off, Known)
    assert (on.value, off.value) == (True, False)
    missing = lingering("ann", str(tmp_path / "none"))
    assert isinstance(missing, Known)
    assert not missing.value


@pytest.mark.processes
def test_lingering_that_cannot_be_looked_up_is_unknown(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert as_nobody(lambda: type(lingering("ann", str(tmp_path))).__name__) == Unknown.__name__
    assert os.path.isdir(tmp_path)
