"""Who follows what befalls the cards: what is heard is counted once and told once, and what is not heard is said."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arcops.core.cards import incidents
from arcops.core.cards.incidents import TOGETHER, Incident, Kind, Source
from arcops.core.cards.measures import CardReading, Detail
from arcops.core.diagnosis.kernel import KernelLine
from arcops.core.diagnosis.notices import RECOVERY_ACTION
from arcops.core.quantity import Known
from arcops.daemon import card_watch
from arcops.daemon.card_watch import CardWatch
from arcops.daemon.clock import Clock
from arcops.machine.kernel_log import DRIFT
from tests.daemon.waiting import until

CARD, OTHER = "0000:03:00.0", "0000:3d:00.0"
TIMEOUT = (
    f"xe {CARD}: [drm] Tile0: GT0: Timedout job: seqno=1523, lrc_seqno=1523, guc_id=9, flags=0x20 in python [2693]"
)
RESET = f"xe {CARD}: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=9, state=0x29"
WEDGED = f"xe {CARD}: [drm] *ERROR* CRITICAL: Xe has declared device {CARD} as wedged."
SILENT = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")
NO_JOURNAL = ("/nonexistent/journalctl",)


@dataclass
class World:
    """A machine whose kernel says what a test wants, and what was told of it."""

    root: Path
    told: list[tuple[Incident | None, str]] = field(default_factory=list[tuple[Incident | None, str]])
    woken: int = 0
    end: int = -1
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        (self.root / "dev").mkdir()
        (self.root / "sys").mkdir()

    def with_log(self) -> "World":
        os.mkfifo(self.root / "dev/kmsg")
        self.end = os.open(self.root / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    def say(self, *texts: str, ago: float = 0.0) -> None:
        for text in texts:
            os.write(self.end, f"3,1,{(time.monotonic() - ago) * 1e6:.0f},-;{text}\n".encode())

    def dump(self, card: str = CARD) -> None:
        folder = self.root / "sys/class/devcoredump/devcd1"
        folder.mkdir(parents=True)
        (folder / "failing_device").symlink_to(f"../../../pci0000:00/{card}")

    def wake(self) -> None:
        self.woken += 1

    def kinds(self) -> list[Kind | None]:
        return [None if incident is None else incident.kind for incident, _ in self.told]


@asynccontextmanager
async def watching(world: World, journal: tuple[str, ...] = NO_JOURNAL) -> AsyncGenerator[CardWatch]:
    watch = CardWatch(
        Clock(),
        lambda incident, words: world.told.append((incident, words)),
        world.wake,
        dev=str(world.root / "dev"),
        sys=str(world.root / "sys"),
        journal=journal,
    )
    watch.begin()
    try:
        yield watch
    finally:
        watch.close()
        if world.end >= 0:
            os.close(world.end)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def one_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test says at once is one incident, also where the machine stands still for some seconds meanwhile."""
    monkeypatch.setattr(incidents, "TOGETHER", 600.0)


