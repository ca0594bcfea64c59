"""The fake vLLM behaves like the real one: the same probe is run over both, and what was seen is compared.

Several servers are needed, for a server dies only once; of the real one two are started at a time.
"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import httpx
import pytest

from tests.fakes.runtime import REAL_ENVIRONMENT, fake_model, fake_vllm_path, real_runtime
from tests.fakes.serving import Event, Json, Serving, comm, is_bound, samples, state
from tests.helpers import eventually, free_port

pytestmark = [pytest.mark.real, pytest.mark.processes, pytest.mark.timeout(300)]

STORY: dict[str, object] = {"model": "tiny", "prompt": "The daemon", "max_tokens": 5, "temperature": 0}
CHAT: dict[str, object] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "temperature": 0}
USAGE: dict[str, object] = {"return_token_ids": True, "stream_options": {"include_usage": True}}
LIKELY: dict[str, object] = {"return_tokens_as_token_ids": True, "return_token_ids": True}
TO_THE_END: dict[str, object] = {"ignore_eos": True, "max_tokens": 24, "return_token_ids": True}
TOOLS: dict[str, object] = {
    "messages": [{"role": "user", "content": "The weather in Paris, please"}],
    "max_tokens": 400,
    "temperature": 0,
    # The tiny model knows no JSON: held to the schema, it would otherwise give white space for ever.
    "frequency_penalty": 2.0,
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string", "enum": ["Paris"]}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
            },
        }
    ],
}
NAMED: dict[str, object] = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
CHOICES: dict[str, dict[str, object]] = {"auto": {}, "required": {"tool_choice": "required"}, "named": NAMED}
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
PARSER = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
GETS = ("/health", "/ping", "/version", "/load", "/metrics", "/v1/models", "/nothing", "/v1/completions")
POSTS: dict[str, tuple[str, Mapping[str, object]]] = {
    "completion": ("/v1/completions", STORY),
    "completion with token ids": ("/v1/completions", STORY | {"return_token_ids": True}),
    "two prompts": ("/v1/completions", STORY | {"prompt": ["The daemon", "A request"]}),
    "prompt of token ids": ("/v1/completions", STORY | {"prompt": [1, 2, 3]}),
    "prompts of token ids": ("/v1/completions", STORY | {"prompt": [[1, 2, 3], [4, 5]], "return_token_ids": True}),
    "to the end": ("/v1/completions", STORY | TO_THE_END),
    "likely tokens by their ids": ("/v1/completions", STORY | LIKELY | {"logprobs": 2}),
    "likely tokens of a chat": ("/v1/chat/completions", CHAT | LIKELY | {"logprobs": True, "top_logprobs": 2}),
    "named tool": ("/v1/chat/completions", TOOLS | NAMED),
    "required tool": ("/v1/chat/completions", TOOLS | {"tool_choice": "required"}),
    "chat": ("/v1/chat/completions", CHAT),
    "chat with token ids": ("/v1/chat/completions", CHAT | {"return_token_ids": True}),
    "tokenize": ("/tokenize", {"prompt": "The daemon"}),
    "tokenize without special tokens": ("/tokenize", {"prompt": "The daemon", "add_special_tokens": False}),
    "tokenize a chat": ("/tokenize", {"messages": CHAT["messages"]}),
    "tokenize with strings": ("/tokenize", {"prompt": "The daemon", "return_token_strs": True}),
    "detokenize": ("/detokenize", {"tokens": [5, 6, 7]}),
    "unknown model": ("/v1/completions", STORY | {"model": "other"}),
    "no prompt": ("/v1/completions", {"max_tokens": 5}),
    "no tokens": ("/v1/completions", STORY | {"max_tokens": 0}),
    "too many tokens": ("/v1/completions", STORY | {"max_tokens": 99999}),
    "prompt too long": ("/v1/completions", STORY | {"prompt": [7] * 32767}),
    "no messages": ("/v1/chat/completions", {"max_tokens": 5}),
    "wrong method": ("/health", {}),
}
STREAMS: dict[str, tuple[str, Mapping[str, object]]] = {
    "completion": ("/v1/completions", STORY),
    "completion with usage": ("/v1/completions", STORY | USAGE),
    "chat": ("/v1/chat/completions", CHAT),
    "chat with usage": ("/v1/chat/completions", CHAT | USAGE),
    "to the end": ("/v1/completions", STORY | TO_THE_END | USAGE),
    "prompt of token ids": ("/v1/completions", STORY | USAGE | {"prompt": [1, 2, 3]}),
    "likely tokens by their ids": ("/v1/completions", STORY | LIKELY | {"logprobs": 2}),
    "likely tokens of a chat": ("/v1/chat/completions", CHAT | LIKELY | {"logprobs": True, "top_logprobs": 2}),
    "named tool": ("/v1/chat/completions", TOOLS | NAMED),
}
LONG: dict[str, object] = STORY | {"max_tokens": 32000}
"""Long enough for SIGTERM to meet it: the real one gives some two thousand tokens a second."""

Shape: TypeAlias = "dict[str, Shape] | list[Shape] | str"
Series: TypeAlias = "tuple[str, frozenset[frozenset[str]]]"

TRIES = 20
GONE_WITHIN = 30.0
"""Seconds that the processes of a server have to follow it: a moment, and more where the machine stands still."""
LONGEST_END = 60.0
"""Seconds: some seconds, and a machine that stands still. One that waits for a signal or a client takes for ever."""


def shape(value: Json) -> Shape:
    """Keys and types of a JSON value; of a list those of its first element. Tokens as keys are all one."""
    match value:
        case dict():
            return {re.sub(r"^token_id:\d+$", "token_id:N", key): shape(inner) for key, inner in value.items()}
        case list():
            return [shape(inner) for inner in value[:1]]
        case _:
            return type(value).__name__


@dataclass(slots=True)
class Ended:
    """How a server ended: exit code, seconds from the cause to the exit, and what the open stream said last."""

    code: int
    seconds: float
    finish: Json = None
    done: bool = False
    silent: bool = False
    """The stream fell silent without an end."""
    error: Json = None
    """What an event of the stream said instead of a choice."""
    statuses: set[int | None] = field(default_factory=set[int | None])
    left: int = 0
    """Processes that were still there after GONE_WITHIN."""


@dataclass(slots=True)
class Orphan:
    """What the death of the API server by SIGKILL leaves."""

    code: int
    alive: bool
    command_line: bytes
    name: str
    marker_readable: bool
    """A variable that the API server was started with shows in EngineCore's environ."""
    descriptor_kept: bool
    """EngineCore still has a descriptor that the API server had inherited."""
    port_bound: bool


