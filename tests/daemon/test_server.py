"""The control server in this process: what would take too long with a real daemon, or cannot be provoked there."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from arcops import wire
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.daemon import routes, server
from arcops.daemon.clock import Clock
from arcops.daemon.wiring import Parts, assemble
from arcops.machine.store import Store, StoredEvent, StoreError
from tests.helpers import eventually

PATIENCE = 20.0
PING = b"GET /v1/ping HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def serving(root: Path) -> AsyncGenerator[Parts]:
    """A control server whose loop does not turn."""
    with tempfile.TemporaryDirectory(prefix="arcops-") as run:
        paths = Paths.of("test", {"XDG_RUNTIME_DIR": run, "XDG_STATE_HOME": str(root / "state"), "HOME": str(root)})
        paths.make()
        store = Store.open(str(paths.database))
        parts = assemble(paths, store, Clock())
        task = asyncio.create_task(parts.server.run_on_socket())
        try:
            await asyncio.to_thread(eventually, lambda: parts.server.started, why="the server does not start")
            yield parts
        finally:
            parts.feeds.closing.set()
            parts.server.should_exit = True
            await task
            await parts.journal.close()
            store.close()


async def exchange(parts: Parts, sent: bytes) -> bytes:
    """Send, and read until the server closes."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_unix_connection(str(parts.paths.socket))
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


def error_in(answer: bytes) -> wire.ErrorInfo:
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=wire.ErrorInfo)


@pytest.mark.asyncio
@pytest.mark.parametrize("sent", [b"", b"GET /v1/pi", PING[:-2]])
async def test_a_connection_on_which_no_request_comes_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN", 0.1)
    async with serving(tmp_path) as parts:
        assert await exchange(parts, sent) == b""


@pytest.mark.asyncio
async def test_a_second_request_that_never_ends_is_given_up_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN", 0.2)
    async with serving(tmp_path) as parts:
        answer = await exchange(parts, PING + PING[:-2])
    assert answer.count(b"HTTP/1.1 200 ") == 1


@pytest.mark.asyncio
async def test_a_stream_outlives_the_limit_for_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN", 0.05)
    async with serving(tmp_path) as parts, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_unix_connection(str(parts.paths.socket))
        writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(2):
            assert await reader.readuntil(b"data: ")
        writer.close()
        await writer.wait_closed()


@pytest.mark.asyncio
async def test_a_body_that_does_not_come_in_whole_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_WITHIN", 0.1)
    async with serving(tmp_path) as parts:
        head = b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 50\r\n\r\n"
        answer = await exchange(parts, head + b'{"drain": ')
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert "did not come in whole" in error_in(answer).message


@pytest.mark.asyncio
async def test_a_fault_of_our_own_has_the_form_of_every_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as parts:

        def broken(_: float) -> wire.Status:
            raise ZeroDivisionError

        monkeypatch.setattr(parts.status, "status", broken)
        answer = await exchange(parts, b"GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await exchange(parts, PING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[9:12] == b"200"
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert error_in(answer).exit_code == 1
    assert "ZeroDivisionError" in error_in(answer).message
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.asyncio
async def test_a_store_that_fails_is_told_in_the_form_of_every_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(after: int, limit: int) -> tuple[StoredEvent, ...]:
        raise StoreError(f"disk I/O error at {after}, {limit}")

    async with serving(tmp_path) as parts:
        monkeypatch.setattr(parts.journal, "events", broken)
        answer = await exchange(parts, b"GET /v1/events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "disk I/O error" in error_in(answer).message


def test_a_socket_takes_the_place_of_a_stale_file_with_its_own_mode(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="arcops-") as run:
        path = Path(run) / "a.sock"
        path.write_text("left behind")
        with server.bind(path):
            assert path.stat().st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))


def test_where_there_can_be_no_socket_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ArcopsError, match="cannot listen on"):
        server.bind(tmp_path / "no" / "such" / "directory")