async def a_turn() -> None:
    """Long enough for the past to have ended."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_one_reset_of_some_lines_is_told_once_with_engine_and_process(world: World) -> None:
    async with watching(world.with_log()) as watch:
        await a_turn()
        world.say(TIMEOUT, RESET, RESET)
        await until(lambda: len(world.told) > 0)
        assert world.woken > 0
        (one,) = watch.incidents(CARD)
        assert (one.kind, one.engine, one.pid, one.command, one.past) == (Kind.RESET, "ccs", 2693, "python", False)
        assert (watch.resets(CARD), watch.resets(OTHER), watch.incidents(OTHER)) == (1, 0, ())
        assert abs(one.at - time.monotonic()) < 60
    ((_, words),) = world.told
    assert words.startswith(f"card {CARD}: the driver reset the card or one of its engines (engine ccs, python [2693])")
    assert words.endswith(f"[kernel log: {RESET}]")


@pytest.mark.asyncio
async def test_a_wedge_is_told_at_once_also_where_a_reset_was_told_a_moment_ago(world: World, one_burst: None) -> None:
    async with watching(world.with_log()) as watch:
        await a_turn()
        world.say(RESET)
        await until(lambda: len(world.told) == 1)
        world.say(WEDGED)
        await until(lambda: len(world.told) == 2)
        assert world.kinds() == [Kind.RESET, Kind.WEDGED]
        assert [one.kind for one in watch.incidents(CARD)] == [Kind.WEDGED]
        assert [one.kind for one in watch.befell((OTHER, CARD), world.began - 60)] == [Kind.WEDGED]
        assert watch.befell((CARD,), time.monotonic() + 60) == ()


@pytest.mark.asyncio
async def test_what_was_before_the_daemon_is_counted_and_not_told(world: World) -> None:
    up = time.monotonic()  # of a machine that has just begun as well: nothing was before that
    world.with_log().say(RESET, ago=up * 2 / 3)
    world.say(RESET, WEDGED, ago=up / 3)
    async with watching(world) as watch:
        await until(lambda: len(watch.incidents(CARD)) == 2)
        assert (watch.resets(CARD), world.told, world.woken) == (2, [], 0)
        assert [one.past for one in watch.incidents(CARD)] == [True, True]
        world.say(RESET)
        await until(lambda: len(world.told) == 1)
        assert watch.resets(CARD) == 3


@pytest.mark.asyncio
async def test_a_log_that_is_begun_anew_is_not_counted_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_watch, "AGAIN", 0.01)
    line = f"3,1,{(time.monotonic() - 3 * TOGETHER) * 1e6:.0f},-;{RESET}\n"
    world.with_log()
    os.write(world.end, line.encode())
    async with watching(world) as watch:
        await until(lambda: watch.resets(CARD) == 1)
        os.close(world.end)  # it ends
        await until(lambda: watch.resets(CARD) is None)
        assert "has ended" in watch.watching()
        world.end = os.open(world.root / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(world.end, f"{line}3,1,{time.monotonic() * 1e6:.0f},-;{RESET}\n".encode())
        await until(lambda: watch.resets(CARD) == 2)
        assert [one.past for one in watch.incidents(CARD)] == [True, False]


@pytest.mark.asyncio
async def test_after_a_month_in_which_the_logs_clock_drifted_an_incident_has_its_time_all_the_same(
    world: World,
) -> None:
    began, month = 1000.0, 30 * 86_400.0
    now = [began]
    watch = CardWatch(Clock(monotonic=lambda: now[0]), lambda incident, words: None, world.wake)
    for passed, text in ((0.0, RESET), (month, WEDGED)):
        now[0] = began + passed
        line = KernelLine(began + passed * (1 - 0.8 * DRIFT), text)
        watch._hear(card_watch.Said((line,), past=False))  # pyright: ignore[reportPrivateUsage] - as a watch does
    assert [round(now[0] - one.at) for one in watch.incidents(CARD)] == [month, 0]
    watch.close()


@pytest.mark.asyncio
async def test_lines_that_were_lost_are_said_once(world: World) -> None:
    async with watching(world.with_log()) as watch:
        await a_turn()
        for _ in range(3):
            watch._hear(card_watch.Said((), past=False, lost=True))  # pyright: ignore[reportPrivateUsage] - as a watch does
        assert world.told == [(None, "lines of the kernel's log were lost: it came faster than it could be read")]


@pytest.mark.asyncio
async def test_a_dump_that_is_there_already_is_noticed_and_is_no_reset(world: World) -> None:
    world.with_log().dump()
    async with watching(world) as watch:
        await until(lambda: len(watch.incidents(CARD)) > 0)
        (one,) = watch.incidents(CARD)
        assert (one.kind, one.source, one.past) == (Kind.COREDUMP, Source.DEVCOREDUMP, True)
        assert "/sys/class/devcoredump/devcd1" in one.text
        assert (watch.resets(CARD), world.told) == (0, [])


def uevent(action: str, path: str, **words: str) -> bytes:
    return b"\0".join([f"{action}@{path}".encode(), *(f"{key}={value}".encode() for key, value in words.items())])


@pytest.mark.asyncio
async def test_uevents_tell_of_a_wedge_of_a_dump_and_of_a_card_that_was_brought_back(world: World) -> None:
    path = f"/devices/pci0000:00/{CARD}"
    async with watching(world.with_log()) as watch:
        hear = watch._hear_uevent  # pyright: ignore[reportPrivateUsage] - as the socket does
        hear(uevent("change", f"{path}/drm/card0", SUBSYSTEM="drm", WEDGED="rebind,bus-reset"))
        assert world.kinds() == [Kind.WEDGED]
        hear(uevent("bind", path, SUBSYSTEM="pci", PCI_CLASS="30000", DRIVER="xe"))
        await until(lambda: len(world.told) == 2)
        world.dump(OTHER)
        hear(uevent("add", "/devices/virtual/devcoredump/devcd1", SUBSYSTEM="devcoredump"))
        await until(lambda: len(world.told) == 3)
        hear(None)
        hear(b"libudev\0\xfe")
        assert world.kinds() == [Kind.WEDGED, Kind.RECOVERY, Kind.COREDUMP]
        assert [one.card for one, _ in world.told if one is not None] == [CARD, CARD, OTHER]


@pytest.mark.asyncio
async def test_the_wedge_that_log_and_uevent_tell_of_is_one(world: World, one_burst: None) -> None:
    async with watching(world.with_log()) as watch:
        await a_turn()
        world.say(TIMEOUT, WEDGED)
        await until(lambda: len(world.told) == 1)
        path = f"/devices/pci0000:00/{CARD}/drm/card0"
        watch._hear_uevent(uevent("change", path, SUBSYSTEM="drm", WEDGED="rebind"))  # pyright: ignore[reportPrivateUsage] - as the socket does
        assert len(watch.incidents(CARD)) == 1
        assert len(world.told) == 1


@pytest.mark.asyncio
async def test_how_it_watches_is_said_and_why_it_does_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(hear: object) -> None:
        raise OSError(93, "Protocol not supported")

    monkeypatch.setattr(card_watch, "Uevents", refused)
    async with watching(world) as watch:
        assert watch.watching().startswith("cannot watch, because ")
        for part in ("dev/kmsg: No such file or directory", "dmesg_restrict", "uevents are refused: Protocol not"):
            assert part in watch.watching()
        assert watch.resets(CARD) is None
    monkeypatch.undo()
    os.mkfifo(world.root / "dev/kmsg")
    world.end = os.open(world.root / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    async with watching(world) as watch:
        assert watch.watching().startswith(f"kernel log ({world.root}/dev/kmsg)")


@pytest.mark.asyncio
@pytest.mark.processes
async def test_where_kmsg_may_not_be_read_the_journal_is_followed(world: World) -> None:
    line = f"[ {time.monotonic() + 3600:.6f}] box kernel: {RESET}"
    script = f"import time; print({line!r}, flush=True); time.sleep(600)"
    async with watching(world, (sys.executable, "-I", "-S", "-c", script)) as watch:
        await until(lambda: watch.resets(CARD) == 1, within=60.0)
        assert watch.watching().startswith("kernel log (journalctl)")


@pytest.mark.asyncio
@pytest.mark.processes
async def test_a_journal_that_shows_nothing_is_not_taken_for_a_quiet_one(world: World) -> None:
    async with watching(world, SILENT) as watch:
        assert watch.resets(CARD) is None
        assert "the journal has shown this user nothing of the kernel's log" in watch.watching()


@pytest.mark.asyncio
async def test_a_card_whose_driver_wants_a_reset_is_given_up_until_it_wants_none(world: World) -> None:
    def reading(wanted: str) -> CardReading:
        return CardReading(CARD, time.monotonic(), details=(Detail(RECOVERY_ACTION, Known(wanted, 1.0), "NVML"),))

    async with watching(world.with_log()) as watch:
        for wanted in ("none", "none", "reset of the card", "reset of the card", "none"):
            watch.read(reading(wanted))
        watch.read(CardReading(CARD, time.monotonic()))
        await until(lambda: len(world.told) == 2)
    assert world.kinds() == [Kind.WEDGED, Kind.RECOVERY]
    assert {one.source for one, _ in world.told if one is not None} == {Source.NVML}


@pytest.mark.asyncio
async def test_a_flood_is_bounded_in_what_is_kept_and_told(world: World, one_burst: None) -> None:
    async with watching(world.with_log()) as watch:
        await a_turn()
        for _ in range(200):
            world.say(*[RESET] * 5)
            await asyncio.sleep(0)
        await until(lambda: len(world.told) > 0)
        assert len(watch.incidents(CARD)) <= 2, "all of it within some seconds"
    assert len(world.told) <= 3
