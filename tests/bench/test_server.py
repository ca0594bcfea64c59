"""A server as a benchmark sees it: what is asked of it, what it says of itself, and how long it took."""

import asyncio
import json
import socket
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from arcops.bench import http
from arcops.bench.http import base_of
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.identity import Margin
from arcops.core.evidence.work import Item, Sampling, digest_of_tokens
from tests.bench.raw import Caller, raw_server, token, usage

METRICS = (Path(__file__).parents[1] / "data" / "metrics" / "mtp_load.txt").read_bytes()
ITEM = Item("one", "prose", (1, 2, 3, 4), 3, to_the_end=True)


def models(*names: str) -> bytes:
    return json.dumps(
        {"data": [{"id": name, "root": f"/models/{name}", "max_model_len": 2048} for name in names]}
    ).encode()


async def vllm(caller: Caller) -> None:
    """Answers as vLLM does."""
    plain: Mapping[str, bytes] = {
        "/v1/models": models("tiny"),
        "/version": b'{"version": "0.29.0"}',
        "/metrics": METRICS,
        "/tokenize": b'{"tokens": [7, 8], "count": 2}',
        "/detokenize": b'{"prompt": "seven eight"}',
    }
    if caller.path in plain:
        await caller.answer(plain[caller.path])
    elif b'"stream":true' in caller.body:
        await caller.stream([token(5), token(6, 7, finish="length"), usage(4, 3, cached=0), b"[DONE]"])
    else:
        top = {"token_id:9": -0.25, "token_id:10": -1.5}
        logprobs = {"tokens": ["token_id:9"], "token_logprobs": [-0.25], "top_logprobs": [top]}
        await caller.answer(json.dumps({"choices": [{"logprobs": logprobs}]}).encode())


@pytest.mark.asyncio
async def test_it_says_what_it_is() -> None:
    async with raw_server(vllm) as raw, BenchServer(f"{raw.url}/v1/") as server:
        facts = await server.open()
    assert (facts.url, facts.version, facts.model, facts.model_root) == (raw.url, "0.29.0", "tiny", "/models/tiny")
    assert (facts.max_model_len, facts.speculates) == (2048, True)
    assert facts.cache is not None


@pytest.mark.asyncio
async def test_a_server_that_says_only_its_models_leaves_the_rest_unknown() -> None:
    async def script(caller: Caller) -> None:
        if caller.path == "/v1/models":
            await caller.answer(b'{"data": [{"id": "gpt"}]}')
        else:
            await caller.answer(b"not here", "404 Not Found", "text/plain")

    async with raw_server(script) as raw, BenchServer(raw.url) as server:
        facts = await server.open()
        counters = await server.counters()
    assert (facts.version, facts.model_root, facts.max_model_len, facts.cache, facts.speculates) == (None,) * 5
    assert counters.unread == "/metrics: HTTP 404"


@pytest.mark.asyncio
async def test_an_answer_has_its_ids_its_text_and_its_times() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        server.begin()
        request, ids, text = await server.ask(ITEM, user=3)
        done = server.now()
    assert (ids, text, request.problem, request.finish) == ((5, 6, 7), "xx", "", "length")
    assert (request.item, request.user, request.chunk_tokens, request.answer) == (
        "one",
        3,
        (1, 2),
        digest_of_tokens((5, 6, 7)),
    )
    assert (request.prompt_tokens, request.output_tokens, request.cached_tokens) == (4, 3, 0)
    assert request.ended is not None
    assert 0 < request.arrivals[0] <= request.arrivals[1] <= request.ended
    assert 0 <= request.sent <= request.sent + request.ended <= done


@pytest.mark.asyncio
async def test_the_items_own_words_are_asked() -> None:
    sampled = Item("two", "prose", "a text", 9, Sampling(0.5, top_p=0.9, seed=11), cache_salt="salt")
    async with raw_server(vllm) as raw, BenchServer(raw.url, api_key="secret") as server:
        await server.open()
        await server.ask(ITEM)
        await server.ask(sampled)
    first, second = raw.bodies("/v1/completions")
    always = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True}
    assert first == always | {"prompt": [1, 2, 3, 4], "max_tokens": 3, "temperature": 0.0, "ignore_eos": True}
    assert second == always | {
        "prompt": "a text",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 11,
        "cache_salt": "salt",
    }
    assert {one.headers.get("authorization") for one in raw.asked} == {"Bearer secret"}


@pytest.mark.asyncio
async def test_connections_are_made_beforehand_and_kept() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        await server.connect(8)
        before = raw.connections
        for _ in range(3):
            await asyncio.gather(*(server.ask(ITEM) for _ in range(8)))
        assert before >= 8
        assert raw.connections == before
        users = {one.connection for one in raw.asked if one.path == "/v1/completions"}
    assert len(users) == 8


@pytest.mark.asyncio
async def test_a_look_takes_no_users_connection() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        await asyncio.gather(server.ask(ITEM), server.counters(), server.glance())
        await asyncio.gather(server.ask(ITEM), server.counters(), server.glance())
        asked = {one.connection for one in raw.asked if one.path == "/v1/completions"}
        others = {one.connection for one in raw.asked if one.path != "/v1/completions"}
    assert not asked & others


