"""One chat with the server, greedily, streamed or whole: what it said, and which functions it called."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from arcops.bench.server import CHAT, BenchServer
from arcops.bench.stream import ABORTED, BrokenStreamError, error_words, printable
from arcops.core.errors import ArcopsError

MOST_CHARACTERS: Final = 4_000_000
"""Of one answer, all its parts together."""
MOST_CALLS: Final = 64
"""Functions that one answer may call."""

_Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the server told it: untrusted text, of which nothing is known to be JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What came of one chat, as far as it came. Texts are the server's own, not made fit for a terminal."""

    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    """In the order of their indices."""
    finish: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    ids: tuple[int, ...] | None
    """Of all that was said; None where the server did not give every one of them."""
    seconds: float
    """From the asking to the end, or to the problem."""
    problem: str = ""
    """Why it is no complete answer, in words; empty where it is one, right or wrong, or where the client left it."""
    first: float | None = None
    """Of a stream: seconds from the asking to the first chunk that said something; None where none did."""
    last: float | None = None
    """The same of the last one."""
    chunks: int = 0
    """Of a stream, that said something."""
    left: bool = False
    """The client went away in the middle, as it was told to."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    """The message of a whole answer, or what a chunk adds to it."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """What `reasoning` was called until vLLM 0.12."""
    tool_calls: list[_Call] | None = None

    @property
    def says_something(self) -> bool:
        return bool(self.content or self.reasoning or self.reasoning_content or self.tool_calls)


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None
    token_ids: list[_Count] | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()
    """Never in a union: msgspec then takes nothing but null."""


_read = msgspec.json.Decoder(_Reply).decode


@dataclass(slots=True)
class _Parts:
    """One call while it comes."""

    name: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Heard:
    """An answer while it comes."""

    max_tokens: int
    content: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    calls: dict[int, _Parts] = field(default_factory=dict[int, _Parts])
    ids: list[int] = field(default_factory=list[int])
    finish: str | None = None
    usage: _Usage = field(default_factory=_Usage)
    size: int = 0
    """Characters so far."""
    first: float | None = None
    last: float | None = None
    chunks: int = 0
    left: bool = False

    def take(self, data: bytes, at: float | None = None) -> None:
        """A whole answer, or a chunk that came `at`. Raises BrokenStreamError for what cannot belong to one answer."""
        try:
            reply = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BrokenStreamError(f"the answer cannot be read: {printable(str(error))}") from error
        if bytes(reply.error) not in (b"", b"null"):
            raise BrokenStreamError(f"the server broke off: {error_words(data)}")
        self.usage = reply.usage or self.usage
        choices = reply.choices or []
        if len(choices) > 1 or any(choice.index != 0 for choice in choices):
            raise BrokenStreamError("there is more than the one answer that was asked for")
        for choice in choices:
            self._choose(choice)
        if at is not None and any(choice.delta is not None and choice.delta.says_something for choice in choices):
            self.first = at if self.first is None else self.first
            self.last = at
            self.chunks += 1

    def _choose(self, choice: _Choice) -> None:
        if choice.finish_reason is not None:
            self.finish = printable(choice.finish_reason)
        self.ids += choice.token_ids or ()
        if len(self.ids) > self.max_tokens:
            raise BrokenStreamError(f"the server sent more tokens than the {self.max_tokens} that were asked for")
        if choice.message is not None:
            self._hear(choice.message, whole=True)
        if choice.delta is not None:
            self._hear(choice.delta, whole=False)

    def _hear(self, said: _Said, *, whole: bool) -> None:
        self._add(self.content, said.content)
        self._add(self.reasoning, said.reasoning or said.reasoning_content)
        for place, call in enumerate(said.tool_calls or ()):
            index = place if whole else call.index
            if index is None or not 0 <= index < MOST_CALLS:
                raise BrokenStreamError(f"a tool call has the index {index}")
            parts = self.calls.setdefault(index, _Parts())
            if call.function is not None:
                self._add(parts.name, call.function.name)
                self._add(parts.arguments, call.function.arguments)

    def _add(self, texts: list[str], text: str | None) -> None:
        if text:
            texts.append(text)
            self.size += len(text)
        if self.size > MOST_CHARACTERS:
            raise BrokenStreamError(f"the answer is longer than {MOST_CHARACTERS} characters")

    def answer(self, seconds: float, problem: str) -> ChatAnswer:
        output = self.usage.completion_tokens
        # A parser that holds text back may leave out its ids as well.
        complete = bool(self.ids) and output in (None, len(self.ids))
        calls = [self.calls[index] for index in sorted(self.calls)]
        return ChatAnswer(
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            tool_calls=tuple(ToolCall("".join(call.name), "".join(call.arguments)) for call in calls),
            finish=self.finish,
            prompt_tokens=self.usage.prompt_tokens,
            output_tokens=output,
            ids=tuple(self.ids) if complete else None,
            seconds=seconds,
            problem=problem or ("" if self.left else self._incomplete()),
            first=self.first,
            last=self.last,
            chunks=self.chunks,
            left=self.left,
        )

    def _incomplete(self) -> str:
        if self.finish is None:
            return "the answer ended without a reason"
        if self.finish == ABORTED:
            return "the server broke the answer off (abort)"
        counted = self.usage.completion_tokens
        if counted is not None and counted > self.max_tokens:
            return f"the server counts {counted} tokens, and {self.max_tokens} were asked for"
        return ""


async def ask_chat(
    server: BenchServer,
    messages: Sequence[Mapping[str, object]],
    *,
    max_tokens: int,
    stream: bool = False,
    tools: Sequence[Mapping[str, object]] = (),
    tool_choice: object = None,
    thinking: bool = False,
    within: float = 120.0,
    leave_after: int | None = None,
) -> ChatAnswer:
    """Ask greedily, and listen to the end, for `within` seconds at most; `server` is open.

    `tool_choice` as in the API, its default (`auto` where there are tools) for None. A stream is left after
    `leave_after` chunks that said something, where that is given. Never raises for the server's or the network's sake:
    that is the answer's `problem`, beside what came until then.
    """
    body: dict[str, object] = {
        "model": server.model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": thinking},
    }
    body |= {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    body |= {"tools": tools} if tools else {}
    body |= {} if tool_choice is None else {"tool_choice": tool_choice}
    heard, began, problem = _Heard(max_tokens), server.now(), ""
    try:
        async with asyncio.timeout(within):
            await (_streamed(server, body, heard, leave_after) if stream else _whole(server, body, heard, within))
    except TimeoutError:
        problem = f"the answer was not complete within {within:g} s"
    except ArcopsError as error:
        problem = error.message
    return heard.answer(server.now() - began, problem)


async def _streamed(server: BenchServer, body: Mapping[str, object], heard: _Heard, leave_after: int | None) -> None:
    async with contextlib.aclosing(server.stream(CHAT, body)) as stream:
        async for at, payload in stream:
            heard.take(payload, at)
            if leave_after is not None and heard.chunks >= leave_after:
                heard.left = True
                return


async def _whole(server: BenchServer, body: Mapping[str, object], heard: _Heard, within: float) -> None:
    # A little more than the deadline around it, whose words are the same for both kinds.
    status, answer = await server.post(CHAT, body, within=within + 1.0)
    if status != HTTPStatus.OK:
        raise BrokenStreamError(f"HTTP {status}: {error_words(answer)}")
    heard.take(answer)
