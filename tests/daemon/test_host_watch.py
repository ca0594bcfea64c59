"""A backend under which the host's memory runs out unseen is told of once, and again when it has doubled."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from arcops.core.host_memory import EVERY, Sample, sample_of
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.daemon import host_watch
from arcops.daemon.clock import Clock
from arcops.daemon.host_watch import SETTLED_AFTER, HostWatch, Seen
from arcops.machine import host

GIB = 1024**3


def silent(words: str, launch_id: str) -> None:
    """Nobody wants to know."""


class Machine:
    """A host whose pinned memory grows by so much an hour, and a backend in some phase; its time is the test's."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pinned, self.per_hour = 2.0 * GIB, 0.0
        self.phase, self.launch_id, self.pids = Phase.SERVING, "L1", (7, 8)
        self.unreadable = False
        self.told: list[tuple[str, str]] = []
        self.measured = 0
        self.reader = threading.current_thread()
        self.watch = HostWatch(
            Clock(monotonic=lambda: self.now),
            self.look,
            lambda words, launch_id: self.told.append((words, launch_id)),
            self.measure,
        )

    def look(self) -> Seen:
        return Seen(self.phase, self.launch_id or None, self.pids, Known(3, self.now))

    def measure(self, at: float, pids: Sequence[int], load: float | None) -> Sample | None:
        self.measured += 1
        self.reader = threading.current_thread()
        if self.unreadable:
            raise PermissionError("no /proc here")
        assert (tuple(pids), load) == (self.pids, 3.0)
        free = int(40 * GIB - self.pinned)
        meminfo = {"MemTotal": 64 * GIB, "MemFree": free, "MemAvailable": free, "AnonPages": 24 * GIB}
        return sample_of(at, meminfo, 0, 6 * GIB, load)

    async def go_on(self, hours: float) -> None:
        for _ in range(int(hours * 3600 / EVERY)):
            await self.watch.sample()
            # Time flies here, and not for a thread that is done and yet to end: too many of them would cost samples.
            if self.reader is not threading.current_thread():
                self.reader.join()
            self.now += EVERY
            self.pinned += self.per_hour * EVERY / 3600


@pytest.mark.asyncio
async def test_memory_that_a_driver_pins_is_told_with_its_pace_and_what_helps() -> None:
    machine = Machine()
    machine.per_hour = 1.5 * GIB
    await machine.go_on(0.65)
    ((words, launch_id),) = machine.told
    assert launch_id == "L1"
    assert "grows by 1,536 MiB an hour" in words
    assert "`arcops restart`" in words
    (trouble,) = machine.watch.troubles
    assert trouble.startswith("host memory that no process shows")


@pytest.mark.asyncio
async def test_it_is_told_again_only_when_it_has_doubled_and_the_trouble_keeps_its_figures_new() -> None:
    machine = Machine()
    machine.per_hour = 2.0 * GIB
    await machine.go_on(0.7)
    assert len(machine.told) == 1
    before = machine.watch.troubles
    await machine.go_on(0.3)
    assert len(machine.told) == 1
    assert machine.watch.troubles != before
    await machine.go_on(0.5)
    assert len(machine.told) == 2


@pytest.mark.asyncio
async def test_a_new_launch_begins_anew_and_its_trouble_is_its_own() -> None:
    machine = Machine()
    machine.per_hour = 2.0 * GIB
    await machine.go_on(0.7)
    assert machine.watch.troubles
    machine.launch_id = "L2"
    await machine.go_on(0.1)
    assert machine.watch.troubles == ()
    await machine.go_on(0.6)
    assert [launch_id for _, launch_id in machine.told] == ["L1", "L2"]


@pytest.mark.asyncio
async def test_the_trouble_ends_when_it_does_not_grow_any_more() -> None:
    machine = Machine()
    machine.per_hour = 2.0 * GIB
    await machine.go_on(0.7)
    machine.per_hour = 0.0
    await machine.go_on(0.6)
    machine.pinned = 2.0 * GIB
    await machine.go_on(0.1)
    assert machine.watch.troubles == ()
    assert len(machine.told) == 1


@pytest.mark.asyncio
async def test_while_nothing_serves_nothing_is_read() -> None:
    machine = Machine()
    for phase in set(Phase) - host_watch.WATCHED:
        machine.phase = phase
        await machine.go_on(0.05)
    machine.launch_id, machine.phase = "", Phase.STOPPED
    await machine.go_on(0.05)
    assert (machine.measured, machine.told, machine.watch.troubles) == (0, [], ())


