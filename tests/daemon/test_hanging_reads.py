"""A disk that never answers: the supervisor says so where it can, and ends when it is told to."""

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.daemon import premises as module
from arcops.daemon.aside import Aside
from arcops.daemon.premises import Premises
from arcops.machine.store import Store
from tests.daemon.rig import Rig
from tests.helpers import eventually

ENDS_WITHIN = 20.0
"""Seconds; it takes some tenths of one, and no limit of a reading is as short."""

TAMPERED = """
from arcops.config import Config
from arcops.daemon import main, premises
from arcops.machine import launch_folder

def hang(*_, **__):
    open("{pipe}.begun", "w").close()
    open("{pipe}")  # nobody ever opens it to write

{what} = hang
main.run()
"""


@dataclass(slots=True)
class HangingRig(Rig):
    """A rig whose daemon opens a pipe in place of something that it reads."""

    what: str = ""

    def daemon_command(self) -> list[str]:
        pipe = self.root / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        return [sys.executable, "-c", TAMPERED.replace("{what}", self.what).replace("{pipe}", str(pipe))]


@pytest.mark.processes
@pytest.mark.parametrize("what", ["premises.Premises._mend_directories", "Config.load"])
def test_a_reading_that_never_returns_does_not_keep_the_daemon_from_ending(tmp_path: Path, what: str) -> None:
    with HangingRig(tmp_path, what=what) as rig:
        rig.start()
        client = subprocess.Popen(
            [sys.executable, "-m", "arcops.cli.main", "switch", "target-only"],
            env=rig.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually((rig.root / "pipe.begun").exists, within=30.0, why="nothing is read")
            assert rig.end_daemon(within=ENDS_WITHIN) == 0
        finally:
            client.kill()
            client.wait()


@pytest.mark.processes
def test_what_a_launch_has_left_on_a_disk_that_hangs_does_not_keep_the_loop_from_turning(tmp_path: Path) -> None:
    with HangingRig(tmp_path, what="launch_folder.remove") as rig:
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        backend = rig.status().backend
        assert backend is not None
        assert rig.arcops("stop").code == 0
        assert (tmp_path / "pipe.begun").exists()
        assert (rig.paths.keeper_dir / backend.launch_id).exists()
        assert rig.arcops("switch", "target-only").code == 0
        assert rig.arcops("stop").code == 0
        assert rig.end_daemon(ENDS_WITHIN) == 0


@pytest.mark.processes
def test_a_setup_script_that_never_returns_ends_with_the_daemon(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        script, pipe = rig.root / "setup.sh", rig.root / "pipe"
        os.mkfifo(pipe)
        script.write_text(f"read -r line < {pipe}\n")
        rig.profile("prepared", extends="target-only", runtime={"setup": str(script)})
        rig.start()
        client = subprocess.Popen(
            [sys.executable, "-m", "arcops.cli.main", "switch", "prepared"],
            env=rig.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: sourcing(script), within=30.0, why="the script is not run")
            assert rig.end_daemon(within=ENDS_WITHIN) == 0
            eventually(lambda: not sourcing(script), why="the script goes on without its supervisor")
        finally:
            client.kill()
            client.wait()


def sourcing(script: Path) -> list[int]:
    """Pids of the shells that were told to source it."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"bash" and bytes(script) in words:
                found.append(int(entry.name))
    return found


@pytest.mark.asyncio
async def test_files_that_cannot_be_looked_at_are_told_and_one_look_at_a_time_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_WITHIN", 0.05)
    never, looks = threading.Event(), list[int]()
    paths = Paths.of("main", {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path / "state")})
    paths.make()
    store = Store.open(str(paths.database))

    def hang() -> None:
        looks.append(1)
        never.wait()

    monkeypatch.setattr(store, "tend", hang)
    kept = Premises(paths, store, Nobody(), Nobody())  # pyright: ignore[reportArgumentType] - asked for two words only
    try:
        for trouble in ("no answer within 0 s", "an earlier attempt has not come back"):
            await kept.tend()
            assert kept.troubles == (f"what the supervisor keeps on disk cannot be looked at: {trouble}",)
        assert looks == [1]
        never.set()
        eventually(lambda: not [one for one in threading.enumerate() if one.name == "aside"])
        monkeypatch.setattr(store, "tend", lambda: None)
        await kept.tend()
        assert kept.troubles == ()
    finally:
        never.set()
        store.close()


class Nobody:
    """Neither a backend nor a server that needs anything."""

    live = None

    @property
    def locks(self) -> "Nobody":
        return self

    def renew(self) -> None:
        return None


def test_the_daemon_uses_no_thread_that_its_end_would_wait_for() -> None:
    """asyncio's own threads are joined at the end, whatever they hang in."""
    folder = Path(sys.modules[Aside.__module__].__file__ or "").parent
    used = [
        path.name
        for path in folder.glob("*.py")
        if re.search(r"asyncio\.to_thread\(|run_in_executor", path.read_text())
    ]
    assert used == []