@dataclass(slots=True)
class Seen:
    """Everything that was seen of one kind of server."""

    early: tuple[bool, bool]
    """Before readiness: the port is bound, connections are refused."""
    gets: dict[str, tuple[int, str]]
    posts: dict[str, tuple[int, Shape]]
    streams: dict[str, list[Shape]]
    truths: dict[str, bool]
    refused_tools: dict[str, Json]
    """What a server without a tool parser says, by who chooses the function."""
    metrics: dict[str, Series]
    counts: dict[str, float | None]
    stopped_streaming: Ended
    stopped_idle: Ended
    engine_killed: Ended
    orphan: Orphan
    wrong_flag: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """How to start one kind of server."""

    vllm: Path
    model: Path
    environment: Mapping[str, str]
    folder: Path
    at_once: int
    """How many servers may start at a time."""
    ready_within: float

    def server(self, name: str, *more: str) -> Serving:
        port = free_port()
        flags = ("--served-model-name", "tiny", "--max-model-len", "32768", "--max-num-seqs", "4", "--enforce-eager")
        argv = (self.vllm, "serve", self.model, "--host", "127.0.0.1", "--port", str(port), *flags, *more)
        return Serving(argv, port, self.folder / f"{name}.log", self.environment)

    def ready(self, server: Serving) -> Serving:
        return server.wait_ready(self.ready_within)


def is_refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def series(text: str) -> dict[str, Series]:
    """Type and sets of label names of each metric family of vLLM's."""
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    labels: dict[str, set[frozenset[str]]] = {}
    for name, given, _ in samples(text):
        stems = (name, name.removesuffix("_bucket"), name.removesuffix("_count"), name.removesuffix("_sum"))
        family = next(stem for stem in stems if stem in types)
        labels.setdefault(family, set()).add(frozenset(given))
    return {name: (kind, frozenset(labels.get(name, set()))) for name, kind in types.items()}


