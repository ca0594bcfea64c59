"""Two benchmarks of real vLLM: what is recorded is exact, cold and undisturbed."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.core.evidence.judge import Question, judge
from arcops.core.evidence.qualification import Verdict
from arcops.evidence import shelf
from tests.daemon.rig import Rig
from tests.e2e.real import real_rig

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        yield rig.start()


def test_a_ladder_and_three_depths_of_real_vllm_are_exact_and_cold(arcops: Rig, tmp_path: Path) -> None:
    assert arcops.arcops("switch", "demo-target-only", within=400.0).code == 0
    ladder, context = tmp_path / "ladder.json", tmp_path / "context.json"

    climbed = arcops.arcops("bench", "ladder", "--rungs", "1,2,4", "--output", "48", "--to", str(ladder), within=300.0)
    assert climbed.code == 0, climbed.err
    again = ("bench", "context", "--depths", "512,2K,4K", "--output", "32", "--to", str(context))
    assert arcops.arcops(*again, within=300.0).code == 0

    rungs = shelf.read(ladder).record
    assert rungs.identity is not None
    assert [(one.stage, one.exact, one.asked) for one in rungs.identity.stages] == [
        ("c1", 1, 1),
        ("c2", 2, 2),
        ("c4", 4, 4),
    ] * 2
    depths = shelf.read(context).record
    assert depths.run is not None
    asked = [
        (stage.depth, one.prompt_tokens, one.output_tokens) for stage in depths.run.stages for one in stage.requests
    ]
    assert asked == [(depth, depth, 32) for depth in (512, 2048, 4096) for _ in range(3)]
    for record in (rungs, depths):
        told = {(one.question, one.verdict) for one in judge(record)}
        for question in (Question.CANARIES, Question.SAME_SERVER, Question.ANSWERED, Question.ALONE):
            assert {verdict for asked_, verdict in told if asked_ is question} == {Verdict.PASSED}, question
    assert (Question.COLD, Verdict.FAILED) not in {(one.question, one.verdict) for one in judge(depths)}
