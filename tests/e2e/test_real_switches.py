"""The main job on real vLLM: one profile after another, one at a time, and back when one fails."""

import os
import re
import socket
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, Census, real_rig
from tests.helpers import eventually
from tests.tmux import Terminal, terminal

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

PROMPT = "The supervisor starts one server"


@pytest.fixture(scope="module")
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One daemon for all tests of this module: a start of real vLLM takes half a minute."""
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        yield rig.start()


def test_target_only_then_dflash2_then_mtp_then_stop(arcops: Rig) -> None:
    census = Census(arcops.port)
    census.start()
    before: set[int] = set()
    texts: dict[str, object] = {}
    for profile in ("demo-target-only", "demo-dflash2", "demo-mtp"):
        switched = arcops.arcops("switch", profile, within=START_WITHIN)
        assert switched.code == 0, switched.err
        status = arcops.status()
        assert (status.phase, status.backend and status.backend.profile) == ("serving", profile)
        assert before.isdisjoint(arcops.backend_pids()), "a process of the old launch is left"
        before = set(arcops.backend_pids())
        assert served_models(arcops) == ["demo"]
        texts[profile] = completion(arcops)
        assert speculated(arcops) == (profile != "demo-target-only")
    assert arcops.arcops("stop").code == 0
    assert arcops.backend_pids() == []
    assert_port_is_free(arcops.port)
    assert census.end() == 1, "two backends lived at the same moment"
    assert census.looks > 100
    assert texts["demo-dflash2"] == texts["demo-target-only"], "speculation at temperature 0 changed the text"
    assert texts["demo-mtp"] == texts["demo-target-only"], "speculation at temperature 0 changed the text"


def test_a_bad_draft_is_diagnosed_from_its_first_root_cause_and_the_previous_profile_is_back(arcops: Rig) -> None:
    draft = arcops.root / "models" / "empty-draft"
    draft.mkdir()
    (draft / "config.json").write_text("{}")
    arcops.profile("bad-draft", extends="demo-dflash2", speculation={"model": "empty-draft"})
    assert arcops.arcops("switch", "demo-target-only", within=START_WITHIN).code == 0
    failed = arcops.arcops("switch", "bad-draft", within=2 * START_WITHIN)
    assert failed.code == 7
    assert "bad-draft" in failed.err
    assert "Unrecognized model" in failed.err
    assert "back to demo-target-only" in failed.err
    status = arcops.status()
    assert (status.phase, status.backend and status.backend.profile) == ("serving", "demo-target-only")
    assert completion(arcops)


def test_a_long_prefill_is_shown_while_vllms_own_counters_stand_still(arcops: Rig) -> None:
    """30,000 tokens in chunks of 64: the only thing that moves is the KV gauge."""
    arcops.profile(
        "demo-prefill",
        extends="demo-target-only",
        model={"path": "tiny/dense"},
        scheduling={"max_num_batched_tokens": 64, "max_num_seqs": 1},
    )
    assert arcops.arcops("switch", "demo-prefill", within=START_WITHIN).code == 0
    answered = threading.Event()
    with ThreadPoolExecutor(2) as pool, screen(arcops) as there:
        there.until(lambda text: "● serving demo-prefill" in text, "the screen does not show the backend")
        following = pool.submit(prefills, arcops, answered)
        asking = pool.submit(completion, arcops, [token % 400 + 50 for token in range(30_000)])
        asking.add_done_callback(lambda _: answered.set())
        shown = there.until(lambda text: "prefilling" in text and "tok/s" in text, "the screen does not show it", 60)
        assert re.search(r"running +1 of 1\b", shown), shown
        asking.result()
        seen = following.result()
    assert seen, "the prefill was never shown"
    during = seen[-1].rates
    assert during.prefilling is not None
    assert during.prefilling.rate is not None
    truth = eventually(lambda: arcops.status().rates.prefill_speed, why="vLLM does not say how long the prefill took")
    assert 0.4 < during.prefilling.rate / truth < 2.5, (during.prefilling, truth)
    assert (during.running, (during.kv_usage or 0) > 0) == (1, True)


def prefills(arcops: Rig, answered: threading.Event) -> list[wire.Status]:
    """Every status that tells how fast a prefill is, until the request is answered: the screen may look too late."""
    seen: list[wire.Status] = []
    with arcops.client() as client:
        for status in client.follow_status():
            if status.rates.prefilling is not None and status.rates.prefilling.rate is not None:
                seen.append(status)
            if answered.is_set():
                break
    return seen


def screen(arcops: Rig) -> AbstractContextManager[Terminal]:
    """`arcops tui` in a real terminal."""
    wanted = ("ARCOPS_CONFIG_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "ARCOPS_INSTANCE")
    environment = {name: value for name, value in arcops.env().items() if name in wanted}
    return terminal(f"{sys.executable} -m arcops.cli.main tui", environment | {"PYTHONPATH": os.getcwd()}, (120, 36))


def completion(arcops: Rig, prompt: str | list[int] = PROMPT) -> object:
    """The text of a greedy completion; a list is a prompt of token ids."""
    body = {"model": "demo", "prompt": prompt, "max_tokens": 48, "temperature": 0}
    answer = httpx.post(f"{arcops.url}/v1/completions", json=body, timeout=120, trust_env=False)
    answer.raise_for_status()
    return answer.json()["choices"][0]["text"]


def served_models(arcops: Rig) -> list[str]:
    models = httpx.get(f"{arcops.url}/v1/models", trust_env=False).json()["data"]
    return [str(model["id"]) for model in models]


def speculated(arcops: Rig) -> bool:
    """Whether vLLM's own metrics say that drafts were accepted, and arcops says so too."""
    text = httpx.get(f"{arcops.url}/metrics", trust_env=False).text
    accepted = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("vllm:spec_decode_num_accepted_tokens_total")
    ]
    if not accepted or accepted[0] == 0:
        return False
    rates = eventually(lambda: arcops.status().rates.speculation, why="arcops does not show the speculation")
    assert rates.acceptance is not None
    assert rates.acceptance > 0
    return True


def assert_port_is_free(port: int) -> None:
    with socket.socket() as probe:
        # Connections that the server closed wait out their time on the port; they do not hold it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        probe.listen()
