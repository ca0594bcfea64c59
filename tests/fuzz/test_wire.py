"""Both ends of the control API: what a client may send, and what a daemon may answer."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

import httpx
import msgspec
import pytest

from arcops import wire
from arcops.cli.gpu import lines_of
from arcops.client import Client
from arcops.core.errors import ArcopsError
from arcops.core.rates import Rates
from arcops.core.state import Goal, Order
from arcops.daemon.orders import check_drain
from arcops.daemon.routes import Api
from tests.cards import made
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]


STATUS = wire.Status(
    instance="main",
    at=1.0,
    daemon=wire.DaemonInfo(pid=1, version="0", started_at=0.5),
    phase="serving",
    phase_code=4,
    since=0.7,
    reason="serving tiny",
    order=wire.OrderInfo(id=3, goal="run", profile="a", committed=True),
    backend=None,
    start=None,
    locks=("/run/cpu.lock",),
    failure=None,
    retry_at=None,
    settled=(),
    rates=Rates(absent="nothing was scraped yet"),
    rates_age=None,
    window=60.0,
    lingering=True,
)
EVENT = wire.Event(id=1, at=2.0, kind="phase", phase="serving", profile="a", launch_id=None, reason="r")
EVENTS = wire.Events(events=(EVENT,))
ERROR = wire.ErrorInfo(message="m", hint="h", exit_code=5)
BODIES = (
    '{"schema":1,"profile":"dflash2","drain":60,"replace":false,"rollback":true,"dry_run":true}',
    '{"schema":1,"drain":null}',
    '{"drain":0,"replace":true}',
    "{}",
)
TARGETS = (
    "/v1/status?window=60",
    "/v1/history?seconds=300",
    "/v1/samples?from=-3600&to=1796041080.5&step=60",
    "/v1/logs?of=supervisor&lines=5",
    "/v1/events?after=-20&limit=100",
    "/v1/events?follow=1&after=5",
    "/v1/logs?lines=200&launch=20261130-104802-ab12",
    "/v1/logs?lines=5&follow=1",
    "/v1/stream?window=5.5",
    "/v1/ping",
    "/v1/cards?everybody=1",
    "/metrics",
)


CARDS = made.cards(made.info(census=made.looked(made.held(5, made.process(7)), at=1.0)))


class Stub:
    """Loop, orders, status and feeds in one: they say yes, and have little to tell."""

    turns = 7

    def status(self, window: float) -> wire.Status:
        assert 1 <= window <= 86_400
        return STATUS

    def history(self, seconds: float) -> wire.History:
        assert 1 <= seconds <= 86_400
        return wire.History(points=())

    @property
    def samples(self) -> "Stub":
        return self

    async def page(self, since: float, until: float, step: float | None) -> wire.Samples:
        assert abs(since) <= 1e11
        assert abs(until) <= 1e11
        assert step is None or step == 1.0 or (60.0 <= step <= 86_400.0 and step % 60.0 == 0.0)
        return wire.Samples(step=step or 1.0, points=(), next=None)

    def own_log_tail(self, lines: int) -> wire.LogLines:
        assert 0 <= lines <= 10_000
        return wire.LogLines(launch_id=None, lines=(), of="supervisor")

    def own_log(self, lines: int) -> AsyncIterator[bytes]:
        assert 0 <= lines <= 10_000
        return self._once()

    async def page_of_events(self, after: int, limit: int) -> tuple[wire.Event, ...]:
        assert 1 <= limit <= 10_000
        assert -10_000 <= after <= 2**62
        return (EVENT,)

    def log_tail(self, lines: int, launch: str | None) -> wire.LogLines:
        assert 0 <= lines <= 10_000
        return wire.LogLines(launch_id=launch, lines=())

    def known(self, launch: str | None) -> str | None:
        return launch

    def statuses(self, window: float) -> AsyncIterator[bytes]:
        assert 1 <= window <= 86_400
        return self._once()

    def events(self, after: int) -> AsyncIterator[bytes]:
        assert -10_000 <= after <= 2**62
        return self._once()

    def logs(self, lines: int, launch: str | None) -> AsyncIterator[bytes]:
        assert 0 <= lines <= 10_000
        assert launch is None or launch
        return self._once()

    def told(self) -> wire.Cards:
        return CARDS

    async def look(self, *, everybody: bool) -> wire.Cards:
        assert everybody in (False, True)
        return CARDS

    async def _once(self) -> AsyncIterator[bytes]:
        yield b"data: {}\n\n"

    async def switch(
        self, request: wire.SwitchRequest, gone: Callable[[], Awaitable[bool]]
    ) -> tuple[Order, tuple[str, ...]]:
        assert not await gone()
        check_drain(request.drain)
        return Order(5, Goal.RUN, request.profile), ("a plan",)

    async def stop(self, request: wire.StopRequest) -> Order | str:
        check_drain(request.drain)
        return "already stopped"

    async def restart(self, request: wire.RestartRequest) -> tuple[Order | str, tuple[str, ...]]:
        check_drain(request.drain)
        return Order(6, Goal.RUN, "a"), ()


@dataclass(slots=True)
class Exchange:
    """One request, and what came back."""

    method: str
    target: bytes
    body: list[bytes]
    status: int = 0
    answer: bytearray = field(default_factory=bytearray)


def _request(random: Random) -> Exchange:
    if random.random() < 0.6:
        sample = random.choice(BODIES)
        if random.random() < 0.6:
            changed = mutate.tree(random, cast("mutate.Tree", json.loads(sample)))
            body = json.dumps(changed).encode("utf-8", "surrogatepass")
        else:
            body = mutate.octets(random, sample, BODIES)
        at = random.randint(0, len(body))
        target = random.choice(("/v1/switch", "/v1/stop", "/v1/restart"))
        return Exchange("POST", target.encode(), [body[:at], body[at:]])
    target = mutate.octets(random, random.choice(TARGETS), TARGETS) if random.random() < 0.9 else b"/v1/nothing"
    return Exchange(random.choice(("GET", "GET", "GET", "POST", "HEAD", "PUT")), target, [b""])


def test_requests() -> None:
    stub = cast("object", Stub())
    app = Api("main", 1, *[stub] * 9).app()  # pyright: ignore[reportArgumentType] - one stub for all
    running = asyncio.new_event_loop()
    seen: set[int] = set()

    async def exchange(one: Exchange) -> None:
        path, _, query = one.target.partition(b"?")
        waiting: list[dict[str, object]] = [
            *({"type": "http.request", "body": piece, "more_body": True} for piece in one.body),
            {"type": "http.request", "body": b"", "more_body": False},
        ]

        async def receive() -> dict[str, object]:
            if waiting:
                return waiting.pop(0)
            return await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                one.status = cast("int", message["status"])
            else:
                one.answer += cast("bytes", message.get("body", b""))

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": one.method,
            "scheme": "http",
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", b"arcops")],
            "client": None,
            "server": None,
        }
        await app(scope, receive, send)  # pyright: ignore[reportArgumentType] - ASGI's own types are mutable mappings

    def feed(one: Exchange) -> None:
        running.run_until_complete(exchange(one))
        seen.add(one.status)
        assert one.status in (200, 400, 404, 405, 409, 422, 500)
        if one.status != 200 and one.method != "HEAD":
            refusal = msgspec.json.decode(bytes(one.answer), type=wire.ErrorInfo)
            assert refusal.message
            assert "a fault in the daemon" not in refusal.message

    try:
        fuzz("requests", _request, feed)
    finally:
        running.run_until_complete(running.shutdown_default_executor())
        running.close()
    assert {200, 400} <= seen


# -- what a client is told --------------------------------------------------------------------------------------------
class Answer(httpx.BaseTransport):
    """Gives one answer to whatever is asked."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, headers=self.headers, stream=_Pieces(self.pieces), request=request)


