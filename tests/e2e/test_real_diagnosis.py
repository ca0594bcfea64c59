"""Starts of real vLLM that fail: each has its cause and its advice, and what served before serves again.

What serves before is the fake, so that the way back takes no half minute.
"""

import shutil
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, real_rig
from tests.fakes.runtime import fake_vllm_path

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

DENSE = {"extends": "demo-target-only", "model": {"path": "tiny/dense"}}


@pytest.fixture(scope="module")
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One daemon for all, with a backend in service."""
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        rig.profile("before", extends="target-only", runtime={"vllm": str(fake_vllm_path())})
        rig.start()
        assert rig.arcops("switch", "before").code == 0
        yield rig


def model(arcops: Rig, name: str) -> Path:
    """A copy of the dense model, to be damaged."""
    copy = arcops.root / "models" / name
    shutil.copytree(arcops.root / "models" / "tiny" / "dense", copy)
    return copy


def fails(arcops: Rig, name: str, cause: str, *words: str, **sections: object) -> wire.OutcomeInfo:
    """Switch to a profile that cannot start: exit code 7 with these words, and the way back taken."""
    arcops.profile(name, **{**DENSE, **sections})
    switched = arcops.arcops("switch", name, within=2 * START_WITHIN)
    said = switched.err + switched.out
    assert switched.code == 7, said
    for word in words:
        assert word in said
    assert "back to before" in said
    status = arcops.status()
    assert (status.phase, status.backend and status.backend.profile) == ("serving", "before")
    assert (status.order.profile, status.order.committed) == ("before", True)
    assert arcops.complete()["choices"]
    outcome = status.settled[-1]
    assert (outcome.exit_code, outcome.returned_to, outcome.cause) == (7, "before", cause)
    assert outcome.hint
    return outcome


def test_an_unknown_flag(arcops: Rig) -> None:
    outcome = fails(arcops, "bad-flag", "unknown_flag", "does not know --no-such-flag", extra_args=["--no-such-flag"])
    assert "extra_args" in outcome.hint


def test_a_model_without_weights(arcops: Rig) -> None:
    (model(arcops, "no-weights") / "model.safetensors").unlink()
    outcome = fails(arcops, "no-weights", "model_not_found", "model was not found", model={"path": "no-weights"})
    assert "model.path" in outcome.hint


def test_a_model_path_that_is_not_there_is_refused_before_anything_is_stopped(arcops: Rig) -> None:
    arcops.profile("bad-path", **{**DENSE, "model": {"path": "nowhere"}})
    backend = arcops.status().backend
    refused = arcops.arcops("switch", "bad-path")
    assert refused.code not in (0, 7)
    assert "nowhere" in refused.err
    assert arcops.status().backend == backend


def test_weights_that_are_cut(arcops: Rig) -> None:
    weights = model(arcops, "cut") / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) // 2])
    outcome = fails(arcops, "cut", "corrupt_weights", "a file is cut or damaged", model={"path": "cut"})
    assert "fetch the model again" in outcome.hint


def test_a_cache_that_is_too_small_names_the_largest_context_that_fits(arcops: Rig) -> None:
    outcome = fails(
        arcops,
        "small-cache",
        "kv_cache_too_small",
        "a context of 32768 tokens needs",
        scheduling={"max_model_len": 32768},
        # On the CPU the variable counts, where it is set.
        runtime={"env": {"VLLM_CPU_KVCACHE_SPACE": None}},
        cache={"kv_cache_memory": "8MiB"},
    )
    assert "scheduling.max_model_len up to " in outcome.hint
    assert " fits" in outcome.hint


def test_a_context_that_the_model_was_not_made_for(arcops: Rig) -> None:
    outcome = fails(
        arcops,
        "long-context",
        "context_too_long",
        "a context of 100000 tokens is more than the model was made for (32768)",
        scheduling={"max_model_len": 100000},
    )
    assert outcome.hint == "scheduling.max_model_len up to 32768 fits"


def test_a_draft_that_does_not_fit(arcops: Rig) -> None:
    outcome = fails(
        arcops,
        "bad-draft",
        "draft_incompatible",
        "speculative method mtp",
        speculation={"method": "mtp", "num_tokens": 2},
    )
    assert "speculation.method" in outcome.hint


def test_a_port_that_is_taken_is_refused_before_anything_is_stopped(arcops: Rig) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        arcops.profile("taken", **DENSE, server={"port": stranger.getsockname()[1]})
        backend = arcops.status().backend
        refused = arcops.arcops("switch", "taken")
        assert refused.code == 5
        assert str(stranger.getsockname()[1]) in refused.err
        assert arcops.status().backend == backend
