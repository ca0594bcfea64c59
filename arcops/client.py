"""The only road to the daemon: HTTP on its Unix socket, and server-sent events for what goes on.

`Client` is for commands, `LiveClient` for screens that do many things at once. Both raise ArcopsError: with exit code 8
where nobody answers, else with the code that the daemon gave.
"""

import socket as sockets
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from arcops import wire
from arcops.core.errors import ArcopsError, NoDaemonError

M = TypeVar("M", bound=msgspec.Struct)

ANSWER_WITHIN = 30.0
"""Seconds: a daemon that takes longer for a plain answer is not well."""
QUALIFIED_WITHIN = 420.0
"""Seconds for an order that has to be qualified: its environment is read first, within five minutes."""
ACCEPTED_WITHIN = 120.0
"""Seconds for an order to be accepted: the profile's setup script is run first, and may take a minute."""
STREAM_SILENCE = 30.0
"""Seconds without a line before a stream is taken for dead: the daemon sends a comment every ten."""

SERVICE_UNAVAILABLE = 503
"""What the HTTP server itself says when it has too many connections."""

_BASE = "http://arcops"
_TIMEOUT = httpx.Timeout(ANSWER_WITHIN, connect=5.0)
_ORDER_TIMEOUT = httpx.Timeout(ACCEPTED_WITHIN, connect=5.0)
_QUALIFIED_TIMEOUT = httpx.Timeout(QUALIFIED_WITHIN, connect=5.0)
_STREAM_TIMEOUT = httpx.Timeout(ANSWER_WITHIN, connect=5.0, read=STREAM_SILENCE)


# verify=False below: a Unix socket has no TLS, and loading the CA bundle would cost 30 ms and 2 MB a client.


class Client:
    """A plain client: one call, one answer, within `within` seconds (an order may take longer)."""

    def __init__(self, socket: Path, *, within: float = ANSWER_WITHIN) -> None:
        self._socket = socket
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket), verify=False),
            base_url=_BASE,
            timeout=httpx.Timeout(within, connect=5.0),
            trust_env=False,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ping(self) -> wire.Pong:
        return self._get("/v1/ping", wire.Pong)

    def status(self, window: float = 60.0) -> wire.Status:
        """Everything, with rates over the last `window` seconds."""
        return self._get(_status_path(window), wire.Status)

    def history(self, seconds: float) -> wire.History:
        return self._get(f"/v1/history?seconds={seconds:.3f}", wire.History)

    def samples(self, since: float, until: float | None = None, step: float | None = None) -> wire.Samples:
        """A page of the numbers' history; times in seconds since the epoch, `until` excluded (None: all there is).

        `step` is 1 or a multiple of 60 seconds; without one it is 1 where seconds reach back that far, else 60.
        """
        return self._get(_samples_path(since, until, step), wire.Samples)

    def all_samples(
        self, since: float, until: float | None = None, step: float | None = None
    ) -> Iterator[wire.Samples]:
        """Page after page of it."""
        at: float | None = since
        while at is not None:
            page = self.samples(at, until, step)
            yield page
            at, step = page.next, page.step

    def events(self, after: int = 0, limit: int = 1000) -> wire.Events:
        return self._get(f"/v1/events?after={after}&limit={limit}", wire.Events)

    def logs(self, lines: int, launch: str | None = None, *, supervisor: bool = False) -> wire.LogLines:
        """The last lines of a launch's log (default: the newest), or of the supervisor's own."""
        return self._get(_logs_path(lines, launch, supervisor), wire.LogLines)

    def profiles(self) -> wire.Profiles:
        """What became of each profile, and what the backend was started with."""
        return self._get("/v1/profiles", wire.Profiles)

    def cards(self, *, everybody: bool = False) -> wire.Cards:
        """What is known of the machine's cards; `everybody`: who holds their memory is looked for in every process."""
        return self._get(_cards_path(everybody), wire.Cards)

    def environment(self) -> wire.EnvironmentPage:
        """What the backend's runtime really is, as it was recorded at its launch."""
        return self._get("/v1/environment", wire.EnvironmentPage)

    def metrics(self) -> str:
        """arcops' own figures in Prometheus' text format."""
        with _as_errors(self._socket):
            answer = self._http.get("/metrics")
            if answer.is_error:
                raise _refusal(answer)
            return answer.text

    def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        timeout = _QUALIFIED_TIMEOUT if request.qualified else _ORDER_TIMEOUT
        return self._tell("/v1/switch", request, wire.Accepted, timeout)

    def stop(self, request: wire.StopRequest) -> wire.Accepted:
        return self._post("/v1/stop", request)

    def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        return self._post("/v1/restart", request)

    def reload(self) -> wire.Reloaded:
        """Have site.yaml and the ordered profile read anew."""
        return self._tell("/v1/reload", wire.ReloadRequest(), wire.Reloaded)

    def keep_backend(self) -> wire.Kept:
        """Have the daemon leave its backend running, if it is told to end within a minute."""
        return self._tell("/v1/keep-backend", wire.KeepRequest(), wire.Kept)

    def follow_status(self, window: float = 60.0) -> Iterator[wire.Status]:
        """The status again whenever it changes, at least once a second; ends when the daemon does."""
        return self._follow(f"/v1/stream?window={window:.3f}", wire.Status)

    def follow_events(self, after: int = 0) -> Iterator[wire.Event]:
        return self._follow(f"/v1/events?follow=1&after={after}", wire.Event)

    def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> Iterator[wire.LogLines]:
        """The last `lines` lines, then those that come; over launches, if `launch` is not given."""
        return self._follow(f"{_logs_path(lines, launch, supervisor)}&follow=1", wire.LogLines)

    def _get(self, path: str, kind: type[M]) -> M:
        with _as_errors(self._socket):
            return _decoded(self._http.get(path), kind)

    def _post(self, path: str, request: msgspec.Struct) -> wire.Accepted:
        return self._tell(path, request, wire.Accepted)

    def _tell(self, path: str, request: msgspec.Struct, kind: type[M], timeout: httpx.Timeout = _ORDER_TIMEOUT) -> M:
        with _as_errors(self._socket):
            content = wire.encode(request)
            answer = self._http.post(path, content=content, headers=_JSON, timeout=timeout)
            return _decoded(answer, kind)

    def _follow(self, path: str, kind: type[M]) -> Iterator[M]:
        with _as_errors(self._socket), self._http.stream("GET", path, timeout=_STREAM_TIMEOUT) as response:
            if response.is_error:
                response.read()
                _decoded(response, kind)
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield _decode(line[5:].encode(), kind)


