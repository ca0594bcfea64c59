"""The numbers' past on a disk that is full, hangs, or holds what makes no sense: nobody waits, and it is said."""

import asyncio
import itertools
import threading
from pathlib import Path

import pytest

from arcops import wire
from arcops.daemon import history as module
from arcops.daemon.aside import Aside
from arcops.daemon.samples import Samples
from arcops.machine.database import StoreError
from arcops.machine.sample_store import Batch, Minute, SampleStore, Second
from tests.daemon.historic import EPOCH, Machine, patient_machine, tokens, told
from tests.helpers import eventually


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return patient_machine(tmp_path, monkeypatch)


class Disk:
    """A disk that can be full, or hang."""

    def __init__(self) -> None:
        self.is_full = False
        self.moves = threading.Event()
        self.moves.set()
        self.batches = itertools.count()
        self.begun = 0

    def open(self, path: str) -> SampleStore:
        disk, store = self, SampleStore.open(path)
        write = store.write

        def perhaps(batch: Batch) -> None:
            disk.begun += 1
            disk.moves.wait()
            if disk.is_full:
                raise StoreError("database or disk is full", may_pass=True)
            write(batch)

        store.write = perhaps
        return store


@pytest.mark.asyncio
async def test_a_full_disk_is_told_once_costs_no_point_and_is_forgotten_when_there_is_room(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = Disk()
    machine.store = disk.open
    history = await machine.started()
    disk.is_full = True
    for _ in range(4):
        machine.scrapes(history, 61)
        await history.write()
    (trouble,) = history.troubles
    assert "database or disk is full" in trouble
    assert capsys.readouterr().out.count("disk is full") == 1, "logged once, not with every attempt"
    assert tokens(await told(machine, history, 60.0)) == 243 * 7.0
    disk.is_full = False
    await history.write()
    assert history.troubles == ()
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 1.0)) == tokens(await told(machine, history, 60.0)) == 243 * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_holds_nobody_up_and_what_it_takes_in_the_end_is_written_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    machine.store = disk.open
    monkeypatch.setattr(module, "DISK_WITHIN", 1.0)
    history = await machine.started()
    machine.scrapes(history, 10)
    disk.moves.clear()
    for _ in range(5):
        await history.write()
        machine.scrapes(history, 10)
    assert disk.begun == 1, "no second one behind one that hangs"
    assert "the disk does not answer" in history.troubles[0]
    assert tokens(await told(machine, history, 1.0)) == 59 * 7.0
    disk.moves.set()
    while history.troubles:
        await asyncio.sleep(0.01)
        await history.write()
    await history.write()
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 1.0)) == tokens(await told(machine, history, 60.0)) == 59 * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_at_the_start_is_waited_for_briefly_and_joined_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await machine.started()
    machine.scrapes(first, 100)
    await first.close()
    opens = threading.Event()

    def late(path: str) -> SampleStore:
        opens.wait()
        return SampleStore.open(path)

    monkeypatch.setattr(module, "BRIEFLY", 1.0)
    machine.store = late
    history = await machine.started()
    assert len(machine.resumed) == 1
    machine.scrapes(history, 30)
    page = await Samples(history, machine.clock).page(0.0, 1e11, 60.0)
    assert page.absent is not None
    assert sum(point.seconds for point in page.points) == 29.0, "what is in memory is told"
    opens.set()
    while len(machine.resumed) < 2:
        await asyncio.sleep(0.01)
        await history.write()
    await history.write()
    for step in (1.0, 60.0):
        assert tokens(await told(machine, history, step)) == (99 + 29) * 7.0
    await history.close()
    history = await machine.started()
    assert tokens(await told(machine, history, 60.0)) == (99 + 29) * 7.0
    await history.close()


@pytest.mark.asyncio
async def test_a_disk_that_hangs_at_the_end_does_not_keep_the_daemon(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    machine.store = disk.open
    monkeypatch.setattr(module, "BRIEFLY", 0.05)
    history = await machine.started()
    machine.scrapes(history, 10)
    disk.moves.clear()
    async with asyncio.timeout(60.0):
        await history.close()
    disk.moves.set()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "aside"])


@pytest.mark.asyncio
async def test_what_makes_no_sense_on_the_disk_is_left_out(machine: Machine) -> None:
    history = await machine.started()
    machine.scrapes(history, 3)
    await history.close()
    store = SampleStore.open(str(machine.path))
    store.write(Batch([Second(EPOCH, b"\xc1")], [Minute(EPOCH, 1, b"")], b"rubbish", 1))
    store.close()
    history = await machine.started()
    assert len(await told(machine, history, 1.0)) == 3
    assert await told(machine, history, 60.0) == []
    await history.close()


@pytest.mark.asyncio
async def test_a_read_that_takes_too_long_gives_what_is_in_memory_and_says_what_is_not_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()

    def hanging(*_: float) -> tuple[Minute, ...]:
        hangs.wait()
        return ()

    history = await machine.started()
    machine.scrapes(history, 10)
    monkeypatch.setattr(history, "minutes", hanging)
    samples = Samples(history, machine.clock)
    monkeypatch.setattr(samples, "_aside", Aside[wire.Samples](0.05))
    page = await samples.page(0.0, 1e11, 60.0)
    assert page.absent is not None
    assert "cannot be read" in page.absent
    assert tokens(page.points) == 9 * 7.0
    hangs.set()
    await history.close()