@pytest.mark.asyncio
async def test_what_the_first_minutes_pin_is_not_counted() -> None:
    machine = Machine()
    machine.per_hour = 40.0 * GIB
    await machine.go_on(SETTLED_AFTER / 3600)
    assert machine.measured == 0
    machine.per_hour = 0.0
    await machine.go_on(0.8)
    assert (machine.told, machine.measured > 0) == ([], True)


@pytest.mark.asyncio
async def test_a_doubt_that_passes_is_no_new_launch() -> None:
    machine = Machine()
    machine.per_hour = 2.0 * GIB
    await machine.go_on(0.4)
    machine.phase = Phase.SUSPECT
    await machine.go_on(0.05)
    machine.phase = Phase.SERVING
    await machine.go_on(0.3)
    assert len(machine.told) == 1


@pytest.mark.asyncio
async def test_a_host_that_cannot_be_read_is_no_trouble_of_its_own_and_no_leak() -> None:
    machine = Machine()
    machine.unreadable, machine.per_hour = True, 5.0 * GIB
    await machine.go_on(0.7)
    assert (machine.told, machine.watch.troubles) == ([], ())


@pytest.mark.asyncio
async def test_a_reading_that_hangs_holds_nobody_and_is_not_begun_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "READ_WITHIN", 0.05)
    begun, hangs = [0], threading.Event()

    def measure(at: float, pids: Sequence[int], load: float | None) -> Sample | None:
        del at, pids, load
        begun[0] += 1
        hangs.wait(60.0)
        return None

    seen = Seen(Phase.SERVING, "L1", (), Unknown("vLLM does not say", 0.0))
    now = [0.0]
    watch = HostWatch(Clock(monotonic=lambda: now[0]), lambda: seen, silent, measure)
    await watch.sample()
    now[0] = SETTLED_AFTER
    try:
        async with asyncio.timeout(30.0):
            for _ in range(5):
                await watch.sample()
    finally:
        hangs.set()
    assert begun == [host_watch.AT_ONCE]


@pytest.mark.asyncio
async def test_a_fault_of_ours_costs_a_sample_and_not_the_watch() -> None:
    calls: list[int] = []
    again = asyncio.Event()

    def look() -> Seen:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        again.set()
        return Seen(Phase.STOPPED, None, (), Unknown("", 0.0))

    watch = HostWatch(Clock(), look, silent, every=0.01)
    watch.begin()
    try:
        async with asyncio.timeout(60.0):
            await again.wait()
    finally:
        watch.close()


def test_this_host_is_read_for_real() -> None:
    found = host_watch.read(5.0, [1], None)
    assert found is not None
    assert 0 < found.available <= found.total
    assert 0 <= found.unnamed < found.total


MEMINFO = """MemTotal:       65536000 kB
MemFree:\t1024 kB
Cached:         12 kB
HugePages_Total:     512
Odd line
Negative:       -5 kB
Huge:           many kB
Empty:
"""


def test_meminfo_is_read_by_its_names_whatever_else_stands_there(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert host.meminfo(str(tmp_path)) == {"MemTotal": 65536000 * 1024, "MemFree": 1024 * 1024, "Cached": 12 * 1024}


def test_what_zfs_and_zram_hold_is_known_and_nothing_is_where_they_are_not(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    assert host.held_elsewhere(str(proc), str(sys)) == 0
    (proc / "spl/kstat/zfs").mkdir(parents=True)
    (proc / "spl/kstat/zfs/arcstats").write_text("13 1 0x01\nname type data\nhits 4 99\nsize 4 5000000\nc 4 x\n")
    for name, text in (("zram0", "4096 74 12288 0 12288 0 0 0 0\n"), ("zram1", "\n"), ("sda", "1 2 3\n")):
        (sys / "block" / name).mkdir(parents=True)
        (sys / "block" / name / "mm_stat").write_text(text)
    assert host.held_elsewhere(str(proc), str(sys)) == 5_012_288


def test_the_resident_memory_of_processes_is_added_up_and_nobody_readable_is_unknown(tmp_path: Path) -> None:
    for pid, text in ((5, "900 100 3 1 0 5 0"), (6, "1 x"), (7, "")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "statm").write_text(text)
    page = os.sysconf("SC_PAGE_SIZE")
    assert host.resident([5, 6, 7, 8], str(tmp_path)) == 100 * page
    assert host.resident([6, 8], str(tmp_path)) is None
    assert host.resident([], str(tmp_path)) is None
