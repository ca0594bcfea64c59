"""The HTTP client against servers that behave, and against whatever else may listen on a port."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from arcops.core.quantity import Known, Unknown
from arcops.core.world import AnswerState, Server
from arcops.machine.vllm import MAX_BODY, ProbeAnswer, VllmServer, reach
from tests.helpers import free_port

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NOW = 42.0


def respond(status: str, body: bytes, extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


@dataclass
class Pretender:
    """A server that gives canned answers by path, over kept-alive connections, and remembers what it was sent."""

    answers: dict[str, bytes]
    heads: list[str] = field(default_factory=list[str])
    bodies: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while not reader.at_eof():
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                return
            length = next(
                (int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0
            )
            self.heads.append(head)
            self.bodies.append(await reader.readexactly(length))
            writer.write(self.answers.get(head.split()[1], respond("404 Not Found", b"")))
            await writer.drain()


@asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[int]:
    """Run `handler` for every connection; yields the port."""
    writers: list[asyncio.StreamWriter] = []

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(guarded, host, port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


def client(port: int, host: str = "127.0.0.1", key: str | None = None) -> VllmServer:
    return VllmServer(host, port, key, now=lambda: NOW)


MODELS = respond("200 OK", json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}).encode())
TOKEN = respond("200 OK", json.dumps({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}}).encode())


def healthy() -> Pretender:
    return Pretender(
        {
            "/health": respond("200 OK", b""),
            "/v1/models": MODELS,
            "/metrics": respond("200 OK", b"vllm:num_requests_running 1.0\n"),
            "/v1/completions": TOKEN,
        }
    )


@pytest.mark.asyncio
async def test_a_good_server_is_read_over_one_connection() -> None:
    pretender = healthy()
    async with serving(pretender) as port, client(port) as server:
        assert await server.health() == Known(True, NOW)
        assert await server.models() == Known(("tiny",), NOW)
        assert await server.look() == Known(Server(healthy=True, models=("tiny",)), NOW)
        assert await server.metrics() == Known("vllm:num_requests_running 1.0\n", NOW)
        answer = await server.first_answer("tiny", 5)
        assert answer == ProbeAnswer(AnswerState.RIGHT, "one token was asked for, and came")
        assert await server.accepts()
    assert pretender.connections == 2  # one kept alive, one to see whether it accepts


@pytest.mark.asyncio
async def test_the_question_is_greedy_and_sets_nothing_that_speculation_refuses() -> None:
    pretender = healthy()
    async with serving(pretender) as port, client(port) as server:
        await server.first_answer("tiny", 5)
    question = json.loads(pretender.bodies[0])
    assert (question["model"], question["max_tokens"], question["temperature"]) == ("tiny", 1, 0)
    assert not {"min_p", "logit_bias"} & set(question)


@pytest.mark.asyncio
async def test_the_key_goes_only_where_it_is_asked_for() -> None:
    pretender = healthy()
    async with serving(pretender) as port, client(port, key="s3cret") as server:
        await server.look()
        await server.metrics()
        await server.first_answer("tiny", 5)
    with_key = [head.split()[1] for head in pretender.heads if "s3cret" in head]
    assert with_key == ["/v1/models", "/v1/completions"]


@pytest.mark.asyncio
async def test_a_key_that_cannot_be_sent_is_an_absence_in_words() -> None:
    async with serving(healthy()) as port, client(port, key="a\nb") as server:
        got = await server.models()
    assert isinstance(got, Unknown)
    assert "cannot be asked" in got.reason


@pytest.mark.asyncio
async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    async with serving(healthy()) as port, client(port) as server:
        assert await server.health() == Known(True, NOW)


@pytest.mark.asyncio
async def test_an_engine_that_died_makes_an_unhealthy_server_whatever_it_lists() -> None:
    pretender = healthy()
    pretender.answers["/health"] = respond("503 Service Unavailable", b"")
    async with serving(pretender) as port, client(port) as server:
        assert await server.health() == Known(False, NOW)
        assert await server.look() == Known(Server(healthy=False, models=("tiny",)), NOW)
        pretender.answers["/v1/models"] = respond("500 Internal Server Error", b"")
        unread = f"127.0.0.1:{port} gives no list of models (500 from /v1/models)"
        assert await server.look() == Known(Server(healthy=False, models=(), unread=unread), NOW)


@pytest.mark.parametrize(
    ("models", "reason"),
    [
        (respond("401 Unauthorized", b"{}"), "refuses our API key"),
        (respond("404 Not Found", b""), "gives no list of models (404"),
        (respond("200 OK", b"not json"), "gives no list of models (200"),
        (respond("200 OK", b'{"data": {"id": 1}}'), "gives no list of models (200"),
        (respond("200 OK", b"[" * 100_000), "gives no list of models (200"),
    ],
)
@pytest.mark.asyncio
async def test_a_server_whose_identity_cannot_be_read_is_up_and_says_why(models: bytes, reason: str) -> None:
    pretender = healthy()
    pretender.answers["/v1/models"] = models
    async with serving(pretender) as port, client(port) as server:
        got = await server.look()
    assert isinstance(got, Known)
    assert (got.value.healthy, got.value.models, got.at) == (True, (), NOW)
    assert reason in got.value.unread


async def _cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()


async def _cut_in_the_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff" * 500 + b"\r\n\r\n")
    await writer.drain()


async def _huge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(MAX_BODY // 65536 + 10):
        writer.write(b"x" * 65536)
        await writer.drain()


async def _endless_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"A: " + b"b" * 4096 + b"\r\n")
        await writer.drain()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:  # each byte comes in time, the whole never does
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (_cut, "cut the connection"),
        (_cut_in_the_body, "cut the connection"),
        (_garbage, "does not speak HTTP"),
        (_huge, "sent more than 8 MiB"),
        (_endless_head, "does not speak HTTP"),
        (_silent, "did not answer within 0.3 s"),
        (_drip, "did not answer within 0.3 s"),
    ],
)
@pytest.mark.asyncio
async def test_whatever_listens_there_the_reading_is_an_absence_in_words(
    handler: Handler, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if handler in (_silent, _drip):
        monkeypatch.setattr("arcops.machine.vllm.PATIENCE", 0.3)
    async with serving(handler) as port, client(port) as server:
        readings = [await server.metrics(), await server.models(), await server.look(), await server.health()]
        answer = await server.first_answer("tiny", 0.3)
    for reading in readings:
        assert isinstance(reading, Unknown)
        assert reason in reading.reason
        assert f"127.0.0.1:{port}" in reading.reason
        assert reading.at == NOW
    assert answer.state is (AnswerState.LATE if handler in (_silent, _drip) else AnswerState.WRONG)


@pytest.mark.asyncio
async def test_nobody_there_is_said_so() -> None:
    port = free_port()
    async with client(port) as server:
        for reading in (await server.health(), await server.look(), await server.metrics(), await server.models()):
            assert reading == Unknown(f"nothing accepts connections on 127.0.0.1:{port}", NOW)
        assert not await server.accepts()
        assert (await server.first_answer("tiny", 1)).state is AnswerState.WRONG


@pytest.mark.asyncio
async def test_a_bound_port_that_does_not_listen_yet_does_not_accept() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with client(int(bound.getsockname()[1])) as server:
            assert not await server.accepts()


@pytest.mark.asyncio
async def test_a_port_that_only_connects_to_itself_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel does this by chance with ports of the ephemeral range; here on purpose.
    port = free_port()

    async def to_itself(host: str, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio_open(host, number, local_addr=(host, number))

    asyncio_open = asyncio.open_connection
    monkeypatch.setattr(asyncio, "open_connection", to_itself)
    async with client(port) as server:
        assert not await server.accepts()


@pytest.mark.asyncio
async def test_metrics_that_are_refused_or_no_text_are_told_apart() -> None:
    pretender = healthy()
    pretender.answers["/metrics"] = respond("404 Not Found", b"")
    async with serving(pretender) as port, client(port) as server:
        refused = await server.metrics()
        assert isinstance(refused, Unknown)
        assert "404 from /metrics" in refused.reason
        pretender.answers["/metrics"] = respond("200 OK", b"\xff\x00")
        assert await server.metrics() == Known("�\x00", NOW)


@pytest.mark.asyncio
async def test_a_compressed_body_is_never_unpacked() -> None:
    pretender = healthy()
    pretender.answers["/metrics"] = respond("200 OK", b"\x1f\x8b packed", "Content-Encoding: gzip\r\n")
    async with serving(pretender) as port, client(port) as server:
        assert await server.metrics() == Known("\x1f� packed", NOW)
    assert "accept-encoding: identity" in pretender.heads[0].lower()


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (respond("200 OK", b'{"usage": {"completion_tokens": 0}}'), "an answer without a token"),
        (respond("200 OK", b"{}"), "an answer without a token"),
        (respond("200 OK", b"<html>"), "the answer to /v1/completions is not what vLLM sends"),
        (respond("500 Internal Server Error", b"oops"), "500 from /v1/completions"),
        (
            respond("404 Not Found", json.dumps({"error": {"message": "no\x1b[1m model\nnamed tiny"}}).encode()),
            "404 from /v1/completions: no [1m model named tiny",
        ),
        (respond("302 Found", b"", "Location: http://127.0.0.1:1/\r\n"), "302 from /v1/completions"),
    ],
)
@pytest.mark.asyncio
async def test_a_wrong_first_answer_says_what_was_wrong(answer: bytes, detail: str) -> None:
    pretender = healthy()
    pretender.answers["/v1/completions"] = answer
    async with serving(pretender) as port, client(port) as server:
        refused = detail.startswith("404")
        fate = AnswerState.REFUSED if refused else AnswerState.WRONG
        assert await server.first_answer("tiny", 5) == ProbeAnswer(fate, detail)


@pytest.mark.asyncio
async def test_an_endless_error_text_is_cut() -> None:
    pretender = healthy()
    pretender.answers["/v1/completions"] = respond(
        "400 Bad Request", json.dumps({"error": {"message": "x" * 9999}}).encode()
    )
    async with serving(pretender) as port, client(port) as server:
        assert len((await server.first_answer("tiny", 5)).detail) < 400


@pytest.mark.asyncio
async def test_readings_go_on_while_an_answer_is_outstanding() -> None:
    async def slow_completions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/v1/completions" in head:
                await asyncio.Event().wait()
            writer.write(respond("200 OK", b""))
            await writer.drain()

    async with serving(slow_completions) as port, client(port) as server:
        question = asyncio.create_task(server.first_answer("tiny", 0.5))
        while not question.done():
            assert await server.health() == Known(True, NOW)
        assert (await question) == ProbeAnswer(AnswerState.LATE, "no token within 0.5 s")


@pytest.mark.asyncio
async def test_a_server_that_comes_back_on_the_same_port_is_found_again() -> None:
    async with client(port := free_port()) as server:
        async with serving(healthy(), port=port):
            assert await server.health() == Known(True, NOW)
        assert isinstance(await server.health(), Unknown)
        async with serving(healthy(), port=port):
            assert await server.health() == Known(True, NOW)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "127.0.0.1", "localhost"])
@pytest.mark.asyncio
async def test_a_server_on_all_interfaces_is_reached_over_loopback(host: str) -> None:
    async with serving(healthy()) as port, client(port, host) as server:
        assert await server.health() == Known(True, NOW)
        assert await server.accepts()


@pytest.mark.parametrize("host", ["::", "[::]", "::1", "[::1]"])
@pytest.mark.asyncio
async def test_ipv6_literals_are_reached_with_and_without_brackets(host: str) -> None:
    async with serving(healthy(), "::1") as port, client(port, host) as server:
        assert await server.health() == Known(True, NOW)
        assert await server.accepts()


def test_what_a_bound_host_is_reached_at() -> None:
    assert [reach(host) for host in ("0.0.0.0", "", "*", "::", "[::]", "10.0.0.7", "[fe80::1]")] == [
        "127.0.0.1", "127.0.0.1", "127.0.0.1", "::1", "::1", "10.0.0.7", "fe80::1",
    ]  # fmt: skip


@pytest.mark.parametrize("host", ["no such host", "a" * 300, "\x00"])
@pytest.mark.asyncio
async def test_a_host_that_is_none_is_an_absence_too(host: str) -> None:
    async with client(1, host) as server:
        assert isinstance(await server.health(), Unknown)
        assert not await server.accepts()


@pytest.mark.asyncio
async def test_a_scrape_costs_the_client_a_small_part_of_a_hundredth_of_a_core() -> None:
    pretender = healthy()
    pretender.answers["/metrics"] = respond("200 OK", b"x" * 50_000)
    async with serving(pretender) as port, client(port) as server:
        await server.metrics()
        begin = time.process_time()
        for _ in range(50):
            await server.metrics()
        each = (time.process_time() - begin) / 50
    assert each < 0.005  # 0.8 ms as measured, and the pretender's own share is in it
