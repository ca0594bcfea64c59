"""A daemon for the screen's tests: speaks wire on a Unix socket, and does what the test says.

Also a program: `python -m tests.tui.fake_daemon SOCKET SCENE [LINES_PER_SECOND]` plays a scene in real time.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from arcops import wire
from tests.tui import scenes


@dataclass
class FakeDaemon:
    """The script: change it while it runs, and call `say` to let the streams know."""

    socket: Path
    status: wire.Status
    history: tuple[wire.HistoryPoint, ...] = ()
    log: tuple[str, ...] = ()
    launch_id: str = scenes.LAUNCH
    raw: bytes | None = None
    """Sent on the status stream in place of statuses."""
    refusal: wire.ErrorInfo | None = None
    """The answer to every order, if there is one."""
    clock: Callable[[], float] | None = None
    """If given, statuses and history are moved to this time."""
    samples: tuple[wire.SamplePoint, ...] | None = None
    """In steps of a second or of a minute, as they are asked for; None for a daemon that knows nothing of samples."""
    cards: wire.Cards | None = None
    """None for a daemon that knows nothing of cards."""
    page: int = 500
    """Samples in one answer."""
    orders: list[msgspec.Struct] = field(default_factory=list[msgspec.Struct])
    asked: list[str] = field(default_factory=list[str])
    _said: int = 0
    _more: tuple[wire.LogLines, ...] = ()
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    async def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    async def die(self) -> None:
        """Like a SIGKILL: connections are cut, the socket file stays behind."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in tuple(self._open):
            writer.transport.abort()
        async with self._changed:
            self._changed.notify_all()

    async def say(self, status: wire.Status | None = None) -> None:
        """Send the (new) status to everybody who follows."""
        self.status = status or self.status
        self._said += 1
        async with self._changed:
            self._changed.notify_all()

    async def log_lines(self, *lines: str, launch: str | None = None) -> None:
        """Append to the log."""
        self.launch_id = launch or self.launch_id
        self._more = (*self._more, wire.LogLines(launch_id=self.launch_id, lines=lines))
        async with self._changed:
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.decode(), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        self.asked.append(target)
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0].split(":")[1])) if lengths else b""
        match method, url.path:
            case "GET", "/v1/stream":
                await _stream(writer, self._statuses(float(query["window"])))
            case "GET", "/v1/logs":
                await _stream(writer, self._logs())
            case "GET", "/v1/history":
                await _send(writer, 200, wire.History(points=self._history(float(query["seconds"]))))
            case "GET", "/v1/samples" if self.samples is not None:
                await _send(writer, 200, self._samples(query, self.samples))
            case "GET", "/v1/cards" if self.cards is not None:
                await _send(writer, 200, self.cards)
            case "POST", "/v1/switch":
                await self._ordered(writer, msgspec.json.decode(body, type=wire.SwitchRequest))
            case "POST", "/v1/stop":
                await self._ordered(writer, msgspec.json.decode(body, type=wire.StopRequest))
            case "POST", "/v1/restart":
                await self._ordered(writer, msgspec.json.decode(body, type=wire.RestartRequest))
            case _:
                await _send(writer, 404, wire.ErrorInfo(message=f"no such thing: {target}"))

    async def _ordered(self, writer: asyncio.StreamWriter, order: msgspec.Struct) -> None:
        self.orders.append(order)
        if self.refusal is not None:
            await _send(writer, 409, self.refusal)
        elif isinstance(order, wire.SwitchRequest) and order.dry_run:
            plan = ("3 running requests get 60 s to finish", f"then {order.profile} is launched")
            await _send(writer, 200, wire.Accepted(order_id=None, plan=plan))
        else:
            await _send(writer, 202, wire.Accepted(order_id=40 + len(self.orders)))

    def _moved(self) -> float:
        """Seconds by which the scene's times are shifted."""
        return 0.0 if self.clock is None else self.clock() - self.status.at

    def _history(self, seconds: float) -> tuple[wire.HistoryPoint, ...]:
        moved = self._moved()
        newest = self.status.at
        kept = [point for point in self.history if point.at >= newest - seconds]
        return tuple(msgspec.structs.replace(point, at=point.at + moved) for point in kept)

    def _samples(self, query: dict[str, str], known: tuple[wire.SamplePoint, ...]) -> wire.Samples:
        step, moved = float(query["step"]), self._moved()
        since, until = float(query["from"]), float(query.get("to", "inf"))
        points = [
            msgspec.structs.replace(point, at=point.at + moved)
            for point in known
            if (point.seconds >= 60) == (step >= 60) and since <= point.at + moved < until
        ]
        rest = points[self.page].at if len(points) > self.page else None
        return wire.Samples(step=step, points=tuple(points[: self.page]), next=rest)

    async def _statuses(self, window: float) -> AsyncIterator[bytes]:
        while True:
            said = self._said
            if self.raw is not None:
                yield self.raw
            else:
                moved = self._moved()
                yield b"data: " + wire.encode(_later(self.status, moved, window)) + b"\n\n"
            await self._wait(lambda said=said: self._said != said)

    async def _logs(self) -> AsyncIterator[bytes]:
        sent = 0
        yield b"data: " + wire.encode(wire.LogLines(launch_id=self.launch_id, lines=self.log)) + b"\n\n"
        while True:
            for lines in self._more[sent:]:
                yield b"data: " + wire.encode(lines) + b"\n\n"
            sent = len(self._more)
            await self._wait(lambda sent=sent: len(self._more) != sent)

    async def _wait(self, news: Callable[[], bool]) -> None:
        """Until there is news, or the daemon is dead."""
        async with self._changed:
            await self._changed.wait_for(lambda: news() or self._server is None)
        if self._server is None:
            raise ConnectionAbortedError


