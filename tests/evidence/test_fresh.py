"""What became of an order that a measurement gave, and whose backend is measured."""

from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import digest_of
from arcops.core.evidence.judge import Question, judge, spoiled
from arcops.core.evidence.qualification import Verdict
from arcops.evidence import fresh, shelf
from tests.daemon.rig import Rig

pytestmark = pytest.mark.processes


@pytest.fixture
def arcops(tmp_path: Path) -> Generator[Rig]:
    with Rig(tmp_path) as rig:
        yield rig.start()


def test_a_suite_gets_fresh_servers_and_an_oracle_profile_and_leaves_all_as_it_was(arcops: Rig, tmp_path: Path) -> None:
    with pytest.raises(ArcopsError, match="nothing serves") as refused:
        fresh.serving(arcops.paths.socket)
    assert refused.value.exit_code is ExitCode.NOT_RUNNING
    assert arcops.arcops("switch", "mtp").code == 0
    before = arcops.starts()

    kept = tmp_path / "kept" / "mine.json"
    took = arcops.arcops("bench", "suite", "--output", "4", "--oracle-profile", "target-only", "--to", str(kept))

    assert took.code == 0, took.err
    stored = shelf.read(kept)
    assert stored.record.setting is not None
    assert stored.record.setting.configuration.profile == "mtp"
    assert stored.record.environment is not None
    assert stored.record.setting.configuration.environment_digest == digest_of(stored.record.environment)
    assert stored.record.setting.configuration.launch_id == fresh.serving(arcops.paths.socket).launch_id
    assert not any("phase" in one.text for one in stored.record.setting.befallen), "what it ordered itself befell it"
    assert spoiled(judge(stored.record)) == ()
    fresh_ones = [one for one in judge(stored.record) if one.question is Question.SAME_SERVER]
    assert [(one.verdict, one.words) for one in fresh_ones] == [(Verdict.PASSED, "2 servers, each started anew")]
    identity = stored.record.identity
    assert identity is not None
    assert [(one.exact, one.asked) for one in identity.stages] == [(12, 12), (12, 12)]
    (oracle,) = [one for one in shelf.find(kept.parent) if one.path != kept]
    assert oracle.digest == identity.oracle
    # The oracle's profile, its two servers, back again, and two more.
    assert arcops.starts() == before + 6
    assert fresh.serving(arcops.paths.socket).profile == "mtp"
