"""One request of a client, from its sending to its end, and what is wrong with its answer. Bytes are untrusted."""

import asyncio
import contextlib
from typing import Final

import msgspec

from arcops.bench.server import CHAT, BenchServer
from arcops.bench.soak.fold import Done
from arcops.bench.soak.work import CITIES, Task
from arcops.bench.stream import ABORTED, printable
from arcops.core.errors import ArcopsError

PATIENCE: Final = 300.0
"""Seconds for one request."""
MOST_CHARACTERS: Final = 1_000_000
"""Of an answer that is kept to be looked at."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None

    @property
    def says_something(self) -> bool:
        return bool(self.content or self.reasoning or self.tool_calls)


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw | None = None


class _Weather(msgspec.Struct, forbid_unknown_fields=True):
    city: str
    days: int


_read = msgspec.json.Decoder(_Chunk).decode


class _Heard:
    """What came of an answer so far."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.last = 0.0
        self.chunks = 0
        self.tokens: int | None = None
        self.finish: str | None = None
        self.content = ""
        self.name = ""
        self.arguments = ""

    def take(self, at: float, payload: bytes) -> str:
        """One event; what is wrong with it, in words."""
        try:
            chunk = _read(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return f"an event of the stream cannot be read: {printable(str(error))}"
        if chunk.error is not None:
            return f"the server broke off: {printable(bytes(chunk.error)[:400].decode('utf-8', 'replace'))}"
        if chunk.usage is not None:
            self.tokens = chunk.usage.completion_tokens
        for choice in (chunk.choices or ())[:1]:
            self.finish = choice.finish_reason or self.finish
            if choice.delta is not None and choice.delta.says_something:
                self._hear(at, choice.delta)
        if len(self.content) + len(self.arguments) > MOST_CHARACTERS:
            return "the answer is longer than any that was asked for"
        return ""

    def _hear(self, at: float, delta: _Delta) -> None:
        self.first = at if self.first is None else self.first
        self.last = at
        self.chunks += 1
        self.content += delta.content or ""
        for call in delta.tool_calls or ():
            if call.function is not None:
                self.name += call.function.name or ""
                self.arguments += call.function.arguments or ""

    @property
    def between(self) -> float | None:
        """Mean inter-token latency in seconds; with speculation several tokens come in one chunk."""
        count = self.chunks if self.tokens is None else self.tokens
        if self.first is None or self.chunks < 2 or count < 2:
            return None
        return (self.last - self.first) / (count - 1)


async def talk(server: BenchServer, client: int, task: Task) -> Done:
    """Ask, and listen to the end or until the client leaves. Never raises for the server's sake."""
    sent, heard, problem, left = server.now(), _Heard(), "", False
    try:
        async with asyncio.timeout(PATIENCE), contextlib.aclosing(server.stream(CHAT, task.body)) as stream:
            async for at, payload in stream:
                problem = heard.take(at, payload)
                left = task.leave_after is not None and heard.chunks >= task.leave_after
                if problem or left:
                    break
    except TimeoutError:
        problem = f"no complete answer within {PATIENCE:g} s"
    except ArcopsError as error:
        problem = error.message
    problem = problem or ("" if left else wrong(task.kind, heard.finish, heard.chunks, heard.content, heard.arguments))
    return Done(
        kind=task.kind,
        client=client,
        sent=sent,
        seconds=server.now() - sent,
        ttft=heard.first,
        between=None if left else heard.between,
        problem=problem,
    )


def wrong(kind: str, finish: str | None, chunks: int, content: str, arguments: str) -> str:
    """What is wrong with a complete answer, as `WHAT: details`; empty where nothing is."""
    if finish is None:
        return "the answer ended without a reason"
    if finish == ABORTED:
        return "the server broke the answer off"
    if not chunks:
        return "the answer is empty"
    return wrong_call(content, arguments) if kind == "tools" else ""


def wrong_call(content: str, arguments: str) -> str:
    """What is wrong with a tool call; empty where it parses and fits its schema."""
    if not arguments:
        what = "a tool call was left in the text" if "<tool_call>" in content else "no tool was called"
        return f"{what}: {printable(content)}"
    try:
        given = msgspec.json.decode(arguments, type=_Weather)
    except msgspec.ValidationError as error:
        return f"a tool call does not fit its schema: {printable(arguments)}: {printable(str(error))}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"a tool call is no JSON: {printable(arguments)}"
    if given.city not in CITIES:
        return f"a tool call does not fit its schema: {printable(arguments)}"
    return ""
