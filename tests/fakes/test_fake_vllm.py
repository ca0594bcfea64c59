"""The fake vLLM by itself: fast, and with every way to misbehave."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Event, Serving, comm, is_bound, samples, state
from tests.helpers import eventually, free_port

pytestmark = pytest.mark.processes

Start = Callable[..., Serving]
FAILURES = (
    "port_in_use tool_parser not_cached unknown_arch max_len no_mtp_head memory_taken oom corrupt_weights kv_too_small"
)
STORY = {"model": "tiny", "prompt": "The server", "max_tokens": 8}
ENDLESS = {"model": "tiny", "prompt": "The server", "max_tokens": 1500}


@pytest.fixture
def fake(tmp_path: Path) -> Start:
    """Make a server of the fake, not yet started: flags as arguments, settings by name."""

    def make(*flags: str, model: Path | None = None, **settings: object) -> Serving:
        port = free_port()
        folder = model or fake_model(tmp_path / "model", mtp=True)
        common = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "2048")
        environment = {"FAKE_VLLM_START_SECONDS": "0.05"}
        environment |= {f"FAKE_VLLM_{name.upper()}": str(value) for name, value in settings.items()}
        argv = (fake_vllm_path(), "serve", folder, *common, *flags)
        return Serving(argv, port, tmp_path / f"{port}.log", environment)

    return make


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [fake_vllm_path(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def collect(server: Serving, body: Mapping[str, object]) -> list[Event]:
    with server.stream(body) as events:
        return list(events)


def test_it_says_its_version() -> None:
    answer = run("--version")
    assert (answer.returncode, answer.stdout) == (0, "0.29.0+cpu\n")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--no-such-flag",), "vllm: error: unrecognized arguments: --no-such-flag"),
        (("--max-num-seqs", "abc"), "vllm serve: error: argument --max-num-seqs: invalid int value: 'abc'"),
        (("--speculative-config", "{num:3}"), "argument --speculative-config/-sc: Value {num:3} cannot be converted"),
    ],
)
def test_a_wrong_command_line_ends_with_2(flags: tuple[str, ...], text: str) -> None:
    answer = run("serve", "model", *flags)
    assert answer.returncode == 2
    assert text in answer.stderr


def test_a_setting_that_does_not_exist_is_refused() -> None:
    answer = run("serve", "model", FAKE_VLLM_HANGG="1")
    assert answer.returncode == 2
    assert "no setting 'hangg'" in answer.stderr


def test_unknown_flags_pass(fake: Start) -> None:
    with fake("--attention-backend", "TRITON_ATTN", "--enable-something", "--max-num-seqs", "2") as server:
        server.wait_ready()


def test_it_answers_like_an_openai_server(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        answer = server.post("/v1/completions", STORY | {"return_token_ids": True}).json()
        assert answer["usage"]["completion_tokens"] == 8
        assert len(answer["choices"][0]["token_ids"]) == 8
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["choices"][0]["text"] == server.post("/v1/completions", STORY).json()["choices"][0]["text"]
        chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
        assert server.post("/v1/chat/completions", chat).json()["choices"][0]["message"]["content"]
        assert server.post("/tokenize", {"prompt": "one two three"}).json()["count"] == 3
        assert server.get("/v1/models").json()["data"][0]["id"] == "tiny"
        assert server.post("/v1/completions", STORY | {"model": "other"}).status_code == 404
        assert server.post("/v1/completions", STORY | {"max_tokens": 5000}).status_code == 400


def test_counters_tell_what_was_done(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        usage = server.post("/v1/completions", STORY).json()["usage"]
        assert server.metric("prompt_tokens_total") == usage["prompt_tokens"]
        assert server.metric("generation_tokens_total") == 8
        assert server.metric("request_success_total", finished_reason="length") == 1
        assert server.metric("time_to_first_token_seconds_count") == 1
        assert server.metric("inter_token_latency_seconds_count") == 7
        assert server.metric("spec_decode_num_drafts_total") is None
        assert server.metric("num_requests_running") == 0


def test_the_port_is_taken_but_closed_until_ready(fake: Start) -> None:
    with fake(start_seconds=30) as server:
        eventually(lambda: is_bound(server.port))
        with pytest.raises(httpx.ConnectError):
            server.get("/health")


def test_a_taken_port_ends_with_1(fake: Start) -> None:
    with fake() as first:
        first.wait_ready()
        with fake("--port", str(first.port)) as second:
            assert second.wait_exit() == 1
            assert "OSError: [Errno 98] Address already in use" in second.text


def test_sigterm_when_idle_ends_with_0_and_leaves_nothing(fake: Start) -> None:
    with fake(workers=1) as server:
        server.wait_ready()
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        eventually(lambda: not server.processes(), within=2)


def test_sigterm_aborts_open_streams(fake: Start) -> None:
    with fake(decode_speed=50) as server:
        server.wait_ready()
        with server.stream(ENDLESS) as events:
            next(events)
            server.signal(signal.SIGTERM)
            rest = list(events)
        assert rest[-2].choice["finish_reason"] == "abort"
        assert rest[-1].data is None
        assert server.wait_exit() == 0


def test_streams_can_be_lost_until_their_clients_leave(fake: Start) -> None:
    with fake(decode_speed=50, lost_streams=True) as server:
        server.wait_ready()
        with server.stream(ENDLESS, timeout=0.3) as events:
            next(events)
            server.signal(signal.SIGTERM)
            with pytest.raises(httpx.ReadTimeout):
                list(events)
            assert server.process.poll() is None
        assert server.wait_exit() == 0


def test_a_shutdown_timeout_drains(fake: Start) -> None:
    with fake("--shutdown-timeout", "20", decode_speed=100) as server:
        server.wait_ready()
        with server.stream(STORY | {"max_tokens": 60}) as events:
            next(events)
            server.signal(signal.SIGTERM)
            eventually(lambda: server.post("/v1/completions", STORY).status_code == 500)
            assert server.health() == 200
            rest = list(events)
        assert rest[-2].choice["finish_reason"] == "length"
        assert server.wait_exit() == 0


def test_sigterm_before_the_engine_ends_by_sigint(fake: Start) -> None:
    with fake(stall_at="config") as server:
        eventually(lambda: "Resolved architecture" in server.text)
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == -signal.SIGINT


def test_one_sigterm_during_engine_start_is_lost(fake: Start) -> None:
    with fake(busy_at="kv_cache", busy_seconds=0.3) as server:
        eventually(lambda: "GPU KV cache size" in server.text)
        server.signal(signal.SIGTERM)
        server.wait_ready()


def test_a_repeated_sigterm_during_engine_start_ends_by_sigint(fake: Start) -> None:
    with fake(stall_at="kv_cache", init_term_gap=0.1) as server:
        eventually(lambda: "GPU KV cache size" in server.text)

        def ended() -> bool:
            server.signal(signal.SIGTERM)
            return server.process.poll() is not None

        eventually(ended, every=0.05)
        assert server.process.returncode == -signal.SIGINT
        eventually(lambda: not server.processes(), within=2)


def test_a_killed_api_server_leaves_an_orphan_without_a_command_line(fake: Start) -> None:
    with fake() as server:
        engine = server.wait_ready().engine()
        server.signal(signal.SIGKILL)
        assert server.wait_exit() == -signal.SIGKILL
        assert state(engine) == "S"
        assert Path(f"/proc/{engine}/cmdline").read_bytes().strip(b"\0") == b"VLLM::EngineCore"
        assert not Path(f"/proc/{engine}/environ").read_bytes().strip(b"\0")
        assert not is_bound(server.port)
        os.kill(engine, signal.SIGTERM)
        eventually(lambda: not server.processes(), within=2)


def test_a_killed_engine_gives_503_and_then_exit_0(fake: Start) -> None:
    with fake(engine_death_exit=0.4) as server:
        server.wait_ready()
        with server.stream(ENDLESS) as events:
            next(events)
            os.kill(server.engine(), signal.SIGKILL)
            eventually(lambda: server.health() == 503, within=2, every=0.005)
            rest = list(events)
        assert rest[-2].data is not None
        assert "EngineCore encountered an issue" in str(rest[-2].data["error"])
        assert server.wait_exit() == 0


def test_a_stopped_engine_hangs_and_goes_on(fake: Start) -> None:
    with fake() as server, ThreadPoolExecutor() as pool:
        engine = server.wait_ready().engine()
        os.kill(engine, signal.SIGSTOP)
        eventually(lambda: state(engine) == "T")
        answer = pool.submit(server.post, "/v1/completions", STORY)
        with pytest.raises(httpx.ReadTimeout):
            server.post("/v1/completions", STORY, timeout=0.2)
        assert server.health() == 200
        assert server.metric("generation_tokens_total") == 0
        assert server.metric("num_requests_running") == 0
        os.kill(engine, signal.SIGCONT)
        assert answer.result().status_code == 200


def test_during_a_long_prefill_only_the_kv_gauge_moves(fake: Start) -> None:
    prompt = {"model": "tiny", "prompt": list(range(1900)), "max_tokens": 1}
    flags = ("--max-num-batched-tokens", "64")
    with fake(*flags, prefill_speed=500, kv_tokens=4096) as server, ThreadPoolExecutor() as pool:
        server.wait_ready()
        answer = pool.submit(server.post, "/v1/completions", prompt)
        seen: set[float] = set()

        def climbing() -> bool:
            page = {name: value for name, _, value in samples(server.get("/metrics").text)}
            if page["vllm:num_requests_running"] == 1:
                assert page["vllm:prompt_tokens_total"] == page["vllm:iteration_tokens_total_count"] == 0
                seen.add(page["vllm:kv_cache_usage_perc"])
            return len(seen) >= 4

        eventually(climbing, every=0.01)
        server.misbehave(prefill_speed=1_000_000)
        assert answer.result().status_code == 200
        assert server.metric("prompt_tokens_total") == 1900


def test_requests_queue_for_places(fake: Start) -> None:
    with fake("--max-num-seqs", "1", decode_speed=50) as server:
        server.wait_ready()
        with server.stream(ENDLESS) as first, server.stream(ENDLESS) as second:
            next(first)
            eventually(lambda: server.metric("num_requests_waiting") == 1)
            assert server.metric("num_requests_running") == 1
            server.misbehave(decode_speed=100_000)
            assert [event.data is None for event in second][-1]


def test_a_full_cache_preempts_and_everything_still_ends(fake: Start) -> None:
    settings = {"kv_tokens": 512, "decode_speed": 2000}
    body = {"model": "tiny", "prompt": "The server", "max_tokens": 300}
    with fake(**settings) as server, ThreadPoolExecutor() as pool:
        server.wait_ready()
        answers = [pool.submit(server.post, "/v1/completions", body) for _ in range(3)]
        assert {answer.result().json()["usage"]["completion_tokens"] for answer in answers} == {300}
        assert (server.metric("num_preemptions_total") or 0) > 0
        assert server.metric("kv_cache_usage_perc") == 0


def test_a_known_prefix_is_not_computed_again(fake: Start) -> None:
    body = {"model": "tiny", "prompt": list(range(100)), "max_tokens": 1}
    with fake() as server:
        server.wait_ready()
        server.post("/v1/completions", body)
        server.post("/v1/completions", body)
        assert server.metric("prefix_cache_hits_total") == 96
        assert server.metric("prompt_tokens_by_source_total", source="local_compute") == 104


def test_speculation_brings_several_tokens_in_a_chunk_and_its_counters(fake: Start) -> None:
    asked = '{"method":"mtp","num_speculative_tokens":3}'
    with fake("--speculative-config", asked) as server:
        server.wait_ready()
        body = STORY | {"max_tokens": 100, "return_token_ids": True, "stream_options": {"include_usage": True}}
        events = collect(server, body)
        sizes = [len(ids) for event in events if isinstance(ids := event.choice.get("token_ids"), list)]
        assert sum(sizes) == 100
        assert 1 < max(sizes) <= 4
        drafts = server.metric("spec_decode_num_drafts_total") or 0
        accepted = server.metric("spec_decode_num_accepted_tokens_total") or 0
        assert server.metric("spec_decode_num_draft_tokens_total") == 3 * drafts
        assert 0 < accepted < 3 * drafts
        assert server.metric("spec_decode_num_accepted_tokens_per_pos_total") == accepted


def test_the_draft_depth_follows_the_batch_size(fake: Start) -> None:
    asked = '{"method":"mtp","num_speculative_tokens_per_batch_size":[[1,1,2],[2,8,0]]}'
    with fake("--speculative-config", asked) as server:
        server.wait_ready()
        server.post("/v1/completions", STORY)
        drafts = server.metric("spec_decode_num_drafts_total") or 0
        assert drafts > 0
        assert server.metric("spec_decode_num_draft_tokens_total") == 2 * drafts


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ('{"method":"draft_model","model":"/no/draft","num_speculative_tokens":3}', "Invalid repository ID or local"),
        ('{"method":"nosuch","num_speculative_tokens":3}', "input_value='nosuch'"),
        ('{"method":"ngram","num_spec":3}', "Unexpected keyword argument"),
        ('{"method":"mtp","num_speculative_tokens":3}', "NotImplementedError: Unsupported speculative method: 'mtp'"),
    ],
)
def test_impossible_speculation_ends_with_1(fake: Start, tmp_path: Path, asked: str, text: str) -> None:
    with fake("--speculative-config", asked, model=fake_model(tmp_path / "headless")) as server:
        assert server.wait_exit() == 1
        assert text in server.text


def test_a_missing_model_and_a_context_too_long_end_with_1(fake: Start, tmp_path: Path) -> None:
    with fake(model=tmp_path / "nothing") as server:
        assert server.wait_exit() == 1
        assert "HFValidationError" in server.text
    with fake(model=fake_model(tmp_path / "short", longest=1024)) as server:
        assert server.wait_exit() == 1
        assert "User-specified max_model_len (2048) is greater than the derived max_model_len" in server.text


@pytest.mark.parametrize("name", FAILURES.split())
def test_a_start_that_fails_says_why_and_leaves_nothing(fake: Start, name: str) -> None:
    with fake(fail_with=name) as server:
        assert server.wait_exit() == 1
        assert "Error: " in server.text
        assert ("Engine core initialization failed" in server.text) == ("(EngineCore" in server.text)
        assert not server.processes()


def test_only_the_first_starts_fail(fake: Start, tmp_path: Path) -> None:
    settings = {"fail_with": "oom", "fail_starts": 1, "starts_file": tmp_path / "starts"}
    with fake(**settings) as server:
        assert server.wait_exit() == 1
    with fake(**settings) as server:
        server.wait_ready()
    assert len((tmp_path / "starts").read_text().splitlines()) == 2


def test_a_stalled_start_says_no_more(fake: Start) -> None:
    with fake(stall_at="warmup") as server:
        eventually(lambda: "init engine" in server.text)
        assert "Starting vLLM server" not in server.text
        assert server.process.poll() is None


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"exit_code": 7}, 7), ({"die_signal": 11}, -11), ({"kill_engine": True}, 0)],
)
def test_it_dies_on_demand(fake: Start, settings: dict[str, object], code: int) -> None:
    with fake() as server:
        server.wait_ready()
        try:
            server.misbehave(**settings)
        except httpx.TransportError:
            assert code != 0
        assert server.wait_exit() == code


def test_what_the_environment_asks_for_strikes_after_a_while(fake: Start) -> None:
    with fake(exit_code=3, strike_after=0.2) as server:
        server.wait_ready()
        assert server.wait_exit() == 3


def test_a_hang_answers_health_but_no_request(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        server.misbehave(hang=True)
        with pytest.raises(httpx.ReadTimeout):
            server.post("/v1/completions", STORY, timeout=0.2)
        assert server.health() == 200
        assert server.metric("prompt_tokens_total") == 0
        server.misbehave(hang=False)
        assert server.post("/v1/completions", STORY).status_code == 200


def test_a_start_waits_at_its_gate_and_says_so(fake: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with fake(start_gate=gate) as server:
        eventually(lambda: server.text.count("waiting at the gate") > 2, why="it does not wait")
        assert server.health() is None
        gate.unlink()
        server.wait_ready()


def test_a_stopped_engine_says_nothing_at_the_gate_and_what_the_gate_says_ends_the_start(
    fake: Start, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with fake(start_gate=gate) as server:
        eventually(lambda: "waiting at the gate" in server.text, why="it does not wait")
        engine = server.engine()
        os.kill(engine, signal.SIGSTOP)
        eventually(lambda: state(engine) == "T", why="it was not stopped")
        gate.write_text("exit 3")
        os.kill(engine, signal.SIGCONT)
        assert server.wait_exit() == 3


def test_it_hangs_while_its_answer_gate_is_there(fake: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with fake(answer_gate=gate) as server:
        server.wait_ready()
        with pytest.raises(httpx.ReadTimeout):
            server.post("/v1/completions", STORY, timeout=0.2)
        gate.unlink()
        assert server.post("/v1/completions", STORY).status_code == 200


def test_metrics_answer_with_the_status_that_was_asked_for(fake: Start) -> None:
    with fake(metrics_status=500) as server:
        server.wait_ready()
        assert server.get("/metrics").status_code == 500
        server.misbehave(metrics_status=0)
        assert server.get("/metrics").status_code == 200


def test_garbage_is_one_token_repeated(fake: Start) -> None:
    with fake(garbage=True) as server:
        server.wait_ready()
        answer = server.post("/v1/completions", STORY | {"return_token_ids": True}).json()
        assert len(set(answer["choices"][0]["token_ids"])) == 1


def test_it_can_answer_in_earnest_and_something_else(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        right = server.post("/v1/completions", STORY).json()["choices"][0]["text"]
        server.misbehave(astray=True)
        other = server.post("/v1/completions", STORY).json()["choices"][0]["text"]
        assert other != right
        assert len(set(other.split())) > 1
        server.misbehave(astray=False)
        assert server.post("/v1/completions", STORY).json()["choices"][0]["text"] == right


def test_corrupted_requests_are_counted_where_it_is_told_so(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        assert "corrupted_requests" not in server.get("/metrics").text
        server.misbehave(corrupted=3)
        assert server.metric("corrupted_requests_total") == 3


def test_its_engine_can_hang_in_the_handler_of_sigsegv(fake: Start) -> None:
    with fake(segv_hangs=True) as server:
        engine = server.wait_ready().engine()
        os.kill(engine, signal.SIGSEGV)
        eventually(lambda: b"SigBlk:\t0000000000000000" not in Path(f"/proc/{engine}/status").read_bytes())
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/completions", json=STORY, timeout=0.5, trust_env=False)
        assert (server.health(), server.metric("prompt_tokens_total")) == (200, 0)
        os.kill(engine, signal.SIGTERM)
        assert state(engine) == "S"


def test_a_misbehaviour_that_does_not_exist_is_refused(fake: Start) -> None:
    with fake() as server:
        server.wait_ready()
        assert server.misbehave(nonsense=1).status_code == 400


@pytest.mark.parametrize("early", [True, False])
def test_it_can_be_deaf_to_sigterm(fake: Start, early: bool) -> None:
    with fake(sigterm_deaf=early) as server:
        engine = server.wait_ready().engine()
        server.misbehave(sigterm_deaf=True)
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.post("/v1/completions", STORY).status_code == 200
        assert state(engine) == "S"
        server.misbehave(sigterm_deaf=False)
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0


def test_a_child_can_escape_into_its_own_session(fake: Start) -> None:
    with fake(escape=True) as server:
        server.wait_ready()
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        (escaped,) = eventually(lambda: [pid for pid in server.processes() if comm(pid) == "VLLM::Escaped"])
        assert os.getsid(escaped) != server.process.pid
        os.kill(escaped, signal.SIGTERM)
        assert state(escaped) == "S"


def test_a_child_can_hold_the_port(fake: Start) -> None:
    with fake(hold_port=True) as server:
        server.wait_ready()
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        assert is_bound(server.port)
    assert not is_bound(server.port)


def test_wrong_names_and_broken_metrics_can_be_served(fake: Start) -> None:
    with fake(served_name="impostor", metrics_garbage=True) as server:
        server.wait_ready()
        assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["impostor"]
        assert "not metrics" in server.get("/metrics").text
        server.misbehave(health_status=503)
        assert server.health() == 503


def test_the_log_can_be_flooded(fake: Start) -> None:
    with fake(log_bytes_per_second=1_000_000) as server:
        server.wait_ready()
        eventually(lambda: server.log.stat().st_size > 300_000)


def test_an_api_key_guards_v1_only(fake: Start) -> None:
    with fake("--api-key", "secret") as server:
        server.wait_ready()
        assert server.get("/v1/models").status_code == 401
        assert server.get("/v1/models", authorization="Bearer secret").status_code == 200
        assert server.get("/metrics").status_code == 200
