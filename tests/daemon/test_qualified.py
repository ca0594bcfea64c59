"""The environment of what runs, as a client sees it; and `arcops switch --qualified`, which goes by it."""

from collections.abc import Generator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arcops import wire
from arcops.core.evidence.environment import digest_of
from tests.daemon.rig import Result
from tests.daemon.surveyed import SurveyedRig
from tests.evidence.standing.surveyed import PATCHED, PLAIN, edit, qualify
from tests.helpers import eventually

pytestmark = pytest.mark.processes


@pytest.fixture
def rig(tmp_path: Path) -> Generator[SurveyedRig]:
    with SurveyedRig(tmp_path) as one:
        yield one
        assert "Traceback" not in one.daemon_log()


def recorded(rig: SurveyedRig) -> wire.EnvironmentInfo:
    """Of what runs, once it is known."""

    def found() -> wire.EnvironmentInfo | None:
        info = rig.status().environment
        return info if info is not None and info.digest is not None else None

    info = eventually(found, within=60.0, why="the environment is not recorded")
    assert info is not None
    return info


def told(rig: SurveyedRig) -> list[str]:
    with rig.client() as client:
        return [event.reason for event in client.events().events if event.kind == "environment"]


def gauges(rig: SurveyedRig) -> dict[str, float]:
    with rig.client() as client:
        families = text_string_to_metric_families(client.metrics())
        return {sample.name: sample.value for family in families for sample in family.samples}


def switch(rig: SurveyedRig, *more: str, profile: str = "target-only") -> Result:
    return rig.arcops("switch", profile, "--qualified", "--now", *more)


def test_what_runs_is_recorded_and_a_change_is_told_at_the_next_launch(rig: SurveyedRig) -> None:
    rig.start()
    assert rig.arcops("switch", "target-only").code == 0
    info = recorded(rig)
    assert (info.digest, info.qualified, info.qualified_in) == (digest_of(PLAIN), False, None)
    assert "environment  never qualified" in rig.arcops("status").out
    assert gauges(rig)["arcops_environment_qualified"] == 0
    with rig.client() as client:
        assert client.environment().read() == PLAIN

    qualify(rig.paths.records, "target-only", PLAIN)
    eventually(lambda: recorded(rig).qualified, within=60.0, why="the qualification is not noticed")
    assert "environment  qualified (" in rig.arcops("status").out
    assert gauges(rig)["arcops_environment_qualified"] == 1

    rig.kill_daemon()
    rig.start()
    assert recorded(rig).qualified is True
    assert rig.survey.readings() == ["target-only"], "an adopted backend was recorded before"

    rig.survey.says(PATCHED)
    assert rig.arcops("restart", "--now").code == 0
    info = recorded(rig)
    assert (info.digest, info.qualified, info.changes) == (digest_of(PATCHED), False, 1)
    row = next(row for row in rig.arcops("status").out.splitlines() if "environment" in row)
    assert row.startswith("  environment  since it last qualified, 1 thing has changed: file vllm/dflash.py: changed")
    changes = [reason for reason in told(rig) if reason.startswith("the environment is not that")]
    assert len(changes) == 2, told(rig)


def test_only_what_has_qualified_in_this_very_environment_is_switched_to(rig: SurveyedRig) -> None:
    rig.start()
    assert rig.arcops("switch", "dflash2").code == 0
    working = rig.status().backend
    assert working is not None

    never = switch(rig)
    assert (never.code, never.out) == (5, "")
    assert "target-only has never qualified" in never.err
    assert "arcops qualify target-only" in never.err
    assert switch(rig, "--dry-run").code == 5

    qualify(rig.paths.records, "dflash2", PLAIN)
    assert switch(rig).code == 5, "another profile's record is none"

    record = qualify(rig.paths.records, "target-only", PLAIN)
    allowed = switch(rig, "--dry-run")
    assert allowed.code == 0, allowed.err
    assert "target-only has qualified in this environment" in allowed.out

    rig.survey.says(PATCHED)
    changed = switch(rig)
    assert changed.code == 5
    assert "since it last did, 1 thing has changed: file vllm/dflash.py: changed" in changed.err

    rig.survey.says(PLAIN)
    content = record.read_bytes()
    edit(record)
    edited = switch(rig)
    assert edited.code == 5
    assert "a record is not believed" in edited.err

    rig.survey.misbehaves("crash")
    unread = switch(rig)
    assert unread.code == 5
    assert "cannot be read" in unread.err

    assert rig.status().backend == working, "what works was left in its place"
    rig.survey.behaves()
    record.write_bytes(content)
    done = switch(rig)
    assert done.code == 0, done.err
    backend = rig.status().backend
    assert backend is not None
    assert backend.profile == "target-only"
    assert recorded(rig).qualified is True
