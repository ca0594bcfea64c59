"""Hangs: `/health` says 200, and nothing moves. Found, evidence kept, ended, started again; and what is none."""

import os
import signal
import stat
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from arcops import wire
from arcops.machine import process
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

QUICK = {"stall_after": "5s", "probe": "8s", "stop_grace": "1s"}
"""Short, and longer than a busy machine stands still."""


def served(rig: Rig, name: str = "target-only") -> None:
    rig.start()
    switched = rig.arcops("switch", name)
    assert switched.code == 0, switched.err


def engine_of(rig: Rig) -> int:
    """Pid of EngineCore, the one process of the backend with that name."""
    return next(pid for pid in rig.backend_pids() if Path(f"/proc/{pid}/comm").read_text().startswith("VLLM::EngineC"))


def reasons(rig: Rig, kind: str) -> list[str]:
    with rig.client() as client:
        return [f"{event.phase}: {event.reason}" for event in client.events(0).events if event.kind == kind]


@contextmanager
def a_request(rig: Rig, tokens: int = 2000, prompt: str = "one two") -> Generator[None]:
    """A client that waits for an answer until the backend ends."""

    def ask() -> None:
        with suppress(httpx.HTTPError):
            rig.complete(tokens, prompt, timeout=60.0)

    client = threading.Thread(target=ask)
    client.start()
    try:
        eventually(lambda: (rig.status().rates.running or 0) + (rig.status().rates.waiting or 0) > 0, why="no request")
        yield
    finally:
        with suppress(ProcessLookupError):
            for pid in rig.backend_pids():
                os.kill(pid, signal.SIGCONT)
        rig.end_strays()
        client.join()


def evidence(rig: Rig, what: str) -> Path:
    """The folder that is named by an event, once it is."""
    found = eventually(
        lambda: [text for text in reasons(rig, "evidence") if f"evidence of {what} is kept in" in text],
        within=90.0,
        why=f"no evidence of {what}: {rig.daemon_log()[-2000:]}",
    )
    assert "not all of it" not in found[0], found
    return Path(found[0].partition(" is kept in ")[2])


def restarted(rig: Rig) -> None:
    """It serves again, as another launch."""
    eventually(lambda: rig.starts() >= 2 and rig.phase() == "serving", within=120.0, why=rig.daemon_log()[-3000:])


# -- hangs ------------------------------------------------------------------------------------------------------------
def test_a_stopped_engine_with_a_request_open_is_suspected_asked_and_ended(rig: Rig) -> None:
    rig.profile("target-only", limits=QUICK, checks={"idle_probe": 0})
    served(rig)
    with a_request(rig):
        os.kill(engine_of(rig), signal.SIGSTOP)
        assert httpx.get(f"{rig.url}/health", trust_env=False).status_code == 200
        restarted(rig)
        phases = reasons(rig, "phase")
        assert any(text.startswith("suspect: ") and "no progress" in text for text in phases), phases
        assert any("no answer to the probe within 8 s" in text for text in phases), phases
        folder = evidence(rig, "suspect")
        assert "state T" in (folder / "processes.txt").read_text(), (
            "taken while it hung, before anything was done to it"
        )
        evidence(rig, "hang")


def test_a_stopped_engine_with_nothing_open_is_found_by_the_idle_probe(rig: Rig) -> None:
    rig.profile("target-only", limits=QUICK | {"stall_after": "60s"}, checks={"idle_probe": "0.5s"})
    served(rig)
    os.kill(engine_of(rig), signal.SIGSTOP)
    restarted(rig)
    phases = reasons(rig, "phase")
    assert any(text.startswith("suspect: it was idle, and gave no answer within 8 s") for text in phases), phases


def test_a_hang_inside_the_handler_of_sigsegv_is_found_and_ended(rig: Rig) -> None:
    """A crash that looks like a hang: the process is alive, sleeps, and is deaf to SIGTERM."""
    rig.profile("target-only", limits=QUICK | {"stall_after": "60s"}, checks={"idle_probe": "0.5s"})
    rig.misbehaving("crashes", segv_hangs=True)
    served(rig, "crashes")
    engine = process.identify(engine_of(rig))
    assert engine is not None
    os.kill(engine.pid, signal.SIGSEGV)
    restarted(rig)
    assert not process.alive(engine)
    assert "state S" in (evidence(rig, "suspect") / "processes.txt").read_text()


def test_an_idle_probe_leaves_no_trace_but_in_vllms_own_counters(rig: Rig) -> None:
    rig.profile("target-only", checks={"idle_probe": "0.2s"})
    served(rig)

    def generated() -> float:
        text = httpx.get(f"{rig.url}/metrics", trust_env=False).text
        lines = [line for line in text.splitlines() if line.startswith("vllm:generation_tokens_total")]
        return float(lines[0].rpartition(" ")[2])

    eventually(lambda: generated() >= 3, why="it is not asked")
    assert rig.phase() == "serving"
    assert [text for text in reasons(rig, "phase") if text.startswith("suspect")] == []
    assert rig.starts() == 1


