"""The control API: HTTP and JSON on a Unix socket that only this user may use. `curl --unix-socket` works."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from arcops import __version__, wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.state import Order
from arcops.daemon.exposition import CONTENT_TYPE, exposition
from arcops.daemon.feeds import Feeds
from arcops.daemon.handover import Handover
from arcops.daemon.loop import Loop
from arcops.daemon.orders import Orders
from arcops.daemon.reload import Reloader
from arcops.daemon.status import StatusWriter

LARGEST_BODY = 64 * 1024
"""Bytes; a real request has some hundred."""
BODY_WITHIN = 10.0
"""Seconds for a request's body to come in whole."""
REQUEST_WITHIN = 30.0
"""Seconds for a request to be begun and for its head to come in whole: nobody silent keeps a connection."""
LONGEST_WINDOW = 86_400.0
MOST_LINES = 10_000
MOST_EVENTS = 10_000

_HTTP_STATUS = {ExitCode.USAGE: 400, ExitCode.INVALID: 422, ExitCode.BUSY: 409, ExitCode.BLOCKED: 409}
"""For readers of HTTP; arcops' own clients go by the exit code in the body."""

M = TypeVar("M", bound=msgspec.Struct)
Handler = Callable[[Request], Awaitable[Response]]

_log = structlog.get_logger(__name__)


class Api:
    """The routes. Each handler reads, or submits; none changes the state itself."""

    def __init__(
        self,
        instance: str,
        pid: int,
        loop: Loop,
        orders: Orders,
        status: StatusWriter,
        feeds: Feeds,
        reloader: Reloader,
        handover: Handover,
    ) -> None:
        self._reloader = reloader
        self._handover = handover
        self._instance = instance
        self._pid = pid
        self._loop = loop
        self._orders = orders
        self._status = status
        self._feeds = feeds

    def app(self) -> Starlette:
        def get(path: str, handler: Handler) -> Route:
            return Route(path, _guarded(handler), methods=["GET"])

        def post(path: str, handler: Handler) -> Route:
            return Route(path, _guarded(handler), methods=["POST"])

        app = Starlette(
            routes=[
                get("/v1/ping", self._ping),
                get("/v1/status", self._get_status),
                get("/v1/stream", self._stream),
                get("/v1/history", self._history),
                get("/v1/events", self._events),
                get("/v1/logs", self._logs),
                get("/metrics", self._metrics),
                post("/v1/switch", self._switch),
                post("/v1/stop", self._stop),
                post("/v1/restart", self._restart),
                post("/v1/reload", self._reload),
                post("/v1/keep-backend", self._keep_backend),
            ],
            exception_handlers={404: _no_such_thing, 405: _no_such_thing, Exception: _own_fault},
        )
        app.router.redirect_slashes = False
        return app

    async def _ping(self, _: Request) -> Response:
        return _json(wire.Pong(instance=self._instance, version=__version__, pid=self._pid))

    async def _get_status(self, request: Request) -> Response:
        return _json(self._status.status(_number(request, "window", 60.0, 1.0, LONGEST_WINDOW)))

    async def _stream(self, request: Request) -> Response:
        return _sse(self._feeds.statuses(_number(request, "window", 60.0, 1.0, LONGEST_WINDOW)))

    async def _history(self, request: Request) -> Response:
        return _json(self._status.history(_number(request, "seconds", 300.0, 1.0, LONGEST_WINDOW)))

    async def _events(self, request: Request) -> Response:
        after = int(_number(request, "after", 0, -MOST_EVENTS, 2**62))
        if _flag(request, "follow"):
            return _sse(self._feeds.events(after))
        limit = int(_number(request, "limit", 1000, 1, MOST_EVENTS))
        return _json(wire.Events(events=await self._feeds.page_of_events(after, limit)))

    async def _logs(self, request: Request) -> Response:
        lines = int(_number(request, "lines", 200, 0, MOST_LINES))
        launch = request.query_params.get("launch")
        if _flag(request, "follow"):
            return _sse(self._feeds.logs(lines, await asyncio.to_thread(self._feeds.known, launch)))
        return _json(await asyncio.to_thread(self._feeds.log_tail, lines, launch))

    async def _metrics(self, _: Request) -> Response:
        return Response(exposition(self._status.status(60.0), self._loop.turns), media_type=CONTENT_TYPE)

    async def _switch(self, request: Request) -> Response:
        order, plan = await self._orders.switch(await _body(request, wire.SwitchRequest))
        return _json(_accepted(order, plan))

    async def _stop(self, request: Request) -> Response:
        return _json(_accepted(await self._orders.stop(await _body(request, wire.StopRequest))))

    async def _restart(self, request: Request) -> Response:
        return _json(_accepted(await self._orders.restart(await _body(request, wire.RestartRequest))))

    async def _reload(self, request: Request) -> Response:
        await _body(request, wire.ReloadRequest)
        return _json(await self._reloader.reload())

    async def _keep_backend(self, request: Request) -> Response:
        await _body(request, wire.KeepRequest)
        live = self._loop.world.backend if self._loop.world is not None else None
        return _json(wire.Kept(seconds=self._handover.arm(), launch_id=None if live is None else live.launch_id))


