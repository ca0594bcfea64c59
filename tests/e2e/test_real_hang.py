"""Real vLLM that hangs: EngineCore stopped, with a request open and with none. `/health` says 200 all the while."""

import os
import re
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, real_rig
from tests.helpers import cannot_run_here, eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

LIMITS = {"stall_after": "3s", "probe": "10s", "stop_grace": "5s"}
FOUND_WITHIN = 60.0
"""Seconds from the hang to its diagnosis, of which 25 are the limits' own."""


@pytest.fixture(scope="module")
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One daemon for both tests: a start of real vLLM takes half a minute."""
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        rig.profile("watched", extends="demo-target-only", limits=LIMITS, checks={"idle_probe": "1s"})
        yield rig.start()


@pytest.mark.parametrize("with_a_request", [True, False], ids=["with a request open", "idle"])
def test_a_stopped_engine_is_suspected_ended_and_replaced(arcops: Rig, with_a_request: bool) -> None:
    switched = arcops.arcops("switch", "watched", within=START_WITHIN)
    assert switched.code == 0, switched.err
    before = arcops.status().backend
    assert before is not None
    begun = threading.Event()
    client = threading.Thread(target=ask_for_much, args=(arcops, begun))
    engine = engine_of(arcops)
    if with_a_request:
        client.start()
        # Stopped at its first token: while it decodes without pause, vLLM's API server may answer nobody for a minute.
        assert begun.wait(START_WITHIN), "the request does not begin"
    os.kill(engine, signal.SIGSTOP)
    try:
        assert httpx.get(f"{arcops.url}/health", trust_env=False, timeout=10.0).status_code == 200
        eventually(lambda: said(arcops, before, "suspect: "), within=FOUND_WITHIN, why=arcops.daemon_log()[-3000:])
        eventually(lambda: said(arcops, before, "stopping: "), within=FOUND_WITHIN, why=arcops.daemon_log()[-3000:])
    finally:
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGCONT) if arcops.status().phase in ("serving", "suspect") else None
    assert "no answer to the probe within 10 s" in said(arcops, before, "stopping: ")[0]
    arcops.wait_for("serving", within=START_WITHIN)
    after = arcops.status().backend
    assert after is not None
    assert after.launch_id != before.launch_id
    assert not Path(f"/proc/{engine}").exists()
    if with_a_request:
        client.join(60.0)
        assert not client.is_alive()
    folder = arcops.paths.evidence_dir / f"{before.launch_id}-suspect"
    eventually(lambda: (folder / "stacks.txt").exists(), within=60.0, why="the evidence is not complete")
    processes = (folder / "processes.txt").read_text()
    stopped = next(part for part in processes.split("\n\n") if part.startswith(f"pid {engine}: VLLM::EngineCor"))
    assert "state T" in stopped
    assert "vllm:num_requests_running" in (folder / "metrics.txt").read_text()
    assert "Application startup complete" in (folder / "log-tail.txt").read_text()
    stacks = dict(part.split("\n", 1) for part in f"\n{(folder / 'stacks.txt').read_text()}".split("\npid ")[1:])
    assert_stacks_of_an_engine(stacks[str(engine)])


def assert_stacks_of_an_engine(text: str) -> None:
    """Read by a real py-spy, of a process that is stopped; where it may not look it says so."""
    if os.geteuid() != 0 and "ermission" in text:
        cannot_run_here("py-spy may not attach: this needs root, or kernel.yama.ptrace_scope 0")
    assert "VLLM::EngineCore" in text.partition("\n")[0]
    assert re.search(r"Thread \S+ \(\w+\): \"MainThread\"", text), text
    assert re.search(r"run_busy_loop \(.*vllm/v1/engine/core\.py:\d+\)", text), text


def test_a_known_answer_is_asked_for_at_the_start_and_while_it_serves(arcops: Rig) -> None:
    assert arcops.arcops("switch", "watched", within=START_WITHIN).code == 0
    question = {"model": "demo", "prompt": "The supervisor starts", "max_tokens": 12, "temperature": 0}
    reply = httpx.post(f"{arcops.url}/v1/completions", json=question, timeout=120.0, trust_env=False).json()
    text = str(reply["choices"][0]["text"])
    assert text.strip()
    known = {"prompt": question["prompt"], "equals": text, "max_tokens": 12}
    checks = {"idle_probe": "1s", "known_answer": known}
    arcops.profile("known", extends="demo-target-only", checks=checks)
    arcops.profile("unknown", extends="demo-target-only", checks=checks | {"known_answer": known | {"equals": "no"}})
    switched = arcops.arcops("switch", "known", within=START_WITHIN)
    assert switched.code == 0, switched.err
    asked = generated(arcops)
    eventually(lambda: generated(arcops) >= asked + 24, within=60.0, why="it is not asked again")
    assert (arcops.phase(), arcops.status().trouble) == ("serving", ())
    switched = arcops.arcops("switch", "unknown", "--no-rollback", within=START_WITHIN)
    assert switched.code == 7
    assert "expected 'no', got " in switched.err


def generated(arcops: Rig) -> float:
    """Tokens that vLLM has generated since it started."""
    text = httpx.get(f"{arcops.url}/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith("vllm:generation_tokens_total")]
    return float(lines[0].rpartition(" ")[2])


def said(arcops: Rig, backend: wire.BackendInfo, words: str) -> list[str]:
    """The moves of one launch whose phase and reason begin so."""
    with arcops.client() as client:
        told = [
            f"{event.phase}: {event.reason}"
            for event in client.events(0).events
            if event.kind == "phase" and event.launch_id == backend.launch_id
        ]
    return [text for text in told if text.startswith(words)]


def engine_of(arcops: Rig) -> int:
    for pid in arcops.backend_pids():
        if Path(f"/proc/{pid}/comm").read_text().startswith("VLLM::EngineCor"):
            return pid
    raise AssertionError("there is no EngineCore")


def ask_for_much(arcops: Rig, begun: threading.Event) -> None:
    """A request that would go on for long; `begun` at its first token. Its end is none of this test's business."""
    body = {"model": "demo", "prompt": "The supervisor", "max_tokens": 20000, "temperature": 0, "ignore_eos": True}
    url = f"{arcops.url}/v1/completions"
    with (
        suppress(httpx.HTTPError),
        httpx.stream("POST", url, json=body | {"stream": True}, timeout=300.0, trust_env=False) as answer,
    ):
        for line in answer.iter_lines():
            if line.startswith("data: "):
                begun.set()