def ask(server: Serving, request: tuple[str, Mapping[str, object]]) -> tuple[int, Shape]:
    answer = server.post(*request)
    return answer.status_code, shape(answer.json())


def event_shapes(server: Serving, path: str, body: Mapping[str, object]) -> list[Shape]:
    """Shapes of the events of a stream, those that repeat the one before left out.

    A busy server tells several steps in one chunk. It is asked again until it gave a first, a last, and some between.
    """
    events: list[Event] = []
    for _ in range(TRIES):
        with server.stream(body, path) as stream:
            events = list(stream)
        if sum(bool(event.choice) for event in events) >= 4:
            break
    found = [shape(event.data) for event in events]
    return [now for before, now in zip([None, *found], found, strict=False) if now != before]


def truths(server: Serving) -> dict[str, bool]:
    """What has to be true of the values of every server, whatever its model says."""
    prompt = [11, 12, 13, 14]
    body = STORY | TO_THE_END | {"prompt": prompt, "logprobs": 2, "return_tokens_as_token_ids": True}
    whole = server.post("/v1/completions", body).json()
    choice, ids = whole["choices"][0], whole["choices"][0]["token_ids"]
    with server.stream(body | USAGE) as stream:
        *said, last, done = list(stream)
    counted = cast("dict[str, Json]", (last.data or {}).get("usage"))
    streamed = [token for event in said for token in cast("list[Json]", event.choice["token_ids"])]
    text = "The daemon waits.\n"
    tokens = server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]
    names = [f"token_id:{one}" for one in ids]
    likely = choice["logprobs"]["top_logprobs"]
    called = server.post("/v1/chat/completions", TOOLS | NAMED).json()["choices"][0]
    with server.stream(TOOLS | NAMED, "/v1/chat/completions") as stream:
        ends = [event.choice.get("finish_reason") for event in stream]
    required = server.post("/v1/chat/completions", TOOLS | {"tool_choice": "required"}).json()["choices"][0]
    return {
        "a required call ends for tool_calls": required["finish_reason"] == "tool_calls",
        "a named function is called": called["message"]["tool_calls"][0]["function"]["name"] == "get_weather",
        "a named call ends for stop": called["finish_reason"] == "stop",
        "a streamed one as well": [one for one in ends if one] == ["stop"],
        "an answer to the end has all the tokens": len(ids) == 24 and choice["finish_reason"] == "length",
        "usage counts the ids": whole["usage"]["completion_tokens"] == len(ids),
        "usage counts the prompt": whole["usage"]["prompt_tokens"] == len(prompt),
        "the prompt's ids come back": choice["prompt_token_ids"] == prompt,
        "the prompt's ids come back in a stream": said[0].choice["prompt_token_ids"] == prompt,
        "a stream has the ids of the whole": streamed == ids,
        "a stream ends with its usage": done.data is None and last.choice == {},
        "a stream counts like the whole": [counted[name] for name in COUNTS]
        == [whole["usage"][name] for name in COUNTS],
        "what is tokenized can be told again": server.post("/detokenize", {"tokens": tokens}).json()["prompt"] == text,
        "tokens are named by their ids": choice["logprobs"]["tokens"] == names,
        "a greedy token is the likeliest": all(
            name == max(top, key=lambda one: top[one]) for name, top in zip(names, likely, strict=True)
        ),
        "what is likely is as likely as it is said": [top[name] for name, top in zip(names, likely, strict=True)]
        == choice["logprobs"]["token_logprobs"],
    }


def last_words(events: Iterable[Event], ended: Ended) -> None:
    try:
        for event in events:
            ended.done = event.data is None
            ended.finish = event.choice.get("finish_reason") or ended.finish
            ended.error = (event.data or {}).get("error") or ended.error
    except httpx.ReadTimeout:
        ended.silent = True


def wait_end(server: Serving, ended: Ended, since: float) -> Ended:
    """Watch the server to its end, noting what /health says meanwhile."""

    def over() -> bool:
        if server.process.poll() is None:
            ended.statuses.add(server.health())
        return server.process.poll() is not None

    eventually(over, within=60, every=0.01)
    ended.seconds = time.monotonic() - since
    ended.code = server.process.returncode
    deadline = time.monotonic() + GONE_WITHIN
    eventually(lambda: not server.processes() or time.monotonic() > deadline, within=2 * GONE_WITHIN)
    ended.left = len(server.processes())
    return ended


