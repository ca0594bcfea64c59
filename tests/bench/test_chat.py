"""A chat is told as it came, streamed or whole; what is no answer is said in words, and raises nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from arcops.bench.chat import MOST_CALLS, MOST_CHARACTERS, ChatAnswer, ToolCall, ask_chat
from arcops.bench.server import BenchServer
from arcops.bench.tools import CASES, MAX_TOKENS, agree, judge
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Serving
from tests.helpers import free_port

QUESTION = ({"role": "user", "content": "What is 6 * 7?"},)
MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 4096}]}).encode()
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def response(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def events(*chunks: object, done: bool = True) -> bytes:
    lines = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks]
    return response("".join([*lines, "data: [DONE]\n\n" * done]).encode(), "text/event-stream")


def delta(finish: str | None = None, ids: list[int] | None = None, **said: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish, "token_ids": ids}]}


def call(index: int | None, name: str | None = None, arguments: str | None = None) -> dict[str, object]:
    return {"index": index, "function": {"name": name, "arguments": arguments}}


def whole(finish: str = "stop", tokens: int = 3, **said: object) -> bytes:
    choice = {"index": 0, "message": said, "finish_reason": finish, "token_ids": list(range(tokens))}
    return response(
        json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}).encode()
    )


@asynccontextmanager
async def answering(chat: bytes, asked: list[dict[str, object]] | None = None) -> AsyncGenerator[BenchServer]:
    """A server that answers every chat with these bytes; the bodies that it was sent go to `asked`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        body = await reader.readexactly(int(length))
        if b"/v1/chat/completions" in head:
            if asked is not None:
                asked.append(json.loads(body))
            writer.write(chat)
        else:
            writer.write(response(MODELS))
        try:
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = listening.sockets[0].getsockname()[1]
    async with listening, BenchServer(f"http://127.0.0.1:{port}") as server:
        await server.open()
        yield server


async def told(chat: bytes, *, stream: bool, max_tokens: int = 100, within: float = 60.0) -> ChatAnswer:
    async with answering(chat) as server:
        return await ask_chat(server, QUESTION, max_tokens=max_tokens, stream=stream, within=within)


@pytest.mark.asyncio
async def test_pieces_of_two_calls_that_come_mixed_are_put_together_by_their_index() -> None:
    answer = await told(
        events(
            delta(content="", role="assistant"),
            delta(reasoning="hm, "),
            delta(reasoning="two", ids=[1]),
            delta(tool_calls=[call(1, "b")], ids=[2]),
            delta(tool_calls=[call(0, "a"), call(1, arguments='{"x"')]),
            delta(tool_calls=[call(0, arguments="{}"), call(1, arguments=": 1}")], ids=[3, 4]),
            delta(finish="tool_calls", ids=[5]),
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}},
        ),
        stream=True,
    )
    assert answer.tool_calls == (ToolCall("a", "{}"), ToolCall("b", '{"x": 1}'))
    assert (answer.content, answer.reasoning, answer.finish, answer.problem) == ("", "hm, two", "tool_calls", "")
    assert (answer.prompt_tokens, answer.output_tokens, answer.ids) == (9, 5, (1, 2, 3, 4, 5))


