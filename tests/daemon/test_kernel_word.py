"""The kernel's word in a diagnosis: read at once or waited for; and a real kill for want of memory."""

import asyncio
import os
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from arcops.core.diagnosis.kernel import KernelLine
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Unknown
from arcops.core.world import Cause
from arcops.daemon import backend as backend_module
from arcops.daemon.journal import data_of
from arcops.daemon.kernel_word import KernelWord, Lines
from arcops.machine import kernel_log, process
from arcops.machine.store import StoredEvent
from tests.core.simulated import launch
from tests.daemon.rig import Rig
from tests.daemon.test_backend import live
from tests.helpers import cannot_run_here, eventually
from tests.machine.processes import descendants

SAID: Lines = Known((KernelLine(1.0, "Out of memory: Killed process 7 (x)"),), 2.0)
REFUSED: Lines = Unknown("the kernel's log cannot be read: /dev/kmsg: Operation not permitted", 2.0)


def never(began: float, now: float) -> Lines:
    raise AssertionError("not to be asked")


@pytest.mark.asyncio
async def test_what_can_be_read_at_once_is() -> None:
    word = KernelWord(lambda: None, lambda began, now: SAID, never)
    assert word.since(1.0, 2.0) == SAID
    assert word.since(1.0, 9.0) == SAID
    word.close()


@pytest.mark.asyncio
async def test_the_journal_is_asked_beside_the_loop_and_wakes_it() -> None:
    woken, go = asyncio.Event(), threading.Event()
    asked: list[float] = []

    def slow(began: float, now: float) -> Lines:
        asked.append(began)
        go.wait()
        return SAID

    word = KernelWord(woken.set, lambda began, now: REFUSED, slow)
    assert word.since(1.0, 2.0) is None
    assert word.since(1.0, 3.0) is None
    go.set()
    async with asyncio.timeout(30):
        await woken.wait()
    assert word.since(1.0, 4.0) == SAID
    assert asked == [1.0]


@pytest.mark.asyncio
async def test_a_journal_that_fails_is_unknown_with_both_reasons() -> None:
    woken = asyncio.Event()

    def broken(began: float, now: float) -> Lines:
        raise RuntimeError("nobody thought of this")

    word = KernelWord(woken.set, lambda began, now: REFUSED, broken)
    assert word.since(1.0, 2.0) is None
    async with asyncio.timeout(30):
        await woken.wait()
    got = word.since(1.0, 2.0)
    assert isinstance(got, Unknown)
    assert "Operation not permitted" in got.reason
    assert "nobody thought of this" in got.reason


@pytest.mark.asyncio
async def test_one_that_is_given_up_wakes_nobody() -> None:
    go, woken = threading.Event(), asyncio.Event()

    def slow(began: float, now: float) -> Lines:
        go.wait()
        return SAID

    word = KernelWord(woken.set, lambda began, now: REFUSED, slow)
    assert word.since(1.0, 2.0) is None
    word.close()
    await asyncio.sleep(0)
    go.set()
    assert not woken.is_set()


@pytest.mark.asyncio
async def test_an_ending_waits_for_the_kernels_word_where_it_could_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("(APIServer pid=1) RuntimeError: something new\n")
    words: list[Lines | None] = [None, REFUSED]

    def since(self: KernelWord, began: float, now: float) -> Lines | None:
        return words.pop(0)

    monkeypatch.setattr(backend_module.KernelWord, "since", since)
    backend = live(tmp_path, os.getpid())
    assert backend.ending(Phase.SERVING) is None, "an unknown exit, with a card: waited for"
    ending = backend.ending(Phase.SERVING)
    assert ending is not None
    assert backend.ending(Phase.SERVING) is ending
    assert words == []
    backend.detach()


@pytest.mark.asyncio
async def test_a_card_that_the_kernel_says_is_wedged_is_why_its_backend_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = launch().cards[0]
    line = f"xe {card}: [drm] *ERROR* CRITICAL: Xe has declared device {card} as wedged."
    said = Known((KernelLine(1.0, line),), 2.0)
    asked: list[float] = []

    def since(self: KernelWord, began: float, now: float) -> Lines:
        asked.append(began)
        return said

    monkeypatch.setattr(backend_module.KernelWord, "since", since)
    (tmp_path / "log").write_text("RuntimeError: UR_RESULT_ERROR_DEVICE_LOST\n")
    backend = live(tmp_path, os.getpid())
    ending = backend.ending(Phase.SERVING)
    assert ending is not None
    assert (ending.cause, ending.deterministic, ending.evidence) == (Cause.GPU_WEDGED, True, line)
    assert "reboot" in ending.hint
    assert asked == [backend.record.spawned_monotonic]
    backend.detach()