def stop_streaming(server: Serving) -> Ended:
    ended = Ended(-1, 0.0)
    with server.stream(LONG, timeout=5) as events:
        next(events)
        since = time.monotonic()
        server.signal(signal.SIGTERM)
        last_words(events, ended)
    return wait_end(server, ended, since)


def stop_idle(kind: Kind) -> tuple[Ended, dict[str, Json]]:
    """How it ends, and what it says to those who want tools before."""
    with kind.server("idle") as server:
        kind.ready(server)
        refused = {name: server.post("/v1/chat/completions", TOOLS | more).json() for name, more in CHOICES.items()}
        since = time.monotonic()
        server.signal(signal.SIGTERM)
        return wait_end(server, Ended(-1, 0.0), since), refused


def kill_engine(kind: Kind) -> Ended:
    with kind.server("engine") as server:
        kind.ready(server)
        engine = server.engine()
        since = time.monotonic()
        os.kill(engine, signal.SIGKILL)
        return wait_end(server, Ended(-1, 0.0), since)


def kill_api_server(kind: Kind) -> Orphan:
    """Kill the API server; what it was started with tells what EngineCore shares with it."""
    held = kind.folder / "held"
    starting = kind.server("orphan")
    starting.environment = {**kind.environment, "A_MARKER": "marked"}
    file = held.open("w")
    starting.pass_fds = (file.fileno(),)
    with file, starting as server:
        engine = kind.ready(server).engine()
        proc = Path(f"/proc/{engine}")
        server.signal(signal.SIGKILL)
        code = server.wait_exit()
        eventually(lambda: not is_bound(server.port))
        return Orphan(
            code,
            alive=state(engine) in ("S", "R"),
            command_line=proc.joinpath("cmdline").read_bytes().strip(b"\0 "),
            name=comm(engine),
            marker_readable=b"A_MARKER" in proc.joinpath("environ").read_bytes(),
            descriptor_kept=any(os.readlink(link) == str(held) for link in proc.joinpath("fd").iterdir()),
            port_bound=is_bound(server.port),
        )


def probe(kind: Kind) -> tuple[Ended, dict[str, object]]:
    """Ask everything of one server, then stop it while it streams."""
    with kind.server("probe", *PARSER) as server:
        early = (eventually(lambda: is_bound(server.port), within=60), is_refused(server.port))
        kind.ready(server)
        answers = {path: server.get(path) for path in GETS}
        seen: dict[str, object] = {
            "early": early,
            "gets": {
                path: (reply.status_code, reply.headers.get("content-type", "")) for path, reply in answers.items()
            },
            "posts": {name: ask(server, request) for name, request in POSTS.items()},
            "streams": {name: event_shapes(server, *request) for name, request in STREAMS.items()},
        }
        seen["truths"] = truths(server)
        asked = ("prompt_tokens_total", "generation_tokens_total", "request_success_total", "num_requests_running")
        before = {name: server.metric(name) or 0.0 for name in asked}
        server.post("/v1/completions", STORY | {"prompt": [3, 4, 5, 6]})
        eventually(lambda: (server.metric("request_success_total") or 0.0) > before["request_success_total"])
        seen["counts"] = {name: (server.metric(name) or 0.0) - value for name, value in before.items()}
        seen["metrics"] = series(server.get("/metrics").text)
        return stop_streaming(server), seen


def wrong_flag(kind: Kind) -> tuple[int, str]:
    command = [kind.vllm, "serve", kind.model, "--no-such-flag"]
    environment = {**os.environ, **kind.environment}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return answer.returncode, answer.stderr.splitlines()[-1]