class LiveClient:
    """The same road for asyncio: the screens follow several streams at once."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket), verify=False),
            base_url=_BASE,
            timeout=_TIMEOUT,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def status(self, window: float = 60.0) -> wire.Status:
        return await self._get(_status_path(window), wire.Status)

    async def history(self, seconds: float) -> wire.History:
        return await self._get(f"/v1/history?seconds={seconds:.3f}", wire.History)

    async def samples(self, since: float, until: float | None = None, step: float | None = None) -> wire.Samples:
        """A page of the numbers' history, as `Client.samples` gives it."""
        return await self._get(_samples_path(since, until, step), wire.Samples)

    async def events(self, after: int = 0, limit: int = 1000) -> wire.Events:
        return await self._get(f"/v1/events?after={after}&limit={limit}", wire.Events)

    async def profiles(self) -> wire.Profiles:
        """What became of each profile, and what the backend was started with."""
        return await self._get("/v1/profiles", wire.Profiles)

    async def cards(self, *, everybody: bool = False) -> wire.Cards:
        """What is known of the machine's cards, as `Client.cards` gives it."""
        return await self._get(_cards_path(everybody), wire.Cards)

    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        return await self._post("/v1/switch", request, _QUALIFIED_TIMEOUT if request.qualified else _ORDER_TIMEOUT)

    async def stop(self, request: wire.StopRequest) -> wire.Accepted:
        return await self._post("/v1/stop", request)

    async def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        return await self._post("/v1/restart", request)

    def follow_status(self, window: float = 60.0) -> AsyncIterator[wire.Status]:
        return self._follow(f"/v1/stream?window={window:.3f}", wire.Status)

    def follow_logs(
        self, lines: int, launch: str | None = None, *, supervisor: bool = False
    ) -> AsyncIterator[wire.LogLines]:
        """The last `lines` lines of the backend (of the supervisor), then those that come."""
        return self._follow(f"{_logs_path(lines, launch, supervisor)}&follow=1", wire.LogLines)

    def follow_events(self, after: int = 0) -> AsyncIterator[wire.Event]:
        """The history after an id (a negative one is counted from the end), then what is added to it."""
        return self._follow(f"/v1/events?follow=1&after={after}", wire.Event)

    async def _get(self, path: str, kind: type[M]) -> M:
        with _as_errors(self._socket):
            return _decoded(await self._http.get(path), kind)

    async def _post(self, path: str, request: msgspec.Struct, timeout: httpx.Timeout = _ORDER_TIMEOUT) -> wire.Accepted:
        with _as_errors(self._socket):
            content = wire.encode(request)
            answer = await self._http.post(path, content=content, headers=_JSON, timeout=timeout)
            return _decoded(answer, wire.Accepted)

    async def _follow(self, path: str, kind: type[M]) -> AsyncIterator[M]:
        async with self._stream(path, kind) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield _decode(line[5:].encode(), kind)

    @asynccontextmanager
    async def _stream(self, path: str, kind: type[msgspec.Struct]) -> AsyncGenerator[httpx.Response]:
        with _as_errors(self._socket):
            async with self._http.stream("GET", path, timeout=_STREAM_TIMEOUT) as response:
                if response.is_error:
                    await response.aread()
                    _decoded(response, kind)
                yield response


