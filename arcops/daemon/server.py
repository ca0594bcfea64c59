"""The control API's server: HTTP on a Unix socket that only this user may use. `curl --unix-socket` works."""

import asyncio
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from arcops.core.errors import ArcopsError

REQUEST_WITHIN = 30.0
"""Seconds for a request to be begun and for its head to come in whole: nobody silent keeps a connection."""

_log = structlog.get_logger(__name__)


class _OwnUserProtocol(H11Protocol):
    """HTTP for this user and root only: the socket's mode says so already, this proves it for each connection.

    A connection on which no request is whole within REQUEST_WITHIN is closed: uvicorn has no limit for that.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - uvicorn's is narrower
        peer: socket.socket = transport.get_extra_info("socket")
        _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if uid not in (0, os.getuid()):
            _log.warning("refused a connection", uid=uid)
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_a_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        if self.transport is not None:  # pyright: ignore[reportUnnecessaryComparison] - None until connection_made
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._forget_deadline()
        elif self._deadline is None:
            self._expect_a_request()

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _expect_a_request(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_WITHIN, self._give_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_answering():
            self.transport.close()


class ControlServer(uvicorn.Server):
    """uvicorn on our own socket, without its signal handlers: signals are the daemon's."""

    def __init__(self, app: Starlette, path: Path) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_OwnUserProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=2,
                limit_concurrency=200,
            )
        )
        self._path = path
        self._listeners: list[socket.socket] = []
        self._file: os.stat_result | None = None
        """The socket's file, as it was made."""
        self._renewing: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def listen(self) -> socket.socket:
        """Bind the socket: who connects from here on is answered once `run_on_socket` runs. Raises ArcopsError."""
        if not self._listeners:
            self._bind()
        return self._listeners[-1]

    def renew(self) -> bool:
        """Listen anew where the socket's file was removed, or another put in its place; whether that was so.

        Connections that are open go on. Raises ArcopsError where there can be no socket (yet).
        """
        if not self.started or self.should_exit or not self._listeners or self._is_still_there():
            return False
        listener = self._bind()
        renewing = asyncio.get_running_loop().create_task(self._accept_on(listener))
        self._renewing.add(renewing)
        renewing.add_done_callback(self._renewing.discard)
        return True

    def _bind(self) -> socket.socket:
        listener = bind(self._path)
        self._listeners.append(listener)
        self._file = os.stat(self._path)
        return listener

    def _is_still_there(self) -> bool:
        try:
            return self._file is not None and os.path.samestat(self._file, os.stat(self._path))
        except FileNotFoundError:
            return False

    async def _accept_on(self, listener: socket.socket) -> None:
        """What uvicorn does for each socket that it is given at its start."""

        def protocol() -> asyncio.Protocol:
            return _OwnUserProtocol(self.config, self.server_state, self.lifespan.state)

        self.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listener))

    async def run_on_socket(self) -> None:
        """Serve until `should_exit`; the socket's file is removed afterwards. Raises ArcopsError."""
        self.listen()
        try:
            await self.serve(sockets=self._listeners)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the socket, and remove its file; harmless when it is done."""
        if not self._listeners:
            return
        mine = self._is_still_there()
        while self._listeners:
            self._listeners.pop().close()
        if mine:
            with suppress(FileNotFoundError):
                self._path.unlink()


def bind(path: Path) -> socket.socket:
    """A listening Unix socket with mode 0600. A file that is there is stale: the instance's lock is ours.

    Raises ArcopsError where there can be none.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            path.unlink()
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ArcopsError(
            f"cannot listen on {path}: {error.strerror}", hint="remove what is there, or set XDG_RUNTIME_DIR"
        ) from error
    finally:
        os.umask(before)
    listener.listen(64)
    listener.setblocking(False)
    return listener