def look(kind: Kind) -> Seen:
    """Run the whole probe over one kind."""
    with ThreadPoolExecutor(kind.at_once) as pool:
        probing = pool.submit(probe, kind)
        idle = pool.submit(stop_idle, kind)
        engine = pool.submit(kill_engine, kind)
        orphan = pool.submit(kill_api_server, kind)
        flag = pool.submit(wrong_flag, kind)
        stopped, seen = probing.result()
        stopped_idle, refused = idle.result()
        return Seen(
            **seen,  # pyright: ignore[reportArgumentType]  # the names and types are those that probe() puts there
            stopped_streaming=stopped,
            stopped_idle=stopped_idle,
            refused_tools=refused,
            engine_killed=engine.result(),
            orphan=orphan.result(),
            wrong_flag=flag.result(),
        )


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    runtime = real_runtime()
    folder = tmp_path_factory.mktemp("real")
    return look(Kind(runtime.vllm, runtime.models / "dense", REAL_ENVIRONMENT, folder, at_once=2, ready_within=120))


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("fake")
    environment = {"FAKE_VLLM_START_SECONDS": "0.5"}
    return look(Kind(fake_vllm_path(), fake_model(folder / "model"), environment, folder, at_once=5, ready_within=10))


def test_the_port_is_bound_but_refuses_until_ready(fake: Seen, real: Seen) -> None:
    assert fake.early == real.early == (True, True)


def test_endpoints_answer_with_the_same_status_and_type(fake: Seen, real: Seen) -> None:
    assert fake.gets == real.gets


@pytest.mark.parametrize("name", POSTS)
def test_answers_have_the_same_status_and_shape(fake: Seen, real: Seen, name: str) -> None:
    assert fake.posts[name] == real.posts[name]


@pytest.mark.parametrize("name", STREAMS)
def test_stream_chunks_have_the_same_shapes(fake: Seen, real: Seen, name: str) -> None:
    assert fake.streams[name] == real.streams[name]


def test_both_keep_their_word(fake: Seen, real: Seen) -> None:
    assert [name for name, true in fake.truths.items() if not true] == []
    assert [name for name, true in real.truths.items() if not true] == []


@pytest.mark.parametrize("name", CHOICES)
def test_tools_without_a_parser_are_refused_in_the_same_words(fake: Seen, real: Seen, name: str) -> None:
    assert fake.refused_tools[name] == real.refused_tools[name]
    assert "--tool-call-parser" in str(real.refused_tools[name])


def test_metrics_are_some_of_the_real_ones_with_their_types_and_labels(fake: Seen, real: Seen) -> None:
    assert {name: real.metrics.get(name) for name in fake.metrics} == fake.metrics


def test_counters_count_the_same(fake: Seen, real: Seen) -> None:
    assert fake.counts == real.counts


def test_sigterm_when_idle_ends_with_0_within_seconds(fake: Seen, real: Seen) -> None:
    assert (
        (fake.stopped_idle.code, fake.stopped_idle.left) == (real.stopped_idle.code, real.stopped_idle.left) == (0, 0)
    )
    assert max(fake.stopped_idle.seconds, real.stopped_idle.seconds) < LONGEST_END


def test_sigterm_aborts_a_stream_and_ends_with_0_within_seconds(fake: Seen, real: Seen) -> None:
    for seen in (fake.stopped_streaming, real.stopped_streaming):
        assert (seen.code, seen.left) == (0, 0)
        assert seen.seconds < LONGEST_END
    assert (fake.stopped_streaming.finish, fake.stopped_streaming.done) == ("abort", True)
    # The real one kills EngineCore right after SIGTERM, and the stream's end is a race: the abort comes first; or the
    # death is noticed first and is an error (as at any death of the engine); or neither comes, the stream falls silent
    # and the server waits for its client to leave, which is what the fake does with FAKE_VLLM_LOST_STREAMS.
    ended = real.stopped_streaming
    assert (ended.finish, ended.done) == ("abort", True) or (ended.error and ended.done) or ended.silent


def test_a_killed_engine_gives_503_and_then_exit_0(fake: Seen, real: Seen) -> None:
    for seen in (fake.engine_killed, real.engine_killed):
        assert (seen.code, seen.left) == (0, 0)
        assert 503 in seen.statuses
        assert seen.seconds < LONGEST_END


def test_a_killed_api_server_leaves_the_same_orphan(fake: Seen, real: Seen) -> None:
    assert fake.orphan == real.orphan


def test_an_unknown_flag_is_refused_in_the_same_words(fake: Seen, real: Seen) -> None:
    assert fake.wrong_flag == real.wrong_flag
    assert fake.wrong_flag[0] == 2