@pytest.mark.asyncio
async def test_ids_that_do_not_cover_the_whole_answer_are_none() -> None:
    usage = {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    answer = await told(events(delta(content="42", ids=[1, 2]), delta("stop"), usage), stream=True)
    assert (answer.content, answer.output_tokens, answer.ids, answer.problem) == ("42", 3, None, "")


@pytest.mark.asyncio
@both
async def test_it_is_asked_greedily_and_for_no_more_than_it_says(stream: bool) -> None:
    asked: list[dict[str, object]] = []
    async with answering(events(delta("stop", content="42")) if stream else whole(content="42"), asked) as server:
        answer = await ask_chat(server, QUESTION, max_tokens=7, stream=stream, thinking=True)
    assert (answer.content, answer.problem) == ("42", "")
    assert (asked[0]["model"], asked[0]["max_tokens"], asked[0]["temperature"]) == ("m", 7, 0)
    assert asked[0]["chat_template_kwargs"] == {"enable_thinking": True}
    assert asked[0].get("stream", False) is stream
    assert not {"min_p", "tools", "tool_choice"} & set(asked[0])


REFUSED = response(b'{"error": {"message": "Unexpected \\u001b[31m keyword", "code": 400}}', status="400 Bad Request")
MANY = delta(tool_calls=[call(MOST_CALLS, "f")])
LONG = "x" * (MOST_CHARACTERS // 4)


@pytest.mark.asyncio
@both
async def test_a_refusal_has_the_servers_words_without_its_control_characters(stream: bool) -> None:
    assert (await told(REFUSED, stream=stream)).problem == "HTTP 400: Unexpected [31m keyword"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        (whole("abort", content="4"), "the server broke the answer off (abort)"),
        (whole(tokens=101, content="4"), "the server sent more tokens than the 100"),
        (response(b'{"choices": []}'), "the answer ended without a reason"),
        (response(b"[" * 100_000), "the answer cannot be read"),
        (response(b"\xff\xfe"), "the answer cannot be read"),
        (response(b'{"error": {"message": "no engine"}}'), "the server broke off: no engine"),
        (response(b'{"choices": [{"index": 0}, {"index": 1}]}'), "more than the one answer"),
        (whole(content="x" * (MOST_CHARACTERS + 1)), "is longer than"),
        (whole(content=["no text"]), "the answer cannot be read"),
        (b"no HTTP\r\n\r\n", "no HTTP that can be read"),
        (b"", "closed the connection"),
    ],
)
async def test_a_whole_answer_that_is_none_is_a_problem_in_words(chat: bytes, problem: str) -> None:
    assert problem in (await told(chat, stream=False)).problem


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        (events(delta(content="4"), done=False), "the stream ended before the answer was complete"),
        (events(delta(content="4")), "the answer ended without a reason"),
        (events(delta("abort", content="4")), "broke the answer off"),
        (events(delta(content="4"), "{]"), "the answer cannot be read"),
        (events(delta(content="4"), {"error": {"message": "dead"}}), "the server broke off: dead"),
        (events(delta(content="4"), MANY), f"a tool call has the index {MOST_CALLS}"),
        (events(delta(content="4"), delta(tool_calls=[call(None, "f")])), "a tool call has the index None"),
        (events(delta(content="4"), delta(tool_calls=[call(-1, "f")])), "a tool call has the index -1"),
        (events(delta(content="4"), delta(ids=[0] * 101)), "the server sent more tokens than the 100"),
        (events(delta(content="4"), *[delta(reasoning=LONG)] * 5), "is longer than"),
    ],
)
async def test_a_stream_that_is_no_answer_keeps_what_came_until_then(chat: bytes, problem: str) -> None:
    answer = await told(chat, stream=True)
    assert problem in answer.problem
    assert answer.content == "4"


@pytest.mark.asyncio
@both
async def test_one_that_takes_too_long_is_given_up(stream: bool) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000\r\n\r\n"
    stalling = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(begun if b"/chat/" in head else response(MODELS))
        if b"/chat/" in head:
            await stalling.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port: int = listening.sockets[0].getsockname()[1]
        async with BenchServer(f"http://127.0.0.1:{port}") as server:
            await server.open()
            answer = await ask_chat(server, QUESTION, max_tokens=7, stream=stream, within=0.3)
        stalling.set()
    assert answer.problem == "the answer was not complete within 0.3 s"
    assert answer.seconds >= 0.3


TOOL_FLAGS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder: Path = tmp_path_factory.mktemp("chat")
    port = free_port()
    flags = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "8192")
    argv = (fake_vllm_path(), "serve", fake_model(folder / "model"), *flags, *TOOL_FLAGS)
    environment = {"FAKE_VLLM_START_SECONDS": "0.05", "FAKE_VLLM_DECODE_SPEED": "5000"}
    with Serving(argv, port, folder / "log", environment) as started:
        yield started.wait_ready()


