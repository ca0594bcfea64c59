"""A server that lies, cuts, sends rubbish or has no end: one problem in words, no crash, no figure that is not true."""

import asyncio

import pytest

from arcops.bench import http, stream
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError
from arcops.core.evidence.run import Request
from arcops.core.evidence.work import Item
from tests.bench.raw import STREAM_HEAD, Caller, Script, event_bytes, raw_server, token, usage

ITEM = Item("one", "prose", "a text", 4)
WITHIN = 60.0


async def asked(script: Script, within: float = WITHIN) -> Request:
    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        request, ids, _ = await server.ask(ITEM, within=within)
    assert request.problem
    assert (request.ended, request.answer) == (None, None)
    assert request.problem.isprintable()
    assert ids is None or len(ids) <= ITEM.max_tokens
    return request


def saying(*parts: bytes) -> Script:
    """Says these bytes and closes the connection."""

    async def script(caller: Caller) -> None:
        for part in parts:
            await caller.say(part)
        caller.writer.close()

    return script


def streaming(*events: bytes | dict[str, object]) -> Script:
    async def script(caller: Caller) -> None:
        await caller.stream(events)

    return script


CHUNK = event_bytes(token(5))
HALF = STREAM_HEAD + f"{len(CHUNK):x}\r\n".encode() + CHUNK + b"\r\n"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (saying(b""), "closed the connection without an answer"),
        (saying(b"\x00\xff garbage\r\n\r\n"), "no HTTP that can be read"),
        (saying(b"HTTP/1.1 200 OK\r\n"), "closed the connection"),
        (saying(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n"), "no HTTP that can be read"),
        (saying(HALF), "cut in the middle"),
        (saying(HALF[:-20]), "cut in the middle"),
        (saying(HALF, b"zz\r\n"), "cut in the middle|no HTTP that can be read"),
        (saying(STREAM_HEAD, b"0\r\n\r\n"), "ended before"),
        (saying(HALF, b"0\r\n\r\n"), "ended before"),
        (streaming(b"<html>"), "cannot be read"),
        (streaming(token(5), b'{"error": {"message": "CUDA error", "code": 500}}', b"[DONE]"), "broke off: CUDA error"),
        (streaming(token(5, 6), token(7, 8, 9)), "more tokens than the 4"),
        (
            streaming(token(5, 6), token(7, finish="stop"), usage(4, 4), b"[DONE]"),
            "counts 4 tokens and sent the ids of 3",
        ),
        (streaming(token(5, finish="stop"), usage(-4, 1), b"[DONE]"), "cannot be read"),
        (streaming(token(5, finish="abort"), usage(4, 1), b"[DONE]"), "broke the answer off"),
    ],
)
async def test_what_is_no_answer_is_a_problem_in_words(script: Script, words: str) -> None:
    request = await asked(script)
    assert any(one in request.problem for one in words.split("|")), request.problem


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "kind", "body", "words"),
    [
        ("200 OK", "application/json", b"{}", "application/json and not with a stream"),
        ("200 OK", "text/html", b"<b>", "text/html and not with a stream"),
        (
            "400 Bad Request",
            "application/json",
            b'{"error": {"message": "max_tokens is -3"}}',
            "HTTP 400: max_tokens is -3",
        ),
        ("500 Internal Server Error", "text/plain", b"\x1b[2Jboom", "HTTP 500: [2Jboom"),
        ("302 Found", "text/plain", b"", "HTTP 302"),
        ("200 OK", "nonsense", b"", "not with a stream"),
    ],
)
async def test_an_answer_of_another_kind_is_a_problem(status: str, kind: str, body: bytes, words: str) -> None:
    async def script(caller: Caller) -> None:
        await caller.answer(body, status, kind)

    assert words in (await asked(script)).problem


@pytest.mark.asyncio
async def test_a_stream_that_stands_still_ends_at_its_deadline_with_what_came() -> None:
    async def script(caller: Caller) -> None:
        await caller.say(HALF)
        await caller.gone()

    request = await asked(script, within=0.3)
    assert request.problem == "the answer was not complete within 0.3 s"
    assert len(request.arrivals) == 1


@pytest.mark.asyncio
async def test_headers_that_never_come_end_at_the_deadline() -> None:
    async def script(caller: Caller) -> None:
        await caller.say(b"HTTP/1.1 200 OK\r\n")
        await caller.gone()

    assert "within 0.3 s" in (await asked(script, within=0.3)).problem


@pytest.mark.asyncio
async def test_pings_without_end_are_no_answer() -> None:
    async def script(caller: Caller) -> None:
        await caller.say(STREAM_HEAD)
        while True:
            await caller.chunk(b": ping\n\n")
            await asyncio.sleep(0.001)

    request = await asked(script, within=0.3)
    assert request.arrivals == ()


@pytest.mark.asyncio
@pytest.mark.parametrize(("what", "piece"), [("line", b"x" * 60_000), ("stream", b": comment\n" * 6_000)])
async def test_gigabytes_are_not_read(what: str, piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LINE", 4 * 1024 * 1024)
    monkeypatch.setattr(http, "MAX_STREAM", 8 * 1024 * 1024)
    said = 0

    async def script(caller: Caller) -> None:
        nonlocal said
        await caller.say(STREAM_HEAD)
        for _ in range(10_000):
            await caller.chunk(piece)
            said += len(piece)

    request = await asked(script)
    assert "longer than" in request.problem
    assert said < 100 * 1024 * 1024


@pytest.mark.asyncio
async def test_a_plain_answer_of_gigabytes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 1024 * 1024)

    async def script(caller: Caller) -> None:
        await caller.say(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000000\r\n\r\n")
        while True:
            await caller.say(b"x" * 60_000)

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        with pytest.raises(ArcopsError, match="longer than 1 MiB"):
            await server.post("/tokenize", {})
        assert "longer than" in (await server.counters()).unread
        assert "longer than" in (await server.margin((1,), (), 2, 3)).unknown
        assert await server.glance() is None


@pytest.mark.asyncio
async def test_what_unpacks_to_gigabytes_is_not_unpacked() -> None:
    async def script(caller: Caller) -> None:
        assert caller.headers["accept-encoding"] == "identity"
        await caller.say(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b\n"
        )
        caller.writer.close()

    await asked(script)


@pytest.mark.asyncio
async def test_a_stream_that_goes_on_after_its_end_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_TO_THE_END", 0.2)

    async def script(caller: Caller) -> None:
        await caller.stream([token(5, finish="length"), usage(4, 1), b"[DONE]"], end=False)
        await caller.gone()

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        for _ in range(2):
            request, ids, _ = await server.ask(ITEM, within=WITHIN)
            assert (request.problem, ids) == ("", (5,))
        assert raw.connections == 2  # Such a connection is not used again.


@pytest.mark.asyncio
@pytest.mark.parametrize("leave", ["cancel", "deadline", "close"])
async def test_whoever_stops_listening_closes_the_stream(leave: str) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def script(caller: Caller) -> None:
        begun.set()
        await caller.say(HALF)
        await caller.gone()
        left.set()

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        match leave:
            case "cancel":
                task = asyncio.create_task(server.ask(ITEM))
                async with asyncio.timeout(WITHIN):
                    await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            case "deadline":
                await server.ask(ITEM, within=0.1)
            case _:
                events = server.stream("/v1/completions", {})
                await anext(events)
                await events.aclose()
        async with asyncio.timeout(WITHIN):
            await left.wait()
    assert asyncio.all_tasks() == {asyncio.current_task()}
