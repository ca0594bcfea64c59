"""`arcops restart --fresh-caches`: one launch with empty compile caches of its own, that are gone with it."""

from pathlib import Path

import pytest

from arcops import wire
from arcops.machine.launch_folder import CACHES
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def variables(rig: Rig) -> dict[str, str]:
    """The environment of the backend that runs."""
    backend = rig.status().backend
    assert backend is not None
    words = Path(f"/proc/{backend.pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def launch_id(status: wire.Status) -> str | None:
    return None if status.backend is None else status.backend.launch_id


def fresh(rig: Rig) -> bool:
    backend = rig.status().backend
    assert backend is not None
    return backend.fresh_caches


def caches(rig: Rig) -> list[Path]:
    """The folders that were made for its caches; none where it has those that it would have anyway."""
    launch = rig.status().backend
    assert launch is not None
    return [Path(place) for name, place in variables(rig).items() if name in CACHES and launch.launch_id in place]


def restart(rig: Rig, *, fresh_caches: bool) -> wire.Accepted:
    """In order, to its end."""
    with rig.client() as client:
        accepted = client.restart(wire.RestartRequest(drain=0.0, fresh_caches=fresh_caches))
    assert accepted.order_id is not None
    number = accepted.order_id
    eventually(
        lambda: any(one.order_id == number and one.exit_code == 0 for one in rig.status().settled),
        within=60.0,
        why=f"order {number} comes to no good end",
    )
    return accepted


def test_one_launch_has_them_and_the_next_is_as_ever(tmp_path: Path) -> None:
    own = tmp_path / "own"
    with Rig(tmp_path) as rig:
        rig.profile("cached", extends="target-only", runtime={"env": {"VLLM_CACHE_ROOT": str(own)}})
        rig.start()
        assert rig.arcops("switch", "cached").code == 0
        assert caches(rig) == []
        assert not fresh(rig)

        told = rig.arcops("restart", "--now", "--fresh-caches")
        assert told.code == 0, told.err
        assert "what the profile itself sets for VLLM_CACHE_ROOT does not count then" in told.err
        assert fresh(rig)
        assert "fresh caches" in rig.arcops("status").out
        made = caches(rig)
        assert len(made) == len(CACHES)
        assert all(list(place.iterdir()) == [] for place in made)
        (made[0] / "compiled").touch()

        # A crash: the launch that follows by itself is an ordinary one.
        first = launch_id(rig.status())
        rig.misbehave(kill_engine=True)
        eventually(lambda: launch_id(rig.wait_for("serving")) != first, within=60.0, why="it does not come back")
        assert not fresh(rig)
        assert caches(rig) == []
        assert variables(rig)["VLLM_CACHE_ROOT"] == str(own)
        eventually(lambda: not any(place.exists() for place in made), why="the caches outlast their launch")


def test_a_supervisor_that_dies_leaves_them_to_the_next_which_removes_them_with_the_launch(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        accepted = restart(rig, fresh_caches=True)
        assert accepted.plan == ("target-only is started with empty compile caches, which go with that launch",)
        made = caches(rig)
        rig.kill_daemon()
        rig.start()
        assert rig.wait_for("serving").backend is not None
        assert fresh(rig)
        assert caches(rig) == made
        assert restart(rig, fresh_caches=False).plan == ()
        assert not fresh(rig)
        eventually(lambda: not any(place.exists() for place in made), why="the caches outlast their launch")
