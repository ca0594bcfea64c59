"""Real vLLM leaves sockets behind whenever it ends, and more when it is killed; under arcops nothing stays."""

import os
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, real_rig
from tests.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

GONE_WITHIN = 120.0
"""Seconds; after the death of its engine the API server alone takes five."""


@pytest.fixture(scope="module")
def temporary() -> Generator[Path]:
    """The temporary folder of the daemon: nobody else makes anything there."""
    with tempfile.TemporaryDirectory(prefix="left-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def arcops(tmp_path_factory: pytest.TempPathFactory, temporary: Path) -> Generator[Rig]:
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        rig.environment = {"TMPDIR": str(temporary)}
        rig.profile("watched", extends="demo-target-only", restart={"first_delay": "60s"})
        yield rig.start()


def stop(rig: Rig) -> None:
    assert rig.arcops("stop", within=GONE_WITHIN).code == 0


def kill_all(rig: Rig) -> None:
    for pid in rig.backend_pids():
        os.kill(pid, signal.SIGKILL)


def kill_the_engine(rig: Rig) -> None:
    engine = next(p for p in rig.backend_pids() if Path(f"/proc/{p}/comm").read_text().startswith("VLLM::EngineCor"))
    os.kill(engine, signal.SIGKILL)


@pytest.mark.parametrize("end", [stop, kill_all, kill_the_engine], ids=["stopped", "killed", "engine killed"])
def test_nothing_of_real_vllm_stays_on_the_file_system(
    arcops: Rig, temporary: Path, end: Callable[[Rig], None]
) -> None:
    switched = arcops.arcops("switch", "watched", within=START_WITHIN)
    assert switched.code == 0, switched.err
    backend = arcops.status().backend
    assert backend is not None
    folder = arcops.paths.keeper_dir / backend.launch_id
    sockets = [path for path in folder.iterdir() if path.is_socket()]
    assert len(sockets) >= 5, "vLLM makes its sockets elsewhere now"
    assert [path.name[:10] for path in Path(os.readlink(folder / "temporary")).iterdir()] == ["vllm_dist_"]
    # Some of what is made at the start vLLM itself removes.
    eventually(lambda: {path.name[:4] for path in noted(folder)} == {"psm_", "sem."}, within=30.0, why="not noted")
    shared = noted(folder)
    end(arcops)
    eventually(
        lambda: not left(arcops, temporary, shared), within=GONE_WITHIN, why=str(left(arcops, temporary, shared))
    )
    stop(arcops)


def noted(folder: Path) -> list[Path]:
    """The shared memory that is noted, and there."""
    note = folder / "shared-memory"
    lines = note.read_text().splitlines() if note.exists() else []
    return [path for path in (Path(line.partition(" ")[2]) for line in lines) if path.exists()]


def left(rig: Rig, temporary: Path, shared: list[Path]) -> list[str]:
    """Everything that the launch has made and that is there still. torch's cache of what it compiled is to stay."""
    folders = [path for path in rig.paths.keeper_dir.iterdir() if path.is_dir()]
    files = [path for path in temporary.iterdir() if not path.name.startswith("torchinductor_")]
    return [str(path) for path in (*folders, *files, *shared) if os.path.lexists(path)]
