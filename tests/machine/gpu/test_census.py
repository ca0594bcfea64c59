"""Who holds a card, in a planted /proc: a table of situations with the right answer to each."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from arcops.core.cards.attribution import unattributed
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import READERS, CardIdentity
from arcops.machine.gpu.base import Roots
from arcops.machine.gpu.census import TAKERS, readings, take
from arcops.machine.gpu.drm import DrmCensus
from tests.machine.gpu.counting import ARC, NOT_SAID, OTHER, census
from tests.trees.procfs import B70, MIB, SECOND, Client, Fails, Open, Process, Procfs, shared_with


@dataclass(frozen=True)
class Situation:
    """Who is there, and what has to be said of it. Sizes in MiB; `holds` are pids, size and whose by client."""

    name: str
    processes: tuple[Process, ...]
    holds: dict[int, tuple[tuple[int, ...], int | None, bool]]
    idle: tuple[int, ...] = ()
    unreadable: int = 0
    used: int | None = None
    unattributed: int | None = None
    ours: tuple[int, ...] = ()
    among: tuple[int, ...] | None = None
    init: bool = True
    notes: int | None = None
    """How many; None where those for what is unreadable are all."""


WORKER = Client(41, resident=30171)
IDLE = Client(42)
ENGINE = Process(100, (Open(WORKER),), command="VLLM::EngineCor")
NO_SIZES = "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\n"

SITUATIONS = [
    Situation("nobody has it open", (Process(100),), {}, used=40, unattributed=40),
    Situation("one holder", (ENGINE,), {41: ((100,), 30171, False)}, used=30211, unattributed=40),
    Situation("one of ours", (ENGINE,), {41: ((100,), 30171, True)}, ours=(100,), used=30171, unattributed=0),
    Situation(
        "one client by two descriptors of one process",
        (replace(ENGINE, has=(Open(WORKER, 5), Open(WORKER, 6))),),
        {41: ((100,), 30171, False)},
        used=30171,
        unattributed=0,
    ),
    Situation(
        "a fork shares its parent's client",
        (ENGINE, shared_with(ENGINE, 101)),
        {41: ((100, 101), 30171, False)},
        used=30171,
        unattributed=0,
    ),
    Situation(
        "our child has what its parent, a stranger by now, opened",
        (ENGINE, shared_with(ENGINE, 101)),
        {41: ((100, 101), 30171, True)},
        ours=(101,),
    ),
    Situation(
        "a descriptor was passed on to a process of another user",
        (ENGINE, replace(shared_with(ENGINE, 300), uid=0, command="Xorg")),
        {41: ((100, 300), 30171, False)},
    ),
    Situation(
        "two clients of one process",
        (replace(ENGINE, has=(Open(Client(1, 10), 5), Open(Client(2, 20), 6))),),
        {2: ((100,), 20, False), 1: ((100,), 10, False)},
        used=30,
        unattributed=0,
    ),
    Situation("open, and no memory there", (Process(100, (Open(IDLE),)),), {}, idle=(42,), used=0, unattributed=0),
    Situation(
        "Level Zero opens every card: memory on the other one is none here",
        (Process(100, (Open(Client(41, 9000, card=SECOND), 5), Open(IDLE, 6))),),
        {},
        idle=(42,),
        used=0,
        unattributed=0,
    ),
    Situation(
        "the same number on another card is another client",
        (ENGINE, Process(200, (Open(Client(41, 5, card=SECOND)),))),
        {41: ((100,), 30171, False)},
    ),
    Situation(
        "evicted memory is held all the same",
        (Process(100, (Open(Client(7, 0, total=512)),)),),
        {7: ((100,), 0, False)},
        used=100,
        unattributed=100,
    ),
    Situation(
        "a driver that does not say how much: held, and what is nobody's is unknown",
        (Process(100, (Open(Client(7, said=NO_SIZES)),)),),
        {7: ((100,), None, False)},
        used=100,
        unattributed=None,
    ),
    Situation(
        "a size that is no number is unknown and not zero",
        (Process(100, (Open(Client(7, said=NO_SIZES + "drm-total-vram0:\tmany\ndrm-resident-vram0:\t-5\n")),)),),
        {7: ((100,), None, False)},
        used=100,
        unattributed=None,
    ),
    Situation(
        "a process that may not be looked into",
        (replace(ENGINE, fails=Fails.FORBIDDEN),),
        {},
        unreadable=1,
        used=30171,
        unattributed=30171,
    ),
    Situation(
        "kernel threads and zombies that may not be looked into have nothing",
        (
            Process(50, kernel_thread=True, fails=Fails.FORBIDDEN),
            Process(60, state="Z", fails=Fails.FORBIDDEN),
            Process(70, state="X", fails=Fails.FORBIDDEN),
        ),
        {},
        used=0,
        unattributed=0,
    ),
    Situation(
        "a zombie whose threads live has all it had",
        (Process(60, state="Z", threads=4, fails=Fails.FORBIDDEN),),
        {},
        unreadable=1,
    ),
    Situation("/proc hides the others", (ENGINE,), {41: ((100,), 30171, False)}, unreadable=1, init=False, notes=2),
    *(
        Situation(f"one that vanishes ({how.name})", (replace(ENGINE, fails=how),), {}, used=0, unattributed=0)
        for how in (Fails.GONE_AT_ONCE, Fails.GONE_AT_LINKS, Fails.GONE_REFUSED, Fails.GONE_AT_FDINFO)
    ),
    Situation(
        "one that forks while it is looked at, and ends: its child has it",
        (replace(ENGINE, fails=Fails.GONE_AT_ONCE, forks=(shared_with(ENGINE, 101),)),),
        {41: ((101,), 30171, False)},
        used=30171,
        unattributed=0,
    ),
    Situation(
        "one that forks again and again while it is looked at",
        (
            replace(
                ENGINE,
                fails=Fails.GONE_AT_ONCE,
                forks=(replace(shared_with(ENGINE, 101), fails=Fails.GONE_AT_ONCE, forks=(shared_with(ENGINE, 102),)),),
            ),
        ),
        {41: ((102,), 30171, False)},
    ),
    Situation(
        "a node under another name, as in a container",
        (replace(ENGINE, has=(Open(WORKER, target="/dev/gpu/mine"),)),),
        {41: ((100,), 30171, False)},
    ),
    Situation(
        "a node outside of /dev, as of a chroot, and one whose name was removed",
        (
            replace(ENGINE, has=(Open(WORKER, target="/srv/box/dev/dri/renderD128"),)),
            Process(200, (Open(Client(43, 8), target="/dev/dri/renderD128 (deleted)"),)),
        ),
        {41: ((100,), 30171, False), 43: ((200,), 8, False)},
    ),
    Situation(
        "what is named like a node and is none",
        (Process(100, (Open(Client(7, said="pos:\t0\nflags:\t02\n"), target="/home/ann/card1.txt"),)),),
        {},
        used=0,
        unattributed=0,
    ),
    Situation(
        "three who share a buffer have more than is in use, and that is no contradiction",
        tuple(Process(pid, (Open(Client(pid, 100, shared=90)),)) for pid in (100, 200, 300)),
        {pid: ((pid,), 100, False) for pid in (100, 200, 300)},
        used=120,
        unattributed=0,
    ),
    Situation(
        "more than shared buffers explain is a contradiction that is said",
        tuple(Process(pid, (Open(Client(pid, 100, shared=10)),)) for pid in (100, 200, 300)),
        {pid: ((pid,), 100, False) for pid in (100, 200, 300)},
        used=120,
        unattributed=0,
        notes=1,
    ),
    Situation(
        "only some are looked at: what is nobody's is unknown",
        (ENGINE, Process(200, (Open(Client(43, 8)),))),
        {41: ((100,), 30171, True)},
        ours=(100,),
        among=(100, 999),
        used=40000,
        unattributed=None,
    ),
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_every_situation_has_the_right_answer(tmp_path: Path, situation: Situation) -> None:
    used = NOT_SAID if situation.used is None else Known(situation.used * MIB, 1.0)
    found = census(
        tmp_path,
        situation.processes,
        used=used,
        ours=situation.ours,
        among=situation.among,
        init=situation.init,
    )
    assert {
        one.client: (tuple(user.pid for user in one.users), one.resident and one.resident // MIB, one.ours)
        for one in found.holdings
    } == situation.holds
    assert [one.client for one in found.holdings] == list(situation.holds), "the largest first"
    assert tuple(one.client for one in found.idle) == situation.idle
    assert found.unreadable == situation.unreadable
    assert found.everybody is (situation.among is None)
    rest = unattributed(found)
    if situation.unattributed is None:
        assert isinstance(rest, Unknown)
        assert rest.reason
    else:
        assert rest == Known(situation.unattributed * MIB, 1.0)
    assert len(found.notes) == (bool(situation.unreadable) if situation.notes is None else situation.notes)


def test_a_holder_is_described_by_command_user_cgroup_and_start(tmp_path: Path) -> None:
    holder = replace(ENGINE, uid=0, cgroup="/system.slice/x y.scope", start=777)
    (one,) = census(tmp_path, [holder]).holdings
    (user,) = one.users
    assert (user.pid, user.start, user.command, user.user) == (100, 777, "VLLM::EngineCor", "root")
    assert user.cgroup == "/system.slice/x y.scope"


def test_what_this_very_process_has_open_is_ours(tmp_path: Path) -> None:
    """The supervisor opens a card's node for the length of a reading."""
    (mine,) = census(tmp_path, [replace(ENGINE, pid=os.getpid())]).holdings
    assert mine.ours