def _later(status: wire.Status, seconds: float, window: float) -> wire.Status:
    """The status with all its times moved."""
    move = msgspec.structs.replace
    backend = status.backend
    return move(
        status,
        window=window,
        at=status.at + seconds,
        since=status.since + seconds,
        daemon=move(status.daemon, started_at=status.daemon.started_at + seconds),
        backend=None if backend is None else move(backend, spawned_at=backend.spawned_at + seconds),
    )


async def _send(writer: asyncio.StreamWriter, code: int, message: msgspec.Struct) -> None:
    body = wire.encode(message)
    head = f"HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, chunks: AsyncIterator[bytes]) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    async for chunk in chunks:
        if writer.transport.is_closing():
            raise ConnectionAbortedError
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await writer.drain()


async def play(socket: Path, scene: str, lines_per_second: float) -> None:
    """The scene in real time, with rates that vary, until killed."""
    daemon = FakeDaemon(socket, scenes.SCENES[scene](), scenes.history(600), scenes.LOG, clock=time.time)
    await daemon.start()
    beat, lines = 0, 0.0
    while True:
        await asyncio.sleep(0.1)
        lines += lines_per_second / 10
        if lines >= 1:
            line = f"(APIServer pid=4242) INFO 01-15 08:10:{beat // 10 % 60:02d} [loggers.py:257] line {beat}"
            await daemon.log_lines(*[line] * int(lines))
            lines -= int(lines)
        beat += 1
        if beat % 10 == 0:
            await daemon.say(_alive(daemon.status, beat // 10))


def _alive(status: wire.Status, second: int) -> wire.Status:
    """The same with other numbers: what a server that works shows every second."""
    rates = status.rates
    if rates.at is None:
        return status
    wave = 1 + 0.05 * (second % 7)
    return msgspec.structs.replace(
        status,
        rates=replace(
            rates,
            decode=None if rates.decode is None else 400 * wave,
            prefill=None if rates.prefill is None else 1200 * wave,
            kv_usage=None if rates.kv_usage is None else 0.5 * wave,
            requests=1.2 * wave,
        ),
    )


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 2.0))
