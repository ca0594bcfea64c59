"""vLLM over HTTP: is it up, what does it serve, what are its numbers, does it answer.

Nothing here raises for what a network or a server may do: a reading is a value or an absence with its reason in words.
Bodies are bounded in size and in time, since whatever listens on the port may be a stranger.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import httpx
import msgspec

from arcops.core import quality
from arcops.core.launch import Checks
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import AnswerState, Server

PATIENCE = 2.0
"""Seconds that a reading may take. vLLM answers these in milliseconds, also under load and while prefilling."""
CONNECT_PATIENCE = 0.5
"""Seconds for a TCP connect: it does not leave the machine."""
MAX_BODY = 8 * 1024 * 1024
"""Bytes of a body that are read; vLLM's metrics are some 50 KB."""
PLAIN = Checks()
"""One token is asked for, and whatever it is will do."""
_MAX_DETAIL = 300
"""Characters of a server's own words that are passed on."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What came of a question: any of the fates but NOT_ASKED and WAITING, and in words why."""

    state: AnswerState
    detail: str


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Usage(msgspec.Struct):
    completion_tokens: int = 0


class _Choice(msgspec.Struct):
    text: str | None = None
    token_ids: list[int] | None = None


class _Completion(msgspec.Struct):
    usage: _Usage | None = None
    choices: list[_Choice] | None = None


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


class _TooLargeError(Exception):
    """The body is larger than MAX_BODY."""


_FAULTS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, TimeoutError, ValueError, _TooLargeError)
"""What a request can raise for the network's or the server's sake; ValueError for a URL or header that cannot be."""


def reach(host: str) -> str:
    """The address at which a server that binds `host` is reached from here, without brackets.

    A server on all interfaces is reached over loopback.
    """
    bare = host.strip().removeprefix("[").removesuffix("]")
    match bare:
        case "" | "0.0.0.0" | "*":  # noqa: S104 - compared with, never bound
            return "127.0.0.1"
        case "::" | "::0" | "0:0:0:0:0:0:0:0":
            return "::1"
        case _:
            return bare