def test_two_cards_are_counted_in_one_pass(tmp_path: Path) -> None:
    tree = Procfs.of(tmp_path, [ENGINE, Process(200, (Open(Client(41, 8, card=SECOND)),))])
    asked: list[str] = []

    def used(card: CardIdentity) -> Reading[int]:
        asked.append(card.address)
        return NOT_SAID

    first, second = DrmCensus(tree.calls()).census(
        [OTHER, ARC], 1.0, frozenset[int], used, roots=Roots(proc=str(tmp_path))
    )
    assert (first.address, first.held, second.address, second.held) == (SECOND, 8 * MIB, B70, 30171 * MIB)
    assert asked == [SECOND, B70]


def test_ours_are_asked_for_after_the_scan_and_not_where_nobody_has_the_card(tmp_path: Path) -> None:
    """A child that our backend forks meanwhile has its parent's client, and is among its members only afterwards."""
    tree = Procfs.of(tmp_path, [replace(ENGINE, fails=Fails.GONE_AT_ONCE, forks=(shared_with(ENGINE, 101),))])

    def ours() -> frozenset[int]:
        assert 101 in tree.processes, "asked before the scan"
        return frozenset({101})

    def never() -> frozenset[int]:
        raise AssertionError("nobody has the card open")

    roots = Roots(proc=str(tmp_path))
    taker = DrmCensus(tree.calls())
    (found,) = taker.census([ARC], 1.0, ours, lambda _: NOT_SAID, roots=roots)
    assert [one.ours for one in found.holdings] == [True]
    (found,) = taker.census([OTHER], 1.0, never, lambda _: NOT_SAID, roots=roots)
    assert found.holdings == ()


