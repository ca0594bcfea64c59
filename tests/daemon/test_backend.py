"""The one backend: who is signalled, and what counts where nothing can be read."""

import asyncio
import os
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.world import Holder
from arcops.daemon import act
from arcops.daemon import backend as module
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.wiring import Parts, assemble
from arcops.machine import cgroup, process
from arcops.machine.lock import Locks
from arcops.machine.record import LaunchRecord
from arcops.machine.store import Store
from tests.core.simulated import launch

SCOPE = Enclosure(EnclosureKind.SCOPE, "arcops-test-never-made.scope")


@pytest.fixture
def starter() -> "Generator[subprocess.Popen[bytes]]":
    """What systemd-run is while systemd does not answer: a process outside the scope that is to be."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        yield sleeper
        if sleeper.poll() is None:
            sleeper.kill()


def live(folder: Path, keeper: int) -> LiveBackend:
    entry = LaunchRecord(
        launch_id="L1",
        boot_id=process.boot_id(),
        instance="test",
        launch=launch(),
        enclosure=SCOPE,
        status_path=str(folder / "status"),
        log_path=str(folder / "log"),
        spawned_at=0.0,
        spawned_monotonic=0.0,
        keeper=process.identify(keeper),
    )
    return LiveBackend(entry, str(folder / "record"), adopted=True, wake=lambda: None, monotonic=time.monotonic)


@pytest.mark.parametrize("how", ["terminate", "kill"])
@pytest.mark.asyncio
async def test_a_starter_that_hangs_outside_its_scope_is_reached(
    tmp_path: Path, starter: "subprocess.Popen[bytes]", how: str
) -> None:
    backend = live(tmp_path, starter.pid)
    assert backend.look().keeper_alive
    if how == "kill":
        backend.kill_everyone()
    else:
        backend.terminate_everyone()
    assert await asyncio.to_thread(starter.wait, 5) == (-9 if how == "kill" else -15)
    assert not backend.look().keeper_alive
    backend.detach()


@pytest.mark.asyncio
async def test_members_that_cannot_be_read_are_still_those_of_the_last_look(
    tmp_path: Path, starter: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(enclosure: Enclosure, sid: int | None = None) -> tuple[int, ...]:
        return (7, starter.pid)

    def unread(enclosure: Enclosure, sid: int | None = None) -> tuple[int, ...]:
        raise OSError(13, "Permission denied")

    backend = live(tmp_path, starter.pid)
    monkeypatch.setattr(cgroup, "members", two)
    assert backend.look().processes == (7,)
    assert backend.trouble is None
    monkeypatch.setattr(cgroup, "members", unread)
    assert backend.look().processes == (7,)
    assert "Permission denied" in (backend.trouble or "")
    monkeypatch.setattr(cgroup, "members", two)
    backend.look()
    assert backend.trouble is None
    backend.detach()


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    """A daemon that is wired and does not run."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    paths = Paths.of("test", {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(tmp_path / "state")})
    paths.make()
    store = Store.open(str(paths.database))
    yield assemble(paths, store, Clock())
    store.close()


@pytest.mark.asyncio
async def test_of_a_launch_that_forks_for_ever_the_living_and_the_latest_pids_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PIDS", 10)
    backend = live(tmp_path, os.getpid())
    forked = iter(range(100, 1000))

    def members(enclosure: Enclosure, sid: int | None = None) -> tuple[int, ...]:
        return (7, next(forked))

    monkeypatch.setattr(cgroup, "members", members)
    for _ in range(50):
        backend.look()
    assert sorted(backend.ever) == [7, *range(141, 150)]
    backend.detach()


@pytest.mark.asyncio
async def test_a_taken_lock_is_tried_at_every_turn_and_its_holder_is_named_now_and_then(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []

    def name_holders(path: str) -> tuple[Holder, ...]:
        named.append(path)
        return (Holder(1, "init", "root", "the lock"),)

    monkeypatch.setattr(act, "name_holders", name_holders)
    path = str(tmp_path / "cpu.lock")
    other, wanted = Locks(), launch(locks=(path,))
    assert other.take([path]) == ()
    actor, state = parts.actor, parts.loop.state
    for _ in range(5):
        await actor.perform(act.TakeLocks(wanted), state)
        assert [holder.pid for holder in actor.lock_holders] == [1]
    assert named == [path]
    other.release()
    await actor.perform(act.TakeLocks(wanted), state)
    assert actor.lock_holders == ()
    assert actor.locks.held == (path,)
    actor.locks.release()