# -- a real kill for want of memory ------------------------------------------------------------------------------------
class MemoryCgroup:
    """A cgroup that takes no memory any more once it is full; version 1 or 2, whichever has the memory controller."""

    def __init__(self, name: str) -> None:
        first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        self._old = (first / "memory.limit_in_bytes").exists()
        self._folder = (first if self._old else second) / name

    def make(self) -> None:
        """Raises OSError where this user may not, or cgroups have no memory controller."""
        self._folder.mkdir()
        (self._folder / ("memory.limit_in_bytes" if self._old else "memory.max")).write_text("4096")

    def take(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        self._folder.rmdir()


@pytest.fixture
def full() -> Generator[MemoryCgroup]:
    if isinstance(kernel_log.read(0.0, 1e9), Unknown) or not kernel_log.names_our_pids():
        cannot_run_here("the kernel's log cannot be read, or names other pids than ours")
    group = MemoryCgroup(f"arcops-test-{os.getpid()}")
    try:
        group.make()
    except OSError as error:
        with suppress(OSError):
            group.remove()
        cannot_run_here(f"no cgroup with a limit of memory can be made: {error}")
    yield group
    eventually(lambda: removed(group), why="its processes have ended")


def removed(group: MemoryCgroup) -> bool:
    try:
        group.remove()
    except OSError:
        return False
    return True


@pytest.mark.processes
@pytest.mark.parametrize("whose", ["engine", "server"])
def test_a_backend_that_the_kernel_kills_for_want_of_memory_is_told_so_with_the_kernels_line(
    tmp_path: Path, full: MemoryCgroup, whose: str
) -> None:
    with Rig(tmp_path) as arcops:
        arcops.start()
        assert arcops.arcops("switch", "target-only").code == 0
        main = arcops.status().backend
        assert main is not None
        assert main.pid is not None
        pid = main.pid if whose == "server" else engine_of(main.pid)
        full.take(pid)
        if whose == "engine":
            os.kill(pid, signal.SIGURG)  # idle, it needs no memory: it is told to take some
        with suppress(httpx.HTTPError):
            body = {"model": "tiny", "prompt": "a" * 20_000, "max_tokens": 2000}
            httpx.post(f"{arcops.url}/v1/completions", json=body, timeout=30, trust_env=False)
        eventually(lambda: process.identify(pid) is None, why="the kernel kills it")

        words = f"the kernel killed process {pid} of the backend for want of memory"
        reason = eventually(lambda: reason_with(arcops, "want of memory"), within=30)
        assert words in reason


def reason_with(arcops: Rig, words: str) -> str | None:
    with arcops.client() as client:
        return next((event.reason for event in client.events().events if words in event.reason), None)


def engine_of(server: int) -> int:
    """The server's only child: its engine."""
    (engine,) = descendants(server)
    return engine


@pytest.mark.processes
def test_the_history_and_the_outcome_name_the_cause_in_one_word(tmp_path: Path) -> None:
    with Rig(tmp_path) as arcops:
        arcops.misbehaving("broken", fail_with="tool_parser")
        arcops.start()
        assert arcops.arcops("switch", "broken").code == 7
        outcome = arcops.status().settled[-1]
        with arcops.client() as client:
            causes = {event.phase: event.cause for event in client.events().events if event.kind == "phase"}
    assert outcome.cause == "bad_value"
    assert (causes["starting"], causes["stopping"]) == (None, "bad_value")


def test_what_is_stored_beside_an_event_by_another_version_is_no_trouble() -> None:
    for text, cause in (("{}", None), ('{"cause": "hang", "x": 1}', "hang"), ('{"cause": 7}', None), ("", None)):
        assert data_of(StoredEvent(1, 1.0, "phase", "failed", None, None, "r", text)).cause == cause
