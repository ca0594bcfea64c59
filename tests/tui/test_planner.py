"""The plan beside the screen: a process of its own whose answer is a plan, or words."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.tui.checks import planner as program
from arcops.tui.live.planner import plan, planner
from tests.planning.reference import MODELS, write
from tests.sites import MadeUpSite
from tests.tui.profile_scenes import FITS


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpSite:
    """The made-up machine, as this process's environment."""
    made = MadeUpSite(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ARCOPS_INSTANCE", raising=False)
    return made


def python(text: str) -> Sequence[str]:
    return (sys.executable, "-c", text)


def printing(message: wire.PlanInfo | wire.ErrorInfo, code: int = 0) -> Sequence[str]:
    return python(f"import sys; sys.stdout.buffer.write({wire.encode(message)!r}); sys.exit({code})")


@pytest.mark.asyncio
async def test_its_answer_is_the_plan():
    assert await plan(printing(FITS)) == FITS


@pytest.mark.asyncio
async def test_its_error_is_raised_with_its_hint():
    with pytest.raises(ArcopsError, match="was cut off") as caught:
        await plan(printing(wire.ErrorInfo(message="model.safetensors was cut off", hint="download it again"), 6))
    assert caught.value.hint == "download it again"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ended with 0 and gave no reason"),
        ("print('{}')", "ended with 0 and gave no reason"),
        ("print('nonsense'); raise SystemExit(3)", "ended with 3 and gave no reason"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9 and gave no reason"),
    ],
)
async def test_one_that_says_nothing_or_nonsense_is_an_error_in_words(text: str, said: str):
    with pytest.raises(ArcopsError, match=said):
        await plan(python(text))


@pytest.mark.asyncio
async def test_one_that_cannot_be_run_is_an_error_in_words():
    with pytest.raises(ArcopsError, match="the planner cannot be run"):
        await plan(("/nowhere/at/all",))


@pytest.mark.asyncio
async def test_one_that_hangs_is_given_up():
    with pytest.raises(ArcopsError, match=r"not there within 0\.2 s"):
        await plan(python("import signal; signal.pause()"), within=0.2)


@pytest.mark.asyncio
@pytest.mark.usefixtures("site")
async def test_the_real_one_tells_of_a_profile_that_is_not_there():
    with pytest.raises(ArcopsError, match="nonesuch"):
        await plan(planner("main", "nonesuch"))


def test_the_real_one_plans_a_profile_of_this_machine(site: MadeUpSite):
    shape = json.loads((MODELS / "tiny-hybrid" / "config.json").read_text())
    write(site.models / "mine", shape, iter([("model.layers.0.mlp.up_proj.weight", "BF16", (64, 64))]))
    site.write_profile("mine", "device: {kind: cpu}\nmodel: {path: mine}\nscheduling: {max_model_len: 2048}\n")
    found = program.run("main", "mine")
    assert (found.profile, found.fit, found.place) == ("mine", "unknown", "the CPU")
    (site.models / "mine" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ArcopsError, match="no safetensors file"):
        program.run("main", "mine")
