"""A server that says exactly what a test wants, byte for byte, and remembers what it was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

Script = Callable[["Caller"], Awaitable[None]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Caller:
    """One request on one connection."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    """Which connection it came on, from 0."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Until the client has closed this connection."""
        while await self.reader.read(65536):
            pass

    async def answer(self, body: bytes, status: str = "200 OK", kind: str = "application/json") -> None:
        """A plain answer."""
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        await self.say(head.encode() + body)

    async def chunk(self, data: bytes) -> None:
        """One piece of a stream whose head was said."""
        await self.say(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def stream(self, events: Iterable[bytes | Mapping[str, object]], *, end: bool = True) -> None:
        """A whole stream, each event a chunk of its own."""
        await self.say(STREAM_HEAD)
        for event in events:
            await self.chunk(event_bytes(event))
        if end:
            await self.say(b"0\r\n\r\n")


@dataclass(slots=True)
class RawServer:
    """What was asked of it, and how many connections there were."""

    url: str
    asked: list[Caller] = field(default_factory=list[Caller])
    connections: int = 0

    def bodies(self, path: str) -> list[dict[str, object]]:
        return [json.loads(one.body) for one in self.asked if one.path == path]


def event_bytes(event: bytes | Mapping[str, object]) -> bytes:
    """`data: ...` with the empty line after it."""
    return b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"


def token(*ids: int, text: str = "x", finish: str | None = None) -> dict[str, object]:
    """A chunk with these tokens, as vLLM 0.29 sends it."""
    choice: dict[str, object] = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": None,
    }
    return {"id": "cmpl-1", "object": "text_completion", "choices": [choice | {"token_ids": list(ids)}]}


def usage(prompt: int, output: int, cached: int | None = None) -> dict[str, object]:
    """The last chunk, as vLLM sends it; `cached` as with --enable-prompt-tokens-details."""
    said: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    if cached is not None:
        said["prompt_tokens_details"] = {"cached_tokens": cached}
    return {"id": "cmpl-1", "object": "text_completion", "choices": [], "usage": said}


@contextlib.asynccontextmanager
async def raw_server(script: Script, host: str = "127.0.0.1") -> AsyncGenerator[RawServer]:
    """Serves `script` for each request, until the end of the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        number = found.connections
        found.connections += 1
        try:
            while caller := await _read(reader, writer, number):
                found.asked.append(caller)
                await script(caller)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, host, 0)
    port = server.sockets[0].getsockname()[1]
    found = RawServer(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        yield found
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> Caller | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Caller(first.split(" ")[1], headers, body, number, reader, writer)
