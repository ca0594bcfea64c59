"""Nothing of a launch stays on the file system, however it ends: no sockets, temporary files or shared memory."""

import os
import re
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.daemon.after_stop import Sweep
from arcops.machine import launch_folder, record
from arcops.machine.process import boot_id
from arcops.machine.record import LaunchRecord
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

SHARED = Path("/dev/shm")
SOCKETS = 7
"""What the fake makes, as real vLLM does."""


def folder_of(rig: Rig) -> Path:
    backend = rig.status().backend
    assert backend is not None
    return rig.paths.keeper_dir / backend.launch_id


def temporary_of(folder: Path) -> Path:
    return Path(os.readlink(folder / "temporary"))


def noted(folder: Path) -> list[Path]:
    note = folder / "shared-memory"
    return [Path(line.partition(" ")[2]) for line in note.read_text().splitlines()] if note.exists() else []


def serving(rig: Rig, profile: str = "target-only") -> tuple[Path, list[Path]]:
    """A backend that serves with all its belongings; its folder, and what has to be gone when it is."""
    assert rig.arcops("switch", profile).code == 0
    folder = folder_of(rig)
    sockets = [path for path in folder.iterdir() if path.is_socket()]
    assert len(sockets) == SOCKETS
    temporary = temporary_of(folder)
    assert re.fullmatch(r"vllm_dist_[0-9a-f]{32}", next(temporary.iterdir()).name)
    eventually(lambda: len(noted(folder)) == 2, why="its shared memory is not noted")
    shared = noted(folder)
    assert [path.name[:4] for path in sorted(shared)] == ["psm_", "sem."]
    assert all(path.exists() for path in shared)
    return folder, [folder, temporary, *shared]


def gone(things: list[Path]) -> bool:
    return not any(os.path.lexists(path) for path in things)


def kill_all(rig: Rig) -> None:
    for pid in rig.backend_pids():
        os.kill(pid, signal.SIGKILL)


def stop(rig: Rig) -> None:
    assert rig.arcops("stop").code == 0


def kill_the_engine(rig: Rig) -> None:
    rig.misbehave(kill_engine=True)


@pytest.mark.parametrize("end", [stop, kill_all, kill_the_engine], ids=["stopped", "killed", "engine killed"])
def test_whatever_ends_a_launch_takes_its_belongings_with_it(tmp_path: Path, end: Callable[[Rig], None]) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("shared", shared_memory=1)
        rig.start()
        folder, things = serving(rig, "shared")
        end(rig)
        eventually(lambda: gone(things), why=f"left: {[str(one) for one in things if os.path.lexists(one)]}")
        if end is not stop:
            rig.wait_for("serving")
            assert folder_of(rig) != folder


def test_an_adopted_backend_keeps_its_belongings_and_loses_them_at_its_end(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("shared", shared_memory=1)
        rig.start()
        folder, things = serving(rig, "shared")
        rig.kill_daemon()
        rig.start()
        rig.wait_for("serving")
        assert folder_of(rig) == folder
        assert len([path for path in folder.iterdir() if path.is_socket()]) == SOCKETS
        kill_all(rig)
        eventually(lambda: gone(things))


def test_a_launch_that_ended_without_a_supervisor_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("shared", shared_memory=1)
        rig.start()
        _, things = serving(rig, "shared")
        pids = rig.backend_pids()
        rig.kill_daemon()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        rig.start().wait_for("serving")
        eventually(lambda: gone(things))


def test_what_a_launch_left_of_which_no_record_speaks_is_swept(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("shared", shared_memory=1)
        rig.start()
        _, things = serving(rig, "shared")
        pids = rig.backend_pids()
        rig.kill_daemon()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        rig.paths.record.unlink()
        rig.start().wait_for("serving")
        eventually(lambda: gone(things))
        with rig.client() as client:
            told = [event.reason for event in client.events(0).events if "had left were removed" in event.reason]
        assert len(told) == 1


def test_what_a_living_stranger_has_a_socket_in_is_left_alone(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.paths.make()
        folder = rig.paths.keeper_dir / "20260101000000-abcd"
        dead = rig.paths.keeper_dir / "20260101000000-dead"
        for one in (folder, dead):
            one.mkdir()
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder / "s"))
            rig.start()
            eventually(lambda: not dead.exists())
            assert folder.exists()


def test_the_sweep_after_a_stop_takes_the_belongings_too(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("shared", shared_memory=1, sigterm_deaf=1)
        rig.start()
        _, things = serving(rig, "shared")
        rig.kill_daemon()
        found = record.read(str(rig.paths.record), boot_id())
        assert isinstance(found, LaunchRecord)
        assert "were ended" in Sweep(found, rig.paths).run()
        assert gone(things)


def test_a_profile_that_says_where_its_sockets_and_temporary_files_go_is_left_alone(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig, tempfile.TemporaryDirectory(prefix="own-") as own:
        rig.profile(
            "own", extends="target-only", runtime={"env": {launch_folder.SOCKETS: own, launch_folder.TEMPORARY: own}}
        )
        rig.start()
        assert rig.arcops("switch", "own").code == 0
        folder = folder_of(rig)
        assert list(folder.iterdir()) == []
        assert len([path for path in Path(own).iterdir() if path.is_socket()]) == SOCKETS
        stop(rig)
        assert len([path for path in Path(own).iterdir() if path.is_socket()]) == SOCKETS
        eventually(lambda: not folder.exists())


def test_where_the_runtime_directory_has_no_room_for_a_socket_the_temporary_folder_has(tmp_path: Path) -> None:
    with Rig(tmp_path, instance="a-name-as-long-as-one-can-be-12") as rig:
        if launch_folder._has_room(str(rig.paths.keeper_dir / "20260101000000-abcd")):  # pyright: ignore[reportPrivateUsage]
            pytest.skip("the runtime directory is short")
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        folder = folder_of(rig)
        temporary = temporary_of(folder)
        assert len([path for path in temporary.iterdir() if path.is_socket()]) == SOCKETS
        assert "would have more than 107 bytes in its path" in rig.daemon_log()
        stop(rig)
        eventually(lambda: gone([folder, temporary]))