# -- which cards can be counted at all --------------------------------------------------------------------------------
def roots(tmp_path: Path, processes: Collection[Process] = ()) -> Roots:
    (tmp_path / "proc").mkdir()
    Procfs.of(tmp_path / "proc", tuple(processes))
    return Roots(proc=str(tmp_path / "proc"), sys=str(tmp_path / "sys"), dev=str(tmp_path / "dev"))


@pytest.mark.parametrize(
    ("driver", "words"),
    [("nouveau", f"cannot read who holds card {B70} (driver: nouveau)"), (None, f"no driver is bound to card {B70}")],
)
def test_a_card_that_nobody_can_count_is_not_free(tmp_path: Path, driver: str | None, words: str) -> None:
    there = roots(tmp_path)
    found = readings([replace(ARC, driver=driver), OTHER], 1.0, frozenset[int], roots=there)
    assert found[B70] == Unknown(f"arcops {words}" if driver else words, 1.0)
    assert isinstance(found[SECOND], Known), "and says nothing about another one"
    with pytest.raises(OSError, match=re.escape(words)):
        take([OTHER, replace(ARC, driver=driver)], 1.0, frozenset[int], roots=there)


def test_a_proc_that_cannot_be_read_is_no_free_card(tmp_path: Path) -> None:
    nowhere = Roots(proc=str(tmp_path / "nowhere"), sys=str(tmp_path), dev=str(tmp_path))
    found = readings([ARC, OTHER], 1.0, frozenset[int], roots=nowhere)
    for address in (B70, SECOND):
        one = found[address]
        assert isinstance(one, Unknown)
        assert one.reason == f"who holds card {address} cannot be looked at: No such file or directory"


def test_one_census_comes_for_each_card_in_their_order(tmp_path: Path) -> None:
    there = roots(tmp_path, [ENGINE])
    found = take([OTHER, ARC], 1.0, frozenset[int], roots=there)
    assert [(one.address, len(one.holdings)) for one in found] == [(SECOND, 0), (B70, 1)]
    assert take([], 1.0, frozenset[int], roots=there) == ()


def test_every_driver_that_has_a_reader_has_its_users_counted() -> None:
    assert {driver for one in READERS for driver in one.drivers} == {driver for one in TAKERS for driver in one.drivers}
