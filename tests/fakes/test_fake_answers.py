"""What the fake vLLM answers: the same ids for the same prompt, chats and tool calls, and faults on demand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Event, Serving
from tests.helpers import eventually, free_port

pytestmark = pytest.mark.processes

Start = Callable[..., Serving]
STORY: dict[str, object] = {"model": "tiny", "prompt": "The server", "max_tokens": 12, "temperature": 0}
IDS = STORY | {"return_token_ids": True}
WEATHER: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CALL: dict[str, object] = {
    "messages": [{"role": "user", "content": "What is the weather in Paris for 3 days, in fahrenheit?"}],
    "tools": [WEATHER],
    "max_tokens": 200,
}
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
FITTING = {"city": "Paris", "days": 3, "unit": "fahrenheit"}


@pytest.fixture
def fake(tmp_path: Path) -> Start:
    """Make a server of the fake, not yet started: flags as arguments, settings by name."""

    def make(*flags: str, **settings: object) -> Serving:
        port = free_port()
        folder = fake_model(tmp_path / "model", mtp=True)
        common = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "2048")
        environment = {"FAKE_VLLM_START_SECONDS": "0.05"}
        environment |= {f"FAKE_VLLM_{name.upper()}": str(value) for name, value in settings.items()}
        return Serving(
            (fake_vllm_path(), "serve", folder, *common, *flags), port, tmp_path / f"{port}.log", environment
        )

    return make


def ids(server: Serving, **changes: object) -> list[int]:
    return server.post("/v1/completions", IDS | changes).json()["choices"][0]["token_ids"]


def message(server: Serving, **changes: object) -> dict[str, Any]:
    return server.post("/v1/chat/completions", CALL | changes).json()["choices"][0]["message"]


def deltas(server: Serving, **changes: object) -> list[dict[str, Any]]:
    with server.stream(CALL | changes, "/v1/chat/completions") as events:
        return [event.choice["delta"] for event in events if "delta" in event.choice]  # pyright: ignore[reportReturnType]  # an object, by the API


def streamed_arguments(found: list[dict[str, Any]]) -> str:
    calls = [call["function"] for delta in found for call in delta.get("tool_calls", [])]
    return "".join(call.get("arguments", "") for call in calls)


def test_every_server_gives_the_same_ids_and_goes_on_from_half_of_an_answer(fake: Start) -> None:
    speculating = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')
    with fake() as plain, fake(*speculating) as drafting:
        answers = [ids(server.wait_ready()) for server in (plain, drafting)]
        assert answers[0] == answers[1]
        assert len(set(answers[0])) > 1
        prompt = plain.post("/tokenize", {"prompt": "The server"}).json()["tokens"]
        assert ids(plain, prompt=prompt + answers[0][:5], max_tokens=7) == answers[0][5:]


def test_text_survives_the_tokenizer(fake: Start) -> None:
    text = "Wörter, <tool_call> and\n\ttabs — 世界 100%"
    with fake() as server:
        server.wait_ready()
        tokens = server.post("/tokenize", {"prompt": text}).json()["tokens"]
        assert server.post("/detokenize", {"tokens": tokens}).json()["prompt"] == text


def test_a_sampled_answer_is_another_one_and_its_seed_brings_it_back(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        first, again, other = (ids(server, temperature=0.8, seed=seed) for seed in (1, 1, 2))
        assert first == again
        assert len({tuple(first), tuple(other), tuple(ids(server))}) == 3


def test_the_two_likeliest_tokens_are_told(fake: Start) -> None:
    asked = IDS | {"logprobs": 2, "return_tokens_as_token_ids": True, "max_tokens": 1}
    with fake() as server:
        choice = server.wait_ready().post("/v1/completions", asked).json()["choices"][0]
        token = f"token_id:{choice['token_ids'][0]}"
        likely = choice["logprobs"]["top_logprobs"][0]
        assert max(likely, key=lambda name: likely[name]) == token == choice["logprobs"]["tokens"][0]
        assert len(likely) == 2
        named = server.post("/v1/completions", asked | {"logprob_token_ids": [5, 6]}).json()["choices"][0]
        assert set(named["logprobs"]["top_logprobs"][0]) == {token, "token_id:5", "token_id:6"}


def test_an_answer_can_end_by_itself_unless_that_is_ignored(fake: Start) -> None:
    with fake(eos_after=4) as server:
        server.wait_ready()
        short = server.post("/v1/completions", IDS | {"max_tokens": 50}).json()["choices"][0]
        assert (short["finish_reason"], 4 < len(short["token_ids"]) <= 9) == ("stop", True)
        assert len(ids(server, max_tokens=50, ignore_eos=True)) == 50


def test_usage_tells_of_the_prefix_cache_where_the_server_was_told_to(fake: Start) -> None:
    asked = STORY | {"prompt": list(range(100))}
    with fake("--enable-prompt-tokens-details") as server:
        server.wait_ready()

        def cached(**changes: object) -> int:
            usage = server.post("/v1/completions", asked | changes).json()["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        assert [cached(), cached(), cached(cache_salt="other")] == [0, 96, 0]
        server.misbehave(pretend_cached=True)
        assert cached(cache_salt="third") == 96
    with fake("--enable-prompt-tokens-details", "--no-enable-prefix-caching") as server:
        server.wait_ready()
        assert [server.post("/v1/completions", asked).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                for _ in range(2)] == [0, 0]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [("Reply with exactly READY.", "READY"), ("What is 17 + 25?", "42"), ("The capital of France?", "Paris")],
)
def test_a_chat_is_answered(fake: Start, question: str, answer: str) -> None:
    chat: dict[str, object] = {"messages": [{"role": "user", "content": question}], "tools": None}
    with fake() as server:
        server.wait_ready()
        assert message(server, **chat)["content"] == answer
        assert "".join(delta.get("content") or "" for delta in deltas(server, **chat)) == answer
        server.misbehave(wrong_chat=True)
        assert message(server, **chat)["content"] != answer


def test_a_parser_of_reasoning_keeps_it_apart_and_a_chat_may_do_without(fake: Start) -> None:
    chat: dict[str, object] = {"messages": [{"role": "user", "content": "Say exactly READY"}], "tools": None}
    with fake("--reasoning-parser", "qwen3") as server:
        server.wait_ready()
        told = message(server, **chat)
        assert (bool(told["reasoning"]), told["content"]) == (True, "READY")
        assert any(delta.get("reasoning") for delta in deltas(server, **chat))
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        assert message(server, **chat, **off)["reasoning"] is None


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_tool_is_called_with_arguments_that_fit(fake: Start, choice: object) -> None:
    speculating = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')
    with fake(*TOOLS, *speculating) as server:
        server.wait_ready()
        told = message(server, tool_choice=choice)
        assert told["content"] == (None if choice == "auto" else "")
        assert json.loads(told["tool_calls"][0]["function"]["arguments"]) == FITTING
        found = deltas(server, tool_choice=choice)
        assert json.loads(streamed_arguments(found)) == FITTING
        names = [call["function"]["name"] for one in found for call in one.get("tool_calls", []) if "id" in call]
        assert names == ["get_weather"]


def test_tools_need_their_parser_whoever_chooses_the_function(fake: Start) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    with fake() as server:
        server.wait_ready()
        for choice in ("auto", "required", named):
            refused = server.post("/v1/chat/completions", CALL | {"tool_choice": choice})
            assert refused.status_code == 400
            assert "--tool-call-parser to be set" in refused.json()["error"]["message"]
        assert server.post("/v1/chat/completions", CALL | {"tool_choice": "none"}).status_code == 200


def test_tool_calls_break_on_demand(fake: Start) -> None:
    with fake(*TOOLS) as server:
        server.wait_ready().misbehave(tool_fault="no_json")
        with pytest.raises(json.JSONDecodeError):
            json.loads(message(server)["tool_calls"][0]["function"]["arguments"])
        server.misbehave(tool_fault="misfit")
        assert "city" not in json.loads(message(server)["tool_calls"][0]["function"]["arguments"])
        server.misbehave(tool_fault="text")
        assert "<tool_call>" in message(server)["content"]
        server.misbehave(tool_fault="missing")
        assert "tool_calls" not in message(server)
        server.misbehave(tool_fault="no_json", tool_fault_in="stream")
        assert json.loads(message(server)["tool_calls"][0]["function"]["arguments"]) == FITTING
        with pytest.raises(json.JSONDecodeError):
            json.loads(streamed_arguments(deltas(server)))
        assert server.misbehave(tool_fault="nonsense").status_code == 400


def test_one_token_flips_on_demand_and_what_follows_is_another_answer(fake: Start) -> None:
    with fake() as server:
        right = ids(server.wait_ready())
        server.misbehave(flip_at=5, flip_nth=2)
        answers = [ids(server) for _ in range(3)]
        assert answers[0] == answers[2] == right
        assert answers[1][:5] == right[:5]
        assert answers[1][5] != right[5]
        server.misbehave(flip_at=5, flip_nth=0, flip_from=2)
        assert ids(server) == right


def test_errors_and_cut_streams_come_every_nth_time(fake: Start) -> None:
    with fake(error_every=2) as server:
        server.wait_ready()
        assert [server.post("/v1/completions", STORY).status_code for _ in range(4)] == [200, 500, 200, 500]
        server.misbehave(error_every=0, cut_every=1)
        found: list[Event] = []
        with pytest.raises(httpx.RemoteProtocolError), server.stream(STORY) as events:
            found.extend(events)
        assert all(event.data is not None for event in found)


def test_counters_vanish_or_begin_anew_on_demand(fake: Start) -> None:
    with fake() as server:
        ids(server.wait_ready())
        server.misbehave(drop_counters="prefix_cache,preemption")
        assert server.metric("prefix_cache_hits_total") is None
        assert server.metric("generation_tokens_total") == 12
        server.misbehave(drop_counters="", started_anew=True)
        assert server.metric("generation_tokens_total") == 0


def test_the_slot_of_a_client_that_went_away_is_kept_on_demand(fake: Start) -> None:
    with fake(keep_slots=True) as server:
        server.wait_ready()
        with server.stream(STORY | {"max_tokens": 1500}) as events:
            next(events)
        eventually(lambda: server.metric("generation_tokens_total") or 0.0, why="nothing is generated")
        before = server.metric("generation_tokens_total") or 0.0
        eventually(lambda: (server.metric("generation_tokens_total") or 0.0) > before + 200, why="it has ended")
        assert server.metric("num_requests_running") == 1


def test_memory_leaks_on_demand(fake: Start) -> None:
    def resident(server: Serving) -> int:
        return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096

    with fake() as server:
        ids(server.wait_ready())
        before = resident(server)
        server.misbehave(leak_kib=8192)
        for _ in range(4):
            ids(server)
        assert resident(server) > before + 16 * 2**20
