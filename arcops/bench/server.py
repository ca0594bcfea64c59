"""One server to be measured, through its public API alone: asks, counts, and tells what it is."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from arcops.bench.http import Clock, Http, NoAnswerError, Sent
from arcops.bench.identify import PATIENCE, decoded, served, version_of
from arcops.bench.margin import margin_of, question_of
from arcops.bench.page import counters_of, facts_of_page, gauges_of
from arcops.bench.stream import DONE, Answer, BrokenStreamError, error_words
from arcops.core.errors import ArcopsError
from arcops.core.evidence.identity import Margin
from arcops.core.evidence.run import Counters, Request
from arcops.core.evidence.setting import ServerFacts
from arcops.core.evidence.work import Item, Prompt, digest_of_tokens
from arcops.core.metrics import Sample

_T = TypeVar("_T")

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"
GLANCE: Final = 0.5
"""Seconds for a look while a stage goes on: a server that does not answer at once is left alone."""
LONG: Final = 3600.0
"""Seconds for one measured request."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Text(msgspec.Struct):
    prompt: str


class BenchServer:
    """Used as an async context manager, in one event loop."""

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, clock: Clock = time.perf_counter
    ) -> None:
        """`url` as `http://host:port`, with or without `/v1`; raises ArcopsError (USAGE) for what is no URL.

        `model` is the served name that is asked for, where the server has several. `clock` has to be monotonic.
        """
        self._http = Http(url, api_key, clock)
        # Connections of their own: a look at the counters never takes one that a user's next request waits for.
        self._aside = Http(url, api_key, clock)
        self._clock = clock
        self._began = clock()
        self._model = model
        self._facts: ServerFacts | None = None

    async def __aenter__(self) -> Self:
        await self._http.open()
        await self._aside.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()
        await self._aside.close()

    async def open(self) -> ServerFacts:
        """Find the model and what the server says of itself.

        Raises ArcopsError where nobody answers, the key is refused, or it is not clear which model is meant.
        """
        model = await served(self._aside, self._model)
        self._model = model.id
        version = await self._get_maybe("/version")
        page = await self._get_maybe("/metrics")
        self._facts = ServerFacts(
            url=self.url,
            version=version_of(version),
            model=model.id,
            model_root=model.root,
            max_model_len=model.max_model_len,
            cache=None if page is None else facts_of_page(page).cache,
            speculates=None if page is None else facts_of_page(page).speculates,
        )
        return self._facts

    @property
    def url(self) -> str:
        """Without `/v1`."""
        return self._http.url

    @property
    def model(self) -> str:
        """The served name that is asked; known from `open()` on."""
        if self._model is None:
            raise RuntimeError("not open")
        return self._model

    @property
    def facts(self) -> ServerFacts:
        """What `open()` found."""
        if self._facts is None:
            raise RuntimeError("not open")
        return self._facts

    def begin(self) -> None:
        """Now is second 0 of the run; without it, it is when this object was made."""
        self._began = self._clock()

    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._began

    def body_of(self, item: Item) -> bytes:
        """What is posted for it. A prompt of 32,000 ids takes half a millisecond: made before its user has to start."""
        how = item.sampling
        body: dict[str, object] = {
            "model": self.model,
            "prompt": item.prompt,
            "max_tokens": item.max_tokens,
            "temperature": how.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        body |= {} if how.top_p is None else {"top_p": how.top_p}
        body |= {} if how.seed is None else {"seed": how.seed}
        body |= {"ignore_eos": True} if item.to_the_end else {}
        body |= {} if item.cache_salt is None else {"cache_salt": item.cache_salt}
        return msgspec.json.encode(body)

    async def ask(
        self, item: Item, user: int = 0, *, within: float = LONG, body: bytes | None = None
    ) -> tuple[Request, tuple[int, ...] | None, str]:
        """One request of a workload: what was timed, the ids (None where the server gives none), and the text.

        Never raises for the server's or the network's sake: that is the request's `problem`. Cancelled, it closes its
        stream. `body` is `body_of(item)`, where it was made beforehand.
        """
        answer, sent, problem = Answer(item.max_tokens), Sent(), ""
        body = self.body_of(item) if body is None else body
        try:
            async with (
                asyncio.timeout(within),
                contextlib.aclosing(self._http.events(COMPLETIONS, body, sent)) as stream,
            ):
                async for at, payloads in stream:
                    for payload in payloads:
                        answer.take(at, payload)
        except TimeoutError:
            problem = f"the answer was not complete within {within:g} s"
        except (BrokenStreamError, NoAnswerError) as error:
            problem = error.message
        return self._request(item, user, answer, sent, problem), answer.tokens, answer.text

    def _request(self, item: Item, user: int, answer: Answer, sent: Sent, problem: str) -> Request:
        began = self._clock() if sent.at is None else sent.at
        problem = problem or answer.problem()
        tokens = answer.tokens
        return Request(
            item=item.name,
            user=user,
            sent=began - self._began,
            arrivals=tuple(at - began for at in answer.arrivals),
            chunk_tokens=() if answer.without_ids else tuple(answer.chunk_tokens),
            ended=None if problem or answer.ended is None else answer.ended - began,
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            finish=answer.finish,
            answer=None if tokens is None or problem else digest_of_tokens(tokens),
            problem=problem,
        )

    async def post(self, path: str, body: Mapping[str, object], *, within: float = PATIENCE) -> tuple[int, bytes]:
        """Status and bounded body. Raises ArcopsError (NoAnswerError) where nothing comes of it."""
        return await self._aside.post(path, msgspec.json.encode(body), within=within)

    async def stream(self, path: str, body: Mapping[str, object]) -> AsyncGenerator[tuple[float, bytes]]:
        """The `data:` payloads of a stream, `[DONE]` left out, each with its arrival in seconds after the sending.

        Raises ArcopsError where it is refused, cut or unreadable. Bounded in bytes, not in time: the caller has the
        deadline (`asyncio.timeout`), and closes it (`contextlib.aclosing`) where it does not read to the end. A stream
        that ends without `[DONE]` ends in BrokenStreamError.
        """
        sent, done = Sent(), False
        async with contextlib.aclosing(self._http.events(path, msgspec.json.encode(body), sent)) as events:
            async for at, payloads in events:
                for payload in payloads:
                    done = done or payload == DONE
                    if not done:
                        yield at - (at if sent.at is None else sent.at), payload
        if not done:
            raise BrokenStreamError("the stream ended before the answer was complete")

    async def connect(self, users: int) -> None:
        """Have a connection for each of so many users, so that no request's time holds the making of one."""
        await self._http.connect(users, "/version", within=PATIENCE)

    async def counters(self) -> Counters:
        """What the server has counted; where that cannot be read, `unread` says why."""
        try:
            status, page = await self._aside.get("/metrics", within=PATIENCE)
        except NoAnswerError as error:
            return Counters(at=self.now(), unread=error.message)
        if status != HTTPStatus.OK:
            return Counters(at=self.now(), unread=f"/metrics: HTTP {status}")
        return counters_of(page, self.now())

    async def glance(self) -> Sample | None:
        """The gauges of requests and of the KV cache; None where the server does not answer at once."""
        try:
            status, page = await self._aside.get("/metrics", within=GLANCE)
        except NoAnswerError:
            return None
        return gauges_of(page) if status == HTTPStatus.OK else None

    async def tokenize(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """The model's ids of a text; `special`: with those that the tokenizer adds to a prompt, as a completion does.

        Raises ArcopsError where the server cannot.
        """
        body = {"model": self.model, "prompt": text, "add_special_tokens": special}
        return tuple((await self._told("/tokenize", body, _Tokens)).tokens)

    async def detokenize(self, ids: tuple[int, ...]) -> str:
        """The text of these ids. Raises ArcopsError where the server cannot."""
        return (await self._told("/detokenize", {"model": self.model, "tokens": ids}, _Text)).prompt

    async def margin(self, prompt: Prompt, shared: tuple[int, ...], oracle: int, other: int) -> Margin:
        """How likely the server holds two tokens after a prompt and what both answers begin with. Never raises for the
        server's sake: `Margin.unknown` says why there is none."""
        try:
            ids = await self.tokenize(prompt, special=True) if isinstance(prompt, str) else prompt
            body = question_of(self.model, ids + shared, oracle, other)
            status, answer = await self.post(COMPLETIONS, body)
        except ArcopsError as error:
            return Margin(None, None, error.message)
        if status != HTTPStatus.OK:
            return Margin(None, None, f"HTTP {status}: {error_words(answer)}")
        return margin_of(answer, oracle, other)

    async def _told(self, path: str, body: Mapping[str, object], kind: type[_T]) -> _T:
        status, answer = await self.post(path, body)
        if status != HTTPStatus.OK:
            raise ArcopsError(f"{path}: HTTP {status}: {error_words(answer)}")
        return decoded(answer, kind, path)

    async def _get_maybe(self, path: str) -> bytes | None:
        try:
            status, body = await self._aside.get(path, within=PATIENCE)
        except NoAnswerError:
            return None
        return body if status == HTTPStatus.OK else None