@pytest.mark.asyncio
async def test_texts_and_ids_are_turned_into_each_other() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        assert await server.tokenize("seven eight") == (7, 8)
        assert await server.detokenize((7, 8)) == "seven eight"
    assert raw.bodies("/tokenize") == [{"model": "tiny", "prompt": "seven eight", "add_special_tokens": False}]
    assert raw.bodies("/detokenize") == [{"model": "tiny", "tokens": [7, 8]}]


@pytest.mark.asyncio
async def test_a_margin_is_asked_after_what_both_answers_share() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        assert await server.margin((1, 2), (3,), 10, 9) == Margin(-1.5, -0.25)
        assert (
            await server.margin("a text", (3,), 10, 11)
        ).unknown == "not among the 2 tokens that the server named: 11"
    prompts = [body["prompt"] for body in raw.bodies("/v1/completions")]
    assert prompts == [[1, 2, 3], [7, 8, 3]]


@pytest.mark.asyncio
async def test_a_margin_that_cannot_be_had_says_why() -> None:
    async def script(caller: Caller) -> None:
        if caller.path == "/v1/models":
            await caller.answer(models("tiny"))
        elif caller.path == "/tokenize":
            await caller.answer(b"no", "404 Not Found")
        else:
            await caller.answer(b'{"error": {"message": "logprobs with speculation"}}', "400 Bad Request")

    async with raw_server(script) as raw, BenchServer(raw.url) as server:
        await server.open()
        assert (await server.margin((1,), (), 2, 3)).unknown == "HTTP 400: logprobs with speculation"
        assert "/tokenize: HTTP 404" in (await server.margin("x", (), 2, 3)).unknown
    async with BenchServer(raw.url, model="tiny") as gone:
        assert "cannot connect" in (await gone.margin((1,), (), 2, 3)).unknown


@pytest.mark.asyncio
async def test_a_stream_is_given_event_by_event() -> None:
    async with raw_server(vllm) as raw, BenchServer(raw.url) as server:
        await server.open()
        events = [one async for one in server.stream("/v1/chat/completions", {"stream": True})]
    assert [json.loads(data)["choices"][:1] != [] for _, data in events] == [True, True, False]
    assert all(later >= earlier > 0 for (earlier, _), (later, _) in pairwise(events))


@pytest.mark.asyncio
async def test_the_model_is_the_only_one_or_the_one_that_was_named() -> None:
    async def script(caller: Caller) -> None:
        await caller.answer(models("big", "small"))

    async with raw_server(script) as raw:
        async with BenchServer(raw.url, model="small") as server:
            assert (await server.open()).model == "small"
        async with BenchServer(raw.url) as server:
            with pytest.raises(ArcopsError, match="several models: big, small") as several:
                await server.open()
        async with BenchServer(raw.url, model="huge") as server:
            with pytest.raises(ArcopsError, match="no model huge"):
                await server.open()
    assert several.value.exit_code is ExitCode.USAGE


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        ("401 Unauthorized", b'{"error": "Unauthorized"}', "refuses the key"),
        ("500 Internal Server Error", b"oh", "HTTP 500: oh"),
        ("200 OK", b'{"data": 3}', "cannot be read"),
        ("200 OK", b'{"data": []}', "no model"),
        ("302 Found", b"", "HTTP 302"),
    ],
)
async def test_a_server_that_cannot_be_measured_says_why(status: str, body: bytes, words: str) -> None:
    async def script(caller: Caller) -> None:
        await caller.answer(body, status)

    async with raw_server(script) as raw, BenchServer(raw.url) as server:
        with pytest.raises(ArcopsError, match=words):
            await server.open()


@pytest.mark.asyncio
async def test_nobody_there_is_one_sentence() -> None:
    async with raw_server(vllm) as raw:
        pass
    async with BenchServer(raw.url) as server:
        with pytest.raises(ArcopsError, match="does not answer: cannot connect"):
            await server.open()


@pytest.mark.asyncio
async def test_a_server_with_an_address_of_version_6_is_measured() -> None:
    async with raw_server(vllm, "::1") as raw, BenchServer(raw.url) as server:
        await server.open()
        request, *_ = await server.ask(ITEM)
    assert request.problem == ""


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("https://[::1]:8000/v1", "https://[::1]:8000"),
        (" http://gate/vllm/v1 ", "http://gate/vllm"),
    ],
)
def test_a_url_may_end_in_v1(url: str, base: str) -> None:
    assert base_of(url) == base


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://a",
        "http://",
        "http://a:b",
        "http://a:99999",
        "http://[::1",
        "http://a?b",
        "http://u:p@a",
    ],
)
def test_what_is_no_url_is_a_mistake_in_usage(url: str) -> None:
    with pytest.raises(ArcopsError) as error:
        BenchServer(url)
    assert error.value.exit_code is ExitCode.USAGE


@pytest.mark.asyncio
async def test_a_handshake_that_nobody_answers_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """https where http is spoken: not the minute and a half that an answer may take."""
    monkeypatch.setattr(http, "CONNECT_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with BenchServer(f"https://127.0.0.1:{mute.getsockname()[1]}") as server:
            with pytest.raises(ArcopsError, match=r"no connection within 0\.2 s"):
                await server.open()
