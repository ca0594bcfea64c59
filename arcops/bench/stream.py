"""What a stream of server-sent events brought: its events, and the answer that they make. Pure; bytes are untrusted."""

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from arcops.core.errors import ArcopsError

MAX_LINE: Final = 32 * 1024 * 1024
"""Bytes of one event: the first chunk repeats the ids of the prompt, ten bytes each for a million tokens."""
DONE: Final = b"[DONE]"
ABORTED: Final = "abort"
"""The finish reason that vLLM gives when the server, or the client, broke the answer off."""
_MAX_WORDS: Final = 300
"""Characters of a server's own words that are passed on."""


class BrokenStreamError(ArcopsError):
    """A stream that cannot be an answer; the message says why."""


_NO_ERROR: Final = msgspec.Raw(b"null")


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number of tokens, or a token's id: what no float holds exactly is no such thing, and cannot be reckoned with."""


class _Choice(msgspec.Struct):
    index: int = 0
    text: str | None = None
    token_ids: list[Count] | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = _NO_ERROR


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


_read_chunk = msgspec.json.Decoder(_Chunk).decode


class Events:
    """Splits bytes into the payloads of `data:` lines, however they were cut on the way.

    An event of several `data:` lines (the format allows it, no server of this API sends it) counts as several.
    """

    __slots__ = ("_kept", "_size")

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are complete with these bytes. Raises BrokenStreamError where a line has no end."""
        if self._kept or self._size:
            # Joined only when the line ends: a long one costs its length, not the square of it.
            if b"\n" not in data:
                return self._keep(data)
            data = b"".join((*self._kept, data))
            self._kept, self._size = [], 0
        lines = data.split(b"\n")
        rest = lines.pop()
        if rest:
            self._keep(rest)
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]

    def _keep(self, data: bytes) -> list[bytes]:
        self._kept.append(data)
        self._size += len(data)
        if self._size > MAX_LINE:
            raise BrokenStreamError(f"a line of the stream is longer than {MAX_LINE // 2**20} MiB")
        return []


@dataclass(slots=True)
class Answer:
    """An answer of the completions API while it comes. Times are those that `take` is given."""

    max_tokens: int
    arrivals: list[float] = field(default_factory=list[float])
    """Of each chunk with tokens."""
    chunk_tokens: list[int] = field(default_factory=list[int])
    ids: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])
    without_ids: bool = False
    """A chunk brought text and no ids: this server does not give them."""
    finish: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    ended: float | None = None

    def take(self, at: float, data: bytes) -> None:
        """One event. Raises BrokenStreamError where it cannot belong to an answer to what was asked."""
        if data == DONE:
            self.ended = at
            return
        try:
            chunk = _read_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BrokenStreamError(f"an event of the stream cannot be read: {printable(str(error))}") from error
        if chunk.error != _NO_ERROR:
            raise BrokenStreamError(f"the server broke off: {error_words(bytes(data))}")
        if chunk.choices:
            self._take_choice(at, chunk.choices)
        if chunk.usage is not None:
            self._take_usage(chunk.usage)

    def _take_choice(self, at: float, choices: list[_Choice]) -> None:
        choice = choices[0]
        if len(choices) > 1 or choice.index != 0:
            raise BrokenStreamError("the stream has more than the one answer that was asked for")
        if choice.finish_reason is not None:
            self.finish = printable(choice.finish_reason)
        if choice.text:
            self.texts.append(choice.text)
        ids = choice.token_ids
        if ids is None:
            if not choice.text:
                return
            self.without_ids = True
        elif ids:
            if len(self.ids) + len(ids) > self.max_tokens:
                raise BrokenStreamError(f"the server sent more tokens than the {self.max_tokens} that were asked for")
            self.ids += ids
        else:
            return
        self.arrivals.append(at)
        self.chunk_tokens.append(len(ids or ()))

    def _take_usage(self, usage: _Usage) -> None:
        self.prompt_tokens = usage.prompt_tokens
        self.output_tokens = usage.completion_tokens
        details = usage.prompt_tokens_details
        self.cached_tokens = None if details is None else details.cached_tokens

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def tokens(self) -> tuple[int, ...] | None:
        """The ids; None where the server did not give them for every chunk, or there is no answer."""
        return None if self.without_ids or not self.arrivals else tuple(self.ids)

    def problem(self) -> str:
        """After the stream's end: why it is no complete answer, in words; empty where it is one."""
        if self.ended is None:
            return "the stream ended before the answer was complete"
        if self.finish is None:
            return "the answer ended without a reason"
        if self.finish == ABORTED:
            return "the server broke the answer off (abort)"
        if not self.arrivals and self.output_tokens != 0:
            return "the answer has no token"
        counted = self.output_tokens
        if counted is not None and counted > self.max_tokens:
            return f"the server counts {counted} tokens, and {self.max_tokens} were asked for"
        if counted is not None and self.tokens is not None and counted != len(self.ids):
            return f"the server counts {counted} tokens and sent the ids of {len(self.ids)}"
        cached, prompt = self.cached_tokens, self.prompt_tokens
        if cached is not None and prompt is not None and cached > prompt:
            return f"the server found {cached} tokens of a prompt of {prompt} in its cache"
        return ""


def error_words(body: bytes) -> str:
    """What the server's error says, in one line, cut to a sensible length."""
    try:
        return printable(msgspec.json.decode(body, type=_ErrorBody).error.message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return printable(body[: 4 * _MAX_WORDS].decode("utf-8", "replace"))


def printable(text: str) -> str:
    """A server's text as one line without control characters, cut to a sensible length."""
    whole = " ".join("".join(one if one.isprintable() else " " for one in text[: 4 * _MAX_WORDS]).split())
    return whole if len(whole) <= _MAX_WORDS else f"{whole[: _MAX_WORDS - 1]}…"