class VllmServer:
    """One vLLM server, as its HTTP interface tells. Close it, or use it as a context manager.

    `now` is the caller's monotonic clock in seconds: readings carry its time. It must be used in one event loop only.
    """

    def __init__(self, host: str, port: int, api_key: str | None, *, now: Callable[[], float]) -> None:
        self._host = reach(host)
        self._port = port
        self._now = now
        literal = f"[{self._host}]" if ":" in self._host else self._host
        self._where = f"{literal}:{port}"
        self._base = f"http://{self._where}"
        # Only what asks for the key is given it: vLLM guards /v1 and leaves /health and /metrics open.
        self._key_header = {} if api_key is None else {b"Authorization": b"Bearer " + api_key.encode()}
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=CONNECT_PATIENCE),
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=2, keepalive_expiry=30.0),
            headers={"Accept-Encoding": "identity", "User-Agent": "arcops"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def accepts(self) -> bool:
        """Whether somebody accepts TCP connections there: cheap enough for ten times a second while a server starts."""
        try:
            async with asyncio.timeout(CONNECT_PATIENCE):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, ValueError):  # TimeoutError is an OSError; a host name may not be encodable
            return False
        # A port in the ephemeral range can connect to itself while nobody listens.
        itself: bool = writer.get_extra_info("sockname") == writer.get_extra_info("peername")
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return not itself

    async def health(self) -> Reading[bool]:
        """True for a 200 from /health, False for any other answer (503 when the engine has died)."""
        try:
            async with asyncio.timeout(PATIENCE):
                status, _ = await self._get("/health")
        except _FAULTS as fault:
            return self._unknown(fault)
        return Known(status == HTTPStatus.OK, self._now())

    async def models(self) -> Reading[tuple[str, ...]]:
        """The names that /v1/models serves."""
        try:
            async with asyncio.timeout(PATIENCE):
                status, body = await self._get("/v1/models", self._key_header)
        except _FAULTS as fault:
            return self._unknown(fault)
        if status == HTTPStatus.UNAUTHORIZED:
            return Unknown(f"{self._where} refuses our API key (401 from /v1/models)", self._now())
        answer = _decode(body, _Models) if status == HTTPStatus.OK else None
        if answer is None:
            return Unknown(f"{self._where} gives no list of models ({status} from /v1/models)", self._now())
        return Known(tuple(model.id for model in answer.data), self._now())

    async def look(self) -> Reading[Server]:
        """Health and served names. Where the names cannot be read the server is up all the same; `unread` says why."""
        health = await self.health()
        if isinstance(health, Unknown):
            return health
        models = await self.models()
        match models:
            case Known(names, at):
                return Known(Server(healthy=health.value, models=names), at)
            case Unknown(reason, at):
                return Known(Server(healthy=health.value, models=(), unread=reason), at)

    async def metrics(self) -> Reading[str]:
        """The Prometheus text, at most MAX_BODY bytes within PATIENCE seconds; bytes that are no UTF-8 are replaced."""
        try:
            async with asyncio.timeout(PATIENCE):
                status, body = await self._get("/metrics")
        except _FAULTS as fault:
            return self._unknown(fault)
        if status != HTTPStatus.OK:
            return Unknown(f"{self._where} gives no metrics ({status} from /metrics)", self._now())
        return Known(body.decode(errors="replace"), self._now())

    async def first_answer(self, model: str, deadline: float, checks: Checks = PLAIN) -> ProbeAnswer:
        """Ask `model` what `checks` say, greedily, and wait at most `deadline` seconds; core/quality judges the answer.

        Neither min_p nor logit_bias may be set: any speculative method refuses them.
        """
        asked = quality.question_of(checks)
        question = {
            "model": model,
            "prompt": asked.prompt,
            "max_tokens": asked.max_tokens,
            "temperature": 0,
            "stream": False,
        }
        if asked.max_tokens > 1:
            question["return_token_ids"] = True
        try:
            async with asyncio.timeout(deadline):
                status, body = await self._fetch("POST", "/v1/completions", self._key_header, question)
        except TimeoutError:
            return ProbeAnswer(AnswerState.LATE, f"no token within {deadline:g} s")
        except _FAULTS as fault:
            return ProbeAnswer(AnswerState.WRONG, self._words(fault))
        if status != HTTPStatus.OK:
            fate = AnswerState.REFUSED if 400 <= status < 500 else AnswerState.WRONG
            return ProbeAnswer(fate, f"{status} from /v1/completions{_said(body)}")
        answer = _decode(body, _Completion)
        if answer is None:
            return ProbeAnswer(AnswerState.WRONG, "the answer to /v1/completions is not what vLLM sends")
        choice = answer.choices[0] if answer.choices else _Choice()
        counted = 0 if answer.usage is None else answer.usage.completion_tokens
        said = quality.Said(choice.text or "", tuple(choice.token_ids or ()), counted)
        return ProbeAnswer(*quality.judge(checks, said))

    async def _get(self, path: str, headers: dict[bytes, bytes] | None = None) -> tuple[int, bytes]:
        return await self._fetch("GET", path, headers, None)

    async def _fetch(
        self, method: str, path: str, headers: dict[bytes, bytes] | None, json: object
    ) -> tuple[int, bytes]:
        """Status and body of one request, the body as it came over the wire and bounded."""
        async with self._client.stream(method, self._base + path, headers=headers, json=json) as response:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > MAX_BODY:
                    raise _TooLargeError
                chunks.append(chunk)
            return response.status_code, b"".join(chunks)

    def _unknown(self, fault: Exception) -> Unknown:
        return Unknown(self._words(fault), self._now())

    def _words(self, fault: Exception) -> str:
        match fault:
            case httpx.ConnectTimeout():
                return f"no connection to {self._where} within {CONNECT_PATIENCE:g} s"
            case TimeoutError() | httpx.TimeoutException():
                return f"{self._where} did not answer within {PATIENCE:g} s"
            case httpx.ConnectError():
                return f"nothing accepts connections on {self._where}"
            case httpx.ReadError() | httpx.RemoteProtocolError():
                return f"{self._where} cut the connection, or does not speak HTTP"
            case _TooLargeError():
                return f"{self._where} sent more than {MAX_BODY // 1024**2} MiB"
            case _:
                return _shorten(f"{self._where} cannot be asked: {type(fault).__name__} {fault}")


def _decode(body: bytes, kind: type[T]) -> T | None:
    """The body as `kind`, or None if it is something else."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _said(body: bytes) -> str:
    """The server's own words about an error, if it has any, made fit for one line."""
    error = _decode(body, _ErrorBody)
    return "" if error is None else f": {_shorten(error.error.message)}"


def _shorten(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 2 * _MAX_DETAIL]).split())
    return line if len(line) <= _MAX_DETAIL else line[: _MAX_DETAIL - 1] + "…"
