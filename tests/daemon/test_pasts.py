"""What the daemon remembers of profiles, and tells of the backend that runs."""

from pathlib import Path

import pytest

from arcops import wire
from arcops.core.launch import HIDDEN
from arcops.daemon.pasts import pasts
from arcops.machine.store import StoredEvent
from tests.daemon.rig import Rig


def event(profile: str, phase: str, data: str = "{}") -> StoredEvent:
    return StoredEvent(1, 12.5, "phase", phase, profile, "L1", f"{profile} {phase}", data)


def test_a_profile_that_served_tells_how_long_its_last_load_took_and_how_long_they_take() -> None:
    ready = wire.LastResult(at=12.5, ready=True, seconds=40.0, cause=None, summary="a serving")
    assert pasts((event("a", "serving"),), {"a": (40.0, 30.0, 31.0)}) == (
        wire.ProfilePast(name="a", usual=31.0, last=ready),
    )


def test_a_failure_has_its_cause_and_no_load_time_of_an_earlier_start() -> None:
    failed = wire.LastResult(at=12.5, ready=False, seconds=None, cause="out_of_memory", summary="a stopping")
    assert pasts((event("a", "stopping", '{"cause":"out_of_memory"}'),), {"a": (40.0,)}) == (
        wire.ProfilePast(name="a", usual=40.0, last=failed),
    )


def test_what_one_table_lacks_is_unknown_and_not_0() -> None:
    assert pasts((event("b", "serving"),), {"a": (1.0,)}) == (
        wire.ProfilePast(name="a", usual=1.0, last=None),
        wire.ProfilePast(
            name="b",
            usual=None,
            last=wire.LastResult(at=12.5, ready=True, seconds=None, cause=None, summary="b serving"),
        ),
    )


@pytest.mark.processes
def test_the_daemon_tells_what_runs_and_what_became_of_the_others(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.profile("target-only", runtime={"env": {"FAKE_VLLM_START_SECONDS": "0.1", "MY_TOKEN": "s3cret"}})
        rig.misbehaving("crasher", fail_with="tool_parser")
        rig.start()
        with rig.client() as client:
            assert client.profiles() == wire.Profiles(past=(), running=None)
            client.switch(wire.SwitchRequest(profile="target-only"))
            rig.wait_for("serving")
            told = client.profiles()
        assert told.running is not None
        assert told.running.profile == "target-only"
        assert told.running.argv[1] == "serve"
        assert dict(told.running.environment)["MY_TOKEN"] == HIDDEN
        (past,) = told.past
        assert past.last is not None
        assert (past.name, past.last.ready, past.usual) == ("target-only", True, past.last.seconds)
        assert rig.arcops("switch", "crasher").code == 7
        rig.wait_for("serving")
        with rig.client() as client:
            pasts = {past.name: past.last for past in client.profiles().past}
        assert pasts["crasher"] is not None
        assert pasts["target-only"] is not None
        assert (pasts["crasher"].ready, pasts["target-only"].ready) == (False, True)
        assert pasts["crasher"].cause
