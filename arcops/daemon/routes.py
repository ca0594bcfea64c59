"""What the control API answers: each route reads, or submits; none changes the state itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from arcops import __version__, wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.rollup import MINUTE
from arcops.core.state import Order
from arcops.daemon.aside import for_a_client
from arcops.daemon.cards import CardBook
from arcops.daemon.environments import Environments
from arcops.daemon.exposition import CONTENT_TYPE, exposition
from arcops.daemon.feeds import Feeds
from arcops.daemon.handover import Handover
from arcops.daemon.loop import Loop
from arcops.daemon.orders import Orders
from arcops.daemon.pasts import Pasts
from arcops.daemon.reload import Reloader
from arcops.daemon.samples import SECOND
from arcops.daemon.status import StatusWriter

LARGEST_BODY = 64 * 1024
"""Bytes; a real request has some hundred."""
BODY_WITHIN = 10.0
"""Seconds for a request's body to come in whole."""
LONGEST_WINDOW = 86_400.0
MOST_LINES = 10_000
MOST_EVENTS = 10_000
LATEST = 1e11
"""Seconds since the epoch: no time is later, and none is longer ago."""
LONGEST_STEP = 86_400.0

_HTTP_STATUS = {
    ExitCode.USAGE: 400,
    ExitCode.INVALID: 422,
    ExitCode.BUSY: 409,
    ExitCode.BLOCKED: 409,
    ExitCode.WEDGED: 409,
}
"""For readers of HTTP; arcops' own clients go by the exit code in the body."""

M = TypeVar("M", bound=msgspec.Struct)
Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The routes, and their handlers."""

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
        pasts: Pasts,
        cards: CardBook,
        environments: Environments,
    ) -> None:
        self._environments = environments
        self._pasts = pasts
        self._cards = cards
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
                get("/v1/samples", self._samples),
                get("/v1/events", self._events),
                get("/v1/logs", self._logs),
                get("/v1/profiles", self._profiles),
                get("/v1/cards", self._get_cards),
                get("/v1/environment", self._environment),
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

    async def _samples(self, request: Request) -> Response:
        since = _number(request, "from", -3600.0, -LATEST, LATEST)
        until = _number(request, "to", LATEST, -LATEST, LATEST)
        return _json(await self._feeds.samples.page(since, until, _step(request)))

    async def _events(self, request: Request) -> Response:
        after = int(_number(request, "after", 0, -MOST_EVENTS, 2**62))
        if _flag(request, "follow"):
            return _sse(self._feeds.events(after))
        limit = int(_number(request, "limit", 1000, 1, MOST_EVENTS))
        return _json(wire.Events(events=await self._feeds.page_of_events(after, limit)))

    async def _logs(self, request: Request) -> Response:
        lines = int(_number(request, "lines", 200, 0, MOST_LINES))
        launch = request.query_params.get("launch")
        if _is_of_supervisor(request):
            return (
                _sse(self._feeds.own_log(lines)) if _flag(request, "follow") else _json(self._feeds.own_log_tail(lines))
            )
        if _flag(request, "follow"):
            return _sse(self._feeds.logs(lines, await for_a_client(self._feeds.known, launch)))
        return _json(await for_a_client(self._feeds.log_tail, lines, launch))

    async def _profiles(self, _: Request) -> Response:
        return _json(await self._pasts.profiles())

    async def _get_cards(self, request: Request) -> Response:
        return _json(await self._cards.look(everybody=_flag(request, "everybody")))

    async def _environment(self, _: Request) -> Response:
        return _json(await self._environments.page())

    async def _metrics(self, _: Request) -> Response:
        page = exposition(self._status.status(60.0), self._loop.turns, self._cards.told())
        return Response(page, media_type=CONTENT_TYPE)

    async def _switch(self, request: Request) -> Response:
        order, plan = await self._orders.switch(await _body(request, wire.SwitchRequest), request.is_disconnected)
        return _json(_accepted(order, plan))

    async def _stop(self, request: Request) -> Response:
        return _json(_accepted(await self._orders.stop(await _body(request, wire.StopRequest))))

    async def _restart(self, request: Request) -> Response:
        order, plan = await self._orders.restart(await _body(request, wire.RestartRequest))
        return _json(_accepted(order, plan))

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


def _step(request: Request) -> float | None:
    """The step of a history: what its points stand for."""
    if "step" not in request.query_params:
        return None
    step = _number(request, "step", MINUTE, SECOND, LONGEST_STEP)
    if step != SECOND and step % MINUTE:
        raise ArcopsError(f"step={step:g} is neither 1 nor a multiple of 60", exit_code=ExitCode.USAGE)
    return step


def _is_of_supervisor(request: Request) -> bool:
    """Whose log is asked for."""
    of = request.query_params.get("of", "backend")
    if of not in ("backend", "supervisor"):
        raise ArcopsError(f"of={of[:40]!r} is neither backend nor supervisor", exit_code=ExitCode.USAGE)
    if of == "supervisor" and request.query_params.get("launch"):
        raise ArcopsError("the supervisor's log is not that of a launch", exit_code=ExitCode.USAGE)
    return of == "supervisor"


def _json(message: msgspec.Struct) -> Response:
    return Response(wire.encode(message), media_type="application/json")


def _error(error: ArcopsError) -> Response:
    info = wire.ErrorInfo(message=error.message, hint=error.hint, exit_code=int(error.exit_code))
    return Response(
        wire.encode(info), status_code=_HTTP_STATUS.get(error.exit_code, 500), media_type="application/json"
    )


def _sse(messages: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(messages, media_type="text/event-stream", headers={"cache-control": "no-store"})
