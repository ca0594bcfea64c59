"""Does it fit, through the whole daemon: refused before anything is touched, forced, and held against vLLM's word."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.core.budget.plan import MIB
from arcops.machine import footprints
from tests.daemon.carded import CARD, CardedRig
from tests.helpers import eventually
from tests.planning.tiny import tiny

pytestmark = pytest.mark.processes

REPORTED = 65_536
"""Tokens that the fake has by its word: 64 MiB of the tiny model's cache on XPU."""
PLANNED = 40 * 1024 * 1024
"""Of a pool of 40 GiB."""


@pytest.fixture
def rig(tmp_path: Path) -> Generator[CardedRig]:
    with CardedRig(tmp_path) as one:
        one.with_card()
        one.memory_in_use(300)
        tiny(one.root / "models" / "tiny")
        fitting(one, "small", "64MiB")
        fitting(one, "large", "40GiB")
        yield one.start()


def fitting(rig: CardedRig, name: str, pool: str) -> None:
    """A profile for the card, whose cache is so large."""
    rig.profile(
        name,
        extends="target-only",
        device={"kind": "xpu", "cards": [CARD]},
        model={"path": "tiny", "served_name": "tiny"},
        cache={"kv_cache_memory": pool},
        runtime={"env": {"FAKE_VLLM_WEIGHTS_GIB": "0.125"}},
    )


def plan_events(rig: CardedRig) -> list[str]:
    with rig.client() as client:
        return [event.reason for event in client.events(-1000).events if event.kind == "plan"]


def test_what_cannot_fit_is_refused_unless_forced_and_each_launch_is_held_against_its_plan(rig: CardedRig) -> None:
    assert rig.arcops("switch", "small").code == 0
    as_planned = f"the KV cache holds {REPORTED:,} tokens, as planned"
    eventually(lambda: plan_events(rig) == [as_planned], why="the launch is not held against its plan")
    status = rig.status()
    assert status.backend is not None
    assert (status.backend.planned_tokens, status.backend.reported_tokens) == (REPORTED, REPORTED)
    assert not [note for note in status.notes if "KV cache" in note]

    dry = rig.arcops("switch", "large", "--dry-run")
    refused = rig.arcops("switch", "large")
    assert (dry.code, refused.code) == (5, 5)
    assert dry.err == refused.err
    assert "large does not fit: it needs 40,9" in refused.err
    assert "the card has 32,768 MiB" in refused.err
    assert "cache.kv_cache_memory: " in refused.err
    assert "--force" in refused.err
    after = rig.status().backend
    assert after is not None
    assert (after.launch_id, rig.starts()) == (status.backend.launch_id, 1), "what ran was not touched"
    forced = rig.arcops("switch", "large", "--dry-run", "--force")
    assert forced.code == 0
    assert "memory: does not fit, and is forced: it needs 40,9" in forced.out

    took = eventually(lambda: footprints.kept(str(rig.paths.footprints), "small"), why="what it took is not kept")
    assert [(one.weights, one.pool, one.reported) for one in took] == [(128 * MIB, 64 * MIB, REPORTED)]

    assert rig.arcops("switch", "large", "--force").code == 0
    differs = f"the KV cache holds {REPORTED:,} tokens by vLLM's word, and {PLANNED:,} were planned: "
    eventually(lambda: len(plan_events(rig)) == 3, why="the second launch is not held against its plan")
    _, order, compared = plan_events(rig)
    assert order.startswith("order 2: large is started all the same (--force): it does not fit, it needs 40,9")
    assert compared.startswith(differs)
    assert compared in rig.status().notes
    eventually(lambda: footprints.kept(str(rig.paths.footprints), "large"), why="what it took is not kept")

    # Another supervisor finds the backend, and what was said of it.
    rig.kill_daemon()
    rig.start()
    eventually(lambda: compared in rig.status().notes, why="what was kept is not found")
    fitting(rig, "large", "48GiB")
    again = rig.arcops("restart")
    assert again.code == 5
    assert "large does not fit: it needs 49,1" in again.err
    assert rig.arcops("restart", "--force", "--no-wait").code == 0
    assert any("large is started all the same (--force)" in words and "49,1" in words for words in plan_events(rig))
