"""The sign of life for systemd comes from a loop that turns, and from nothing else."""

import errno
import itertools
import os
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from arcops.daemon.heartbeat import DISK_PATIENCE, Heartbeat, beating, waits_for_disk
from arcops.machine import proc
from arcops.machine.systemd import watchdog_limit
from tests.helpers import eventually

LIMIT = 30.0


@pytest.mark.parametrize(
    ("turned", "at_disk", "after", "due"),
    [
        (True, False, 10.0, True),
        (True, False, 9.9, False),
        (False, False, 10.0, False),
        (False, False, 29.0, False),
        (False, True, 29.0, True),
        (False, True, DISK_PATIENCE, False),
    ],
)
def test_a_sign_is_due_after_a_third_of_the_limit_if_the_loop_has_turned(
    turned: bool, at_disk: bool, after: float, due: bool
) -> None:
    heart = Heartbeat(LIMIT, turns=7, now=0.0)
    assert heart.is_due(7 + turned, after, waits_for_disk=at_disk) == due


def test_a_loop_that_stops_turning_is_told_of_once_more_at_most() -> None:
    heart = Heartbeat(LIMIT, turns=0, now=0.0)
    looks = [step * heart.pause for step in range(1, 40)]
    told = [at for at in looks if heart.is_due(int(min(at, 12.0)), at, waits_for_disk=False)]
    assert told == [10.0, 20.0], "it turned until 12"


@pytest.mark.parametrize(
    ("env", "limit"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_systemd_watches_whom_it_says_it_watches(env: dict[str, str], limit: float | None) -> None:
    assert watchdog_limit(env, 42) == limit


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], int]]:
    """How many signs have come; systemd's limit is 0.3 s."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        count = itertools.count(1)
        total = 0

        def read() -> int:
            nonlocal total
            try:
                while manager.recv(100) == b"WATCHDOG=1":
                    total = next(count)
            except BlockingIOError:
                return total
            raise AssertionError("something else came")

        yield read


def test_signs_come_while_the_loop_turns(heard: Callable[[], int]) -> None:
    turns = itertools.count()
    with beating(lambda: next(turns)):
        eventually(lambda: heard() >= 3)


def test_no_sign_comes_of_a_loop_that_hangs_while_the_process_lives(heard: Callable[[], int]) -> None:
    looks = itertools.count()
    seen = 0

    def turns() -> int:
        nonlocal seen
        seen = next(looks)
        return 7

    with beating(turns):
        began = time.monotonic()
        eventually(lambda: seen > 12 and time.monotonic() - began > 0.3)
    assert heard() == 0


def test_nobody_is_told_where_systemd_does_not_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    with beating(lambda: pytest.fail("asked for a count that nobody needs")):
        pass


def test_this_process_does_not_wait_for_a_disk() -> None:
    assert not waits_for_disk(os.getpid())
    assert not waits_for_disk(2**22 + 1), "nor does one that is not there"


def test_a_process_that_may_open_nothing_more_does_not_wait_for_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_descriptors(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(proc, "stat", out_of_descriptors)
    assert not waits_for_disk(os.getpid())