_JSON = {"content-type": "application/json"}


def _status_path(window: float) -> str:
    return f"/v1/status?window={window:.3f}"


def _cards_path(everybody: bool) -> str:
    return "/v1/cards?everybody=1" if everybody else "/v1/cards"


def _logs_path(lines: int, launch: str | None, supervisor: bool) -> str:
    of = "&of=supervisor" if supervisor else ""
    return f"/v1/logs?lines={lines}{of}" + (f"&launch={quote(launch, safe='')}" if launch else "")


def _samples_path(since: float, until: float | None, step: float | None) -> str:
    # repr: a page goes on exactly where the last one ended.
    bounds = [("from", since), ("to", until), ("step", step)]
    return "/v1/samples?" + "&".join(f"{name}={value!r}" for name, value in bounds if value is not None)


def _decoded(response: httpx.Response, kind: type[M]) -> M:
    """The message, or the error that the daemon sent in its place."""
    if not response.is_error:
        return _decode(response.content, kind)
    raise _refusal(response)


def _refusal(response: httpx.Response) -> ArcopsError:
    if response.headers.get("content-type", "").startswith("application/json"):
        return _decode(response.content, wire.ErrorInfo).raised()
    return ArcopsError(
        f"the daemon refused the request: {response.status_code} {response.reason_phrase}",
        hint="503 means that it has too many connections open" if response.status_code == SERVICE_UNAVAILABLE else "",
    )


def _decode(content: bytes, kind: type[M]) -> M:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArcopsError(
            f"the daemon's answer cannot be read: {error}",
            hint="daemon and client may be of different versions: restart arcopsd",
        ) from error


@contextmanager
def _as_errors(socket: Path) -> Generator[None]:
    """Turn what the network says into what a person can use."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        _close_what_was_left_open(error)
        raise NoDaemonError(
            f"no daemon answers on {socket}",
            hint="start one with `arcopsd`, or `arcops service start`",
        ) from error
    except httpx.TimeoutException as error:
        raise ArcopsError(
            "the daemon does not answer in time", hint="see its log; is the machine overloaded?"
        ) from error
    except httpx.TransportError as error:
        raise NoDaemonError("the daemon went away in the middle of an answer", hint="is it being restarted?") from error
    except httpx.HTTPError as error:
        raise ArcopsError(f"the daemon's answer cannot be read: {error}", hint="does arcopsd listen there?") from error


def _close_what_was_left_open(error: BaseException) -> None:
    """httpx forgets the socket with which it found nobody: it would be open until the interpreter comes by."""
    cause: BaseException | None = error
    while cause is not None:
        for frame, _ in walk_tb(cause.__traceback__):
            for value in frame.f_locals.values():
                # asyncio closes its own.
                if isinstance(value, sockets.socket):
                    value.close()
        cause = cause.__cause__ or cause.__context__
