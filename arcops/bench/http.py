"""HTTP as a benchmark needs it: connections that are kept, times taken when bytes come, and bounds on all that is read.

aiohttp's parser is in C, and it is the library of `vllm bench serve`: what it costs is the same for both.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from http import HTTPStatus
from types import SimpleNamespace
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from arcops.bench.stream import DONE, BrokenStreamError, Events, error_words, printable
from arcops.core.errors import ArcopsError, ExitCode

Clock = Callable[[], float]

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of an answer that is no stream: the ids of a million tokens have 10 MB."""
MAX_STREAM: Final = 1024 * 1024 * 1024
"""Bytes of one stream: vLLM's chunk has 300, and the first one the prompt's ids."""
CONNECT_PATIENCE: Final = 10.0
"""Seconds for a connection: a server whose loop is held up by its own work accepts late."""
_KEPT: Final = 3600.0
"""Seconds that a connection is kept by this side; vLLM closes it after 5 without a request."""
_TO_THE_END: Final = 5.0
"""Seconds that a stream may take from its last event to its end, before its connection is given up."""


class NoAnswerError(ArcopsError):
    """Nothing came of a request, for the network's or the server's sake; the message says why."""


@dataclass(slots=True)
class Sent:
    """When a request was written to its connection, by the clock of its `Http`; None before."""

    at: float | None = None


class Http:
    """The connections to one server. Used as an async context manager."""

    def __init__(self, url: str, api_key: str | None, clock: Clock) -> None:
        self.url = base_of(url)
        self._clock = clock
        self._headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make ready; no connection is opened yet."""
        trace = aiohttp.TraceConfig()
        trace.on_request_chunk_sent.append(self._written)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_PATIENCE),
            headers=self._headers,
            # What unpacks to gigabytes is not unpacked, and nothing is sent to a proxy or a place that it points to.
            auto_decompress=False,
            trust_env=False,
            trace_configs=[trace],
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, *, within: float) -> tuple[int, bytes]:
        """Status and body. Raises NoAnswerError."""
        return await self._whole("GET", path, None, within)

    async def post(self, path: str, body: bytes, *, within: float) -> tuple[int, bytes]:
        """Status and body. Raises NoAnswerError."""
        return await self._whole("POST", path, body, within)

    async def connect(self, count: int, path: str, *, within: float) -> None:
        """Have so many connections open at once and kept, by as many questions at the same time, each for `path`."""
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._touch(path, within))

    async def events(self, path: str, body: bytes, sent: Sent) -> AsyncGenerator[tuple[float, list[bytes]]]:
        """The stream that answers: with each arrival of bytes its time, and the `data:` payloads that it completed.

        Ends after `[DONE]`, or where the server ends the stream. Raises BrokenStreamError and NoAnswerError.
        """
        with _in_words():
            async with self._request("POST", path, body, sent) as response:
                await _insist_on_a_stream(response)
                split, clock, size, done = Events(), self._clock, 0, False
                async for data in response.content.iter_any():
                    at = clock()
                    size += len(data)
                    if size > MAX_STREAM:
                        raise BrokenStreamError(f"the stream is longer than {MAX_STREAM // 2**20} MiB")
                    payloads = split.feed(data)
                    if payloads:
                        yield at, payloads
                        if DONE in payloads:
                            done = True
                            break
                if done:
                    await _read_out(response)

    def _request(self, method: str, path: str, body: bytes | None, sent: Sent | None = None) -> "_Requested":
        if self._session is None:
            raise RuntimeError("not open")
        if sent is not None:
            sent.at = self._clock()
        return self._session.request(method, self.url + path, data=body, allow_redirects=False, trace_request_ctx=sent)

    async def _written(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, chunk: aiohttp.TraceRequestChunkSentParams
    ) -> None:
        # Called right before headers and body go to the socket: building the request is not the server's time.
        sent = context.trace_request_ctx
        if isinstance(sent, Sent):
            sent.at = self._clock()

    async def _whole(self, method: str, path: str, body: bytes | None, within: float) -> tuple[int, bytes]:
        with _in_words(within):
            async with asyncio.timeout(within), self._request(method, path, body) as response:
                return response.status, await _bounded(response)
        raise AssertionError("unreachable")

    async def _touch(self, path: str, within: float) -> None:
        with contextlib.suppress(NoAnswerError):
            await self._whole("GET", path, None, within)


_Requested = contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]


def base_of(url: str) -> str:
    """`http://host:port` without the API's own `/v1`. Raises ArcopsError (USAGE) for what is no such URL."""
    hint = "give the server's own address, as http://127.0.0.1:8000"
    try:
        parts = urlsplit(url.strip())
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError:
        raise ArcopsError(f"{printable(url)} is no URL", hint=hint, exit_code=ExitCode.USAGE) from None
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        raise ArcopsError(f"{printable(url)} is no URL of a server", hint=hint, exit_code=ExitCode.USAGE)
    if parts.username is not None or parts.password is not None:
        # It would stand in every record.
        raise ArcopsError("a URL with a password in it is not taken", hint="give a key", exit_code=ExitCode.USAGE)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}"


async def _insist_on_a_stream(response: aiohttp.ClientResponse) -> None:
    if response.status != HTTPStatus.OK:
        words = error_words(await _bounded(response))
        raise BrokenStreamError(f"HTTP {response.status}{f': {words}' if words else ''}")
    kind = response.content_type
    if kind != "text/event-stream":
        raise BrokenStreamError(f"the server answered with {printable(kind)} and not with a stream")


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BODY:
            raise NoAnswerError(f"the answer is longer than {MAX_BODY // 2**20} MiB")
        parts.append(part)
    return b"".join(parts)


async def _read_out(response: aiohttp.ClientResponse) -> None:
    """To the stream's end, so that its connection can be kept."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_TO_THE_END):
            size = 0
            async for data in response.content.iter_any():
                size += len(data)
                if size > MAX_BODY:
                    return


@contextlib.contextmanager
def _in_words(within: float | None = None) -> Generator[None]:
    """What a request can raise for the network's or the server's sake, as NoAnswerError."""
    try:
        yield
    except TimeoutError as error:
        connecting = isinstance(error, aiohttp.ClientError)
        if within is None and not connecting:
            raise  # The caller's own deadline.
        words = f"no connection within {CONNECT_PATIENCE:g} s" if connecting else f"no answer within {within:g} s"
        raise NoAnswerError(words) from error
    except aiohttp.ClientConnectorError as error:
        raise NoAnswerError(f"cannot connect: {printable(str(error.os_error.strerror or error.os_error))}") from error
    except aiohttp.ServerDisconnectedError as error:
        raise NoAnswerError("the server closed the connection without an answer") from error
    except aiohttp.ClientPayloadError as error:
        raise NoAnswerError("the connection was cut in the middle of the answer") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NoAnswerError(f"no HTTP that can be read: {printable(str(error)) or type(error).__name__}") from error