@pytest.fixture
def fake(serving: Serving) -> Iterator[Callable[..., None]]:
    """Set how the server misbehaves; afterwards it is good again."""
    given: list[str] = []

    def misbehave(**settings: object) -> None:
        given.extend(settings)
        assert serving.misbehave(**settings).status_code == 200

    yield misbehave
    serving.misbehave(**dict.fromkeys(given, ""))


async def case_of(serving: Serving, at: int = 0, **asked: object) -> tuple[ChatAnswer, ChatAnswer]:
    """The streamed and the whole answer to one of the cases."""
    case = CASES[at]
    choice = case.choice if asked.get("named") else None
    async with BenchServer(serving.url) as server:
        await server.open()
        streamed, at_once = [
            await ask_chat(
                server, case.messages, max_tokens=MAX_TOKENS, stream=stream, tools=case.tools, tool_choice=choice
            )
            for stream in (True, False)
        ]
    return streamed, at_once


async def chat_of(
    serving: Serving, *, stream: bool, messages: tuple[Mapping[str, object], ...] = QUESTION
) -> ChatAnswer:
    async with BenchServer(serving.url) as server:
        await server.open()
        return await ask_chat(server, messages, max_tokens=40, stream=stream)


@pytest.mark.processes
@pytest.mark.asyncio
@pytest.mark.parametrize("at", range(len(CASES)), ids=[case.name for case in CASES])
async def test_good_calls_are_right_streamed_and_whole(serving: Serving, at: int) -> None:
    streamed, at_once = await case_of(serving, at)
    assert (judge(CASES[at], streamed), judge(CASES[at], at_once), agree(streamed, at_once)) == ("", "", "")
    assert streamed.ids == at_once.ids is not None
    named = await case_of(serving, at, named=True)
    assert [judge(CASES[at], answer, named=True) for answer in named] == ["", ""]


@pytest.mark.processes
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no_json", "the arguments are no JSON"),
        ("misfit", "the arguments do not fit the schema at city"),
        ("text", "a call was left in the text (<tool_call)"),
        ("missing", "no function was called"),
    ],
)
async def test_each_fault_of_calls_is_told_by_its_name(
    serving: Serving, fake: Callable[..., None], fault: str, words: str
) -> None:
    fake(tool_fault=fault)
    for answer in await case_of(serving):
        assert (answer.problem, judge(CASES[0], answer)[: len(words)]) == ("", words)


@pytest.mark.processes
@pytest.mark.asyncio
async def test_calls_that_are_broken_in_streams_only_are_found_there(
    serving: Serving, fake: Callable[..., None]
) -> None:
    fake(tool_fault="no_json", tool_fault_in="stream")
    streamed, at_once = await case_of(serving)
    assert judge(CASES[0], at_once) == ""
    assert judge(CASES[0], streamed).startswith("the arguments are no JSON")
    assert agree(streamed, at_once).startswith("the arguments differ")


@pytest.mark.processes
@pytest.mark.asyncio
@both
async def test_a_wrong_answer_is_no_problem_of_the_asking(
    serving: Serving, fake: Callable[..., None], stream: bool
) -> None:
    right = await chat_of(serving, stream=stream)
    fake(wrong_chat=True)
    wrong = await chat_of(serving, stream=stream)
    assert (right.content, right.problem, right.finish) == ("42", "", "stop")
    assert "42" not in wrong.content
    assert (wrong.problem, wrong.finish) == ("", "stop")


@pytest.mark.processes
@pytest.mark.asyncio
async def test_a_stream_that_the_server_cuts_is_a_problem(serving: Serving, fake: Callable[..., None]) -> None:
    fake(cut_every=1)
    answer = await chat_of(serving, stream=True)
    assert "cut in the middle" in answer.problem or "ended before" in answer.problem


@pytest.mark.processes
@pytest.mark.asyncio
@both
async def test_what_the_server_refuses_is_told_in_its_words(serving: Serving, stream: bool) -> None:
    answer = await chat_of(serving, stream=stream, messages=({"role": "user", "content": "word " * 9000},))
    assert answer.problem.startswith("HTTP 400: ")
    assert "8192" in answer.problem
