"""Reading the configuration anew, and leaving the backend to the next supervisor."""

from dataclasses import replace
from pathlib import Path

import pytest

from arcops import wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.launch import Qualifying
from arcops.daemon.reload import differences
from tests.core.simulated import launch
from tests.daemon.rig import Rig
from tests.helpers import eventually


def test_what_differs_is_said_option_by_option_and_without_secrets() -> None:
    old = replace(
        launch(),
        argv=("vllm", "serve", "m", "--port", "1", "--flag"),
        environment=(("API_TOKEN", "s3cret"), ("A", "1")),
    )
    new = replace(
        old, argv=("vllm", "serve", "m", "--port", "2", "--flag"), environment=(("API_TOKEN", "0ther"), ("A", "1"))
    )
    said = list(differences(old, new))
    assert said == [
        "--port: 1 becomes 2",
        "environment: a value that is not shown",
    ]
    assert list(differences(old, old)) == []
    assert list(differences(old, replace(old, qualification=Qualifying(tools=False)))) == []
    moved = replace(old, argv=("vllm", "serve", "m", "--flag", "--port", "1"))
    assert list(differences(old, moved)) == ["the command line: the same, written in another way"]
    more = replace(old, argv=("vllm", "serve", "m", "--port", "1", "--max-num-seqs", "8"), setup="/env.sh")
    assert list(differences(old, more)) == [
        "--max-num-seqs: 8, which is new",
        "--flag: no longer there; it was on",
        "set-up script: /env.sh, which is new",
    ]
    assert list(differences(None, old)) == ["it could not be launched as it stood before"]


@pytest.mark.processes
def test_a_reload_takes_effect_at_the_next_start_and_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.start()
        assert rig.arcops("reload").code == 0, "nothing is ordered, and site.yaml is valid"
        assert rig.arcops("switch", "target-only").code == 0
        first = rig.status().backend
        assert first is not None
        same = rig.arcops("reload")
        assert (same.code, same.out) == (0, "")
        assert "as it was" in same.err

        rig.profile("target-only", scheduling={"max_num_seqs": "many"})
        bad = rig.arcops("reload")
        assert bad.code == ExitCode.INVALID
        assert "max_num_seqs" in bad.err

        rig.profile("target-only", scheduling={"max_num_seqs": 3})
        changed = rig.arcops("reload")
        assert changed.code == 0
        assert "--max-num-seqs: 4 becomes 3" in changed.out
        still = rig.status().backend
        assert still is not None
        assert still.launch_id == first.launch_id
        assert rig.arcops("switch", "target-only").code == 0, "what runs is not what is ordered now"
        second = rig.status().backend
        assert second is not None
        assert second.launch_id != first.launch_id
        assert b"--max-num-seqs\x003" in Path(f"/proc/{second.pid}/cmdline").read_bytes()


@pytest.mark.processes
def test_a_reload_is_refused_while_an_order_is_under_way(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("slow", start_seconds=60)
        rig.start()
        assert rig.arcops("switch", "slow", "--no-wait").code == 0
        eventually(lambda: rig.phase() == "starting")
        with rig.client() as client, pytest.raises(ArcopsError) as refused:
            client.reload()
        assert refused.value.exit_code == ExitCode.BUSY
        assert rig.arcops("stop").code == 0


@pytest.mark.processes
def test_a_supervisor_that_is_asked_to_keep_its_backend_leaves_it_to_the_next_one(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        served = rig.status().backend
        assert served is not None
        with rig.client() as client:
            assert client.keep_backend() == wire.Kept(seconds=60.0, launch_id=served.launch_id)
        assert rig.end_daemon() == 0
        assert served.pid in rig.backend_pids()
        rig.start()
        adopted = rig.wait_for("serving").backend
        assert adopted is not None
        assert (adopted.launch_id, adopted.adopted) == (served.launch_id, True)
        assert rig.end_daemon() == 0
        assert rig.backend_pids() == [], "asked for once, it holds once"