# -- what is no hang ---------------------------------------------------------------------------------------------------
def test_a_prefill_longer_than_the_stall_limit_is_never_suspected_nor_is_what_queues_behind_it(rig: Rig) -> None:
    rig.profile(
        "target-only",
        limits={"stall_after": "8s", "probe": "8s"},
        checks={"idle_probe": "0.5s"},
        scheduling={"max_num_seqs": 1, "max_num_batched_tokens": 64},
    )
    rig.misbehaving("slow", prefill_speed=1000)
    served(rig, "slow")
    prompt = "one" + " two" * 15_000  # a token a word: fifteen seconds
    done: list[object] = []
    clients = [
        threading.Thread(target=lambda: done.append(rig.complete(4, prompt, timeout=90.0))),
        threading.Thread(target=lambda: done.append(rig.complete(4, "three four", timeout=90.0))),
    ]
    clients[0].start()
    eventually(lambda: rig.status().rates.running == 1, why="the prefill does not begin")
    clients[1].start()
    for client in clients:
        client.join(90.0)
    assert len(done) == 2
    assert rig.starts() == 1
    assert [text for text in reasons(rig, "phase") if text.startswith("suspect")] == []


# -- evidence ----------------------------------------------------------------------------------------------------------
def test_evidence_is_private_says_why_and_holds_the_last_words(rig: Rig) -> None:
    served(rig)
    engine = engine_of(rig)
    os.kill(engine, signal.SIGKILL)
    restarted(rig)
    folder = evidence(rig, "engine_died")
    assert folder.parent == rig.paths.evidence_dir
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(files) == {"why.txt", "log-tail.txt", "metrics.txt", "processes.txt", "stacks.txt"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert "profile:       target-only" in files["why.txt"]
    assert "EngineDeadError" in files["log-tail.txt"]
    assert "vllm:generation_tokens_total" in files["metrics.txt"]


def test_stacks_are_taken_with_py_spy_and_one_that_hangs_holds_up_nothing(rig: Rig) -> None:
    tools = rig.root / "tools"
    tools.mkdir()
    hangs = "grep -q EngineC /proc/$4/comm && exec sleep 60"
    (tools / "py-spy").write_text(f'#!/bin/sh\n{hangs}\n[ "$1" = dump ] && echo "stack of $4"\n')
    (tools / "py-spy").chmod(0o755)
    rig.environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    rig.profile("target-only", limits=QUICK | {"stall_after": "60s"}, checks={"idle_probe": "0.5s"})
    served(rig)
    backend = rig.status().backend
    assert backend is not None
    os.kill(engine_of(rig), signal.SIGSTOP)
    restarted(rig)
    stacks = (evidence(rig, "suspect") / "stacks.txt").read_text()
    assert f"stack of {backend.pid}" in stacks
    assert "(py-spy did not come back within 5 s)" in stacks


def test_where_py_spy_may_not_attach_the_evidence_says_so(rig: Rig) -> None:
    tools = rig.root / "tools"
    tools.mkdir()
    # The words of the real one.
    denied = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'"
    (tools / "py-spy").write_text(f"#!/bin/sh\ncat <<'END'\n{denied}\nEND\nexit 1\n")
    (tools / "py-spy").chmod(0o755)
    rig.environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    rig.profile("target-only", limits=QUICK | {"stall_after": "60s"}, checks={"idle_probe": "0.5s"})
    served(rig)
    os.kill(engine_of(rig), signal.SIGSTOP)
    restarted(rig)
    stacks = (evidence(rig, "suspect") / "stacks.txt").read_text()
    assert "it may not attach, root may" in stacks
    assert "Permission Denied" in stacks


def test_evidence_that_cannot_be_kept_is_said_and_costs_nothing_else(rig: Rig) -> None:
    rig.start()
    rig.paths.evidence_dir.write_text("in the way")
    assert rig.arcops("switch", "target-only").code == 0
    os.kill(engine_of(rig), signal.SIGKILL)
    restarted(rig)
    told = eventually(lambda: reasons(rig, "evidence"), why="nothing is told of the evidence")
    assert "not all of it: the folder cannot be made" in told[0]


# -- a supervisor that stood still ------------------------------------------------------------------------------------
def test_a_start_does_not_fail_for_the_time_in_which_its_supervisor_stood_still(rig: Rig) -> None:
    """The deadline of the first answer is over when it goes on: nobody looked, so the question is put again."""
    gate, probe = rig.root / "no-answers", 8.0
    gate.touch()
    rig.profile(
        "slow",
        extends="target-only",
        limits={**QUICK, "probe": f"{probe:.0f}s"},
        runtime={"env": {"FAKE_VLLM_ANSWER_GATE": str(gate)}},
    )
    rig.start()
    assert rig.daemon is not None
    with rig.client() as client:
        client.switch(wire.SwitchRequest(profile="slow"))
    rig.wait_for("checking")
    os.kill(rig.daemon.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > probe + 1.0, within=60.0)
    finally:
        os.kill(rig.daemon.pid, signal.SIGCONT)
    gate.unlink()
    status = rig.wait_for("serving", "failed", "backoff")
    assert (status.phase, rig.starts()) == ("serving", 1), status.reason
    assert "stopping" not in {event.split(":")[0] for event in reasons(rig, "phase")}