def _accepted(order: Order | str, plan: tuple[str, ...] = ()) -> wire.Accepted:
    if isinstance(order, str):
        return wire.Accepted(order_id=None, done=order, plan=plan)
    return wire.Accepted(order_id=order.id, plan=plan)


def _guarded(handler: Handler) -> Handler:
    """Every fault becomes one clear answer; the daemon goes on."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except ArcopsError as error:
            return _error(error)
        except ClientDisconnect:
            return Response(status_code=400)

    return guarded


async def _no_such_thing(request: Request, _: Exception) -> Response:
    return _error(
        ArcopsError(
            f"there is no {request.method} {request.scope['path']}",
            hint="docs/control-api.md lists all there is",
            exit_code=ExitCode.USAGE,
        )
    )


async def _own_fault(_: Request, fault: Exception) -> Response:
    """A fault of ours: the client is told so in the form of every other error, and the log has the traceback."""
    return _error(ArcopsError(f"a fault in the daemon: {type(fault).__name__}", hint="its log says where"))


async def _body(request: Request, kind: type[M]) -> M:
    """The request's message, refused when it is too large, too slow, no JSON, or not of this kind."""
    try:
        async with asyncio.timeout(BODY_WITHIN):
            content = await _content(request)
    except TimeoutError:
        raise ArcopsError(
            f"the request did not come in whole within {BODY_WITHIN:g} s", exit_code=ExitCode.USAGE
        ) from None
    try:
        message = msgspec.json.decode(content or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArcopsError(f"the request cannot be read: {error}", exit_code=ExitCode.USAGE) from error
    schema: object = getattr(message, "schema", wire.SCHEMA)
    if schema != wire.SCHEMA:
        raise ArcopsError(
            f"the request has schema {schema}, this daemon speaks {wire.SCHEMA}", exit_code=ExitCode.USAGE
        )
    return message


async def _content(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise ArcopsError(f"the request is larger than {LARGEST_BODY} bytes", exit_code=ExitCode.USAGE)
    return bytes(content)


def _number(request: Request, name: str, default: float, least: float, most: float) -> float:
    """A number from the query, within its bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise ArcopsError(f"{name}={text[:40]!r} is not a number from {least:g} to {most:g}", exit_code=ExitCode.USAGE)
    return value


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") not in ("", "0", "false", "no")


def _json(message: msgspec.Struct) -> Response:
    return Response(wire.encode(message), media_type="application/json")


def _error(error: ArcopsError) -> Response:
    info = wire.ErrorInfo(message=error.message, hint=error.hint, exit_code=int(error.exit_code))
    return Response(
        wire.encode(info), status_code=_HTTP_STATUS.get(error.exit_code, 500), media_type="application/json"
    )


def _sse(messages: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(messages, media_type="text/event-stream", headers={"cache-control": "no-store"})


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