class _Pieces(httpx.SyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


MESSAGES = tuple(wire.encode(message).decode() for message in (STATUS, EVENTS, EVENT, ERROR, CARDS))
STREAM = f"data: {MESSAGES[0]}\n\n: still here\n\ndata: {MESSAGES[2]}\n\n"
HEADERS = (
    (b"content-type", b"application/json"),
    (b"content-type", b"text/event-stream; charset=latin-1"),
    (b"content-type", b"text/html; charset=no-such-charset"),
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"deflate"),
    (b"content-length", b"3"),
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the transport gives, and which call hears it."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    pieces: tuple[bytes, ...]
    call: int


def _answer(random: Random) -> Told:
    sample = random.choice((*MESSAGES, STREAM))
    if random.random() < 0.5 and sample is not STREAM:
        content = json.dumps(mutate.tree(random, cast("mutate.Tree", json.loads(sample)))).encode()
    else:
        content = mutate.octets(random, sample, MESSAGES)
    at = random.randint(0, len(content))
    headers = tuple(random.choice(HEADERS) for _ in range(random.choice((0, 1, 1, 2))))
    status = random.choice((200, 200, 200, 200, 204, 301, 400, 409, 500, 503))
    return Told(status, headers, (content[:at], content[at:]), random.randrange(8))


@pytest.fixture
def transport() -> Answer:
    return Answer()


def test_answers(transport: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx, "HTTPTransport", lambda **_: transport)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - in its place
    with Client(Path(os.devnull)) as client:

        def feed(told: Told) -> None:
            transport.status, transport.headers = told.status, list(told.headers)
            transport.pieces = list(told.pieces)
            match told.call:
                case 0:
                    client.status()
                case 1:
                    client.events(after=-5)
                case 2:
                    list(client.follow_status())
                case 3:
                    list(client.follow_events())
                case 4:
                    client.switch(wire.SwitchRequest(profile="a"))
                case 5:
                    client.metrics()
                case 6:
                    lines_of(client.cards(), 80)
                case _:
                    client.ping()

        fuzz("answers", _answer, feed, declared=(ArcopsError,))
