import os
import stat
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from arcops.core.errors import BlockedError, BusyError, ExitCode
from arcops.machine.lock import DaemonLock, Locks, holders_of, holds
from tests.helpers import eventually
from tests.machine.processes import as_nobody, hear, python, say

TAKER = """
import os, sys
from arcops.machine.lock import Locks
locks = Locks()
for order in sys.stdin:
    if order.strip() == "take":
        print("refused" if locks.take(sys.argv[1:]) else "taken", flush=True)
    elif order.strip() == "leave to a child":
        pid = os.fork()
        if pid == 0:
            sys.stdin.read()
            os._exit(0)
        print(pid, flush=True)
    else:
        locks.release()
        print("released", flush=True)
"""


@pytest.fixture
def cards(tmp_path: Path) -> tuple[str, str]:
    """Two directories that stand for cards: flock treats every directory alike."""
    paths = tmp_path / "0000:03:00.0", tmp_path / "0000:08:00.0"
    for path in paths:
        path.mkdir()
    return str(paths[0]), str(paths[1])


def test_every_lock_is_taken_and_passed_on(cards: tuple[str, str]) -> None:
    locks = Locks()
    assert locks.take(cards) == ()
    assert locks.held == cards
    assert len(locks.descriptors()) == 2
    assert not any(os.get_inheritable(descriptor) for descriptor in locks.descriptors())
    assert all(holds(card, [os.getpid()]) for card in cards)
    locks.release()
    assert locks.held == ()
    assert holders_of(cards[0]) == ()


def test_what_is_held_already_stays_held_and_is_not_taken_twice(cards: tuple[str, str]) -> None:
    locks = Locks()
    locks.take(cards[:1])
    first = locks.descriptors()
    assert locks.take(cards) == ()
    assert locks.descriptors()[:1] == first
    locks.release(keep=cards[1:])
    assert locks.held == cards[1:]
    locks.release()


def test_a_card_that_is_not_there_is_named(cards: tuple[str, str], tmp_path: Path) -> None:
    locks = Locks()
    with pytest.raises(BlockedError, match=r"no card 0000:ff:00\.0") as caught:
        locks.take([*cards, str(tmp_path / "0000:ff:00.0")])
    assert caught.value.exit_code is ExitCode.BLOCKED
    assert locks.held == ()
    assert holders_of(cards[0]) == ()


def test_a_lock_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "cpu.lock"
    locks = Locks()
    assert locks.take([str(path)]) == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    locks.release()
    assert path.exists()


def test_a_lock_file_is_never_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "cpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BlockedError, match="lock of cpu cannot be opened"):
        Locks().take([str(tmp_path / "cpu.lock")])
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_without_a_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BlockedError, match="no place for the lock file"):
        Locks().take([str(tmp_path / "nowhere" / "cpu.lock")])


@pytest.mark.processes
def test_a_foreign_holder_is_named_and_nothing_is_kept(cards: tuple[str, str]) -> None:
    locks = Locks()
    with python(TAKER, cards[1]) as other:
        say(other, "take")
        assert hear(other) == "taken"
        (holder,) = locks.take(cards)
        assert holder.pid == other.pid
        assert holder.command is not None
        assert holder.user is not None
        assert holder.what == "lock of 0000:08:00.0"
        assert locks.held == ()
        assert holders_of(cards[0]) == ()
    assert locks.take(cards) == ()
    locks.release()


@pytest.mark.processes
def test_a_child_keeps_the_lock_of_a_dead_taker_and_is_named(cards: tuple[str, str]) -> None:
    with python(TAKER, cards[0]) as taker:
        say(taker, "take")
        assert hear(taker) == "taken"
        say(taker, "leave to a child")
        child = int(hear(taker))
        assert {one.pid for one in holders_of(cards[0])} == {taker.pid, child}
        taker.kill()
        taker.wait()
        assert [one.pid for one in holders_of(cards[0])] == [child]
        assert holds(cards[0], [child])
        assert not holds(cards[0], [os.getpid()])
        assert Locks().take(cards[:1]) != ()
        assert taker.stdin is not None
        taker.stdin.close()
        eventually(lambda: holders_of(cards[0]) == ())


@pytest.mark.processes
def test_an_open_descriptor_without_the_lock_is_no_holder(cards: tuple[str, str]) -> None:
    with python(
        "import os, sys; os.open(sys.argv[1], os.O_RDONLY); print('open', flush=True); input()", cards[0]
    ) as it:
        assert hear(it) == "open"
        locks = Locks()
        assert locks.take(cards[:1]) == ()
        assert [one.pid for one in holders_of(cards[0])] == [os.getpid()]
        assert not holds(cards[0], [it.pid])
        locks.release()


@pytest.mark.processes
def test_of_two_that_race_fifty_times_one_wins_each_time(cards: tuple[str, str]) -> None:
    with python(TAKER, *cards) as first, python(TAKER, *cards) as second:
        for _ in range(50):
            say(first, "take")
            say(second, "take")
            answers = [hear(first), hear(second)]
            assert sorted(answers) == ["refused", "taken"]
            for racer in (first, second):
                say(racer, "release")
                assert hear(racer) == "released"


@pytest.mark.processes
def test_a_holder_of_another_user_is_named_by_what_the_kernel_tells_everybody() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        locks = Locks()
        locks.take([folder])
        assert as_nobody(lambda: str([one.pid for one in holders_of(folder)])) == str([os.getpid()])
        assert as_nobody(lambda: str(holds(folder, [os.getpid()]))) == "False"
        locks.release()


@pytest.mark.processes
def test_a_second_daemon_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "main.lock")
    code = (
        "import sys; from arcops.machine.lock import DaemonLock\n"
        "lock = DaemonLock(); lock.acquire(sys.argv[1]); print('on', flush=True); input()"
    )
    with python(code, path) as first:
        assert hear(first) == "on"
        second = DaemonLock()
        with pytest.raises(BusyError, match=rf"pid {first.pid} \(.+\) of user .+ holds lock of main") as caught:
            second.acquire(path)
        assert caught.value.exit_code is ExitCode.BUSY
    second.acquire(path)
    second.acquire(path)
    assert Path(path).read_bytes() == b""
    second.release()
    second.release()


def test_a_stale_file_is_no_obstacle_to_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "main.lock"
    path.write_text("4242\n")
    lock = DaemonLock()
    lock.acquire(str(path))
    lock.release()
    assert path.read_text() == "4242\n"


@pytest.mark.processes
def test_the_daemons_lock_is_not_passed_on(tmp_path: Path) -> None:
    path = str(tmp_path / "main.lock")
    lock = DaemonLock()
    lock.acquire(path)
    with subprocess.Popen(["sleep", "60"]) as child:
        lock.release()
        again = DaemonLock()
        again.acquire(path)
        again.release()
        child.kill()


def test_nothing_holds_what_is_not_there(tmp_path: Path) -> None:
    assert holders_of(str(tmp_path / "none")) == ()
    assert not holds(str(tmp_path / "none"), [os.getpid()])
