"""The course of a qualification: the record comes first, and what ran before comes back in any case."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import Environment
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.launch import Launch
from arcops.evidence.qualify import daemon, run
from arcops.evidence.qualify.before import Before
from arcops.evidence.qualify.wanted import Asked
from arcops.evidence.shelf import Stored
from tests.core.simulated import launch
from tests.helpers import eventually

GOOD = Qualification("mtp", "sha256:0", tuple(Gate(name, Verdict.PASSED, "") for name in ("start", "chat", "tools")))
STORED = cast("Stored", SimpleNamespace(path="the-record.json", record=SimpleNamespace(qualification=GOOD)))


class Course:
    """In place of the daemon and the server."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.problem: Exception | None = None
        self.unreturned: ArcopsError | None = None
        self.asking = asyncio.Event()
        self.returning = asyncio.Event()
        self.back = asyncio.Event()
        self.back.set()
        self.hangs = False

    async def started(self, *_: object) -> Stored:
        self.order.append("asked")
        self.asking.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.problem is not None:
            raise self.problem
        self.order.append("recorded")
        return STORED

    async def bring_back(self, *_: object) -> None:
        self.returning.set()
        await self.back.wait()
        self.order.append("brought back")
        if self.unreturned is not None:
            raise self.unreturned

    def look(self, _socket: Path) -> Before:
        return Before(3, "working", serving=True)

    def launch_of(self, _profile: str, _paths: Paths) -> Launch:
        return launch()

    def tell(self, words: str) -> None:
        if words.startswith("record: "):
            self.order.append("told")


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Course:
    made = Course()
    monkeypatch.setattr(run, "_started", made.started)
    monkeypatch.setattr(run, "bring_back", made.bring_back)
    monkeypatch.setattr(run, "look", made.look)
    monkeypatch.setattr(run.daemon, "launch_of", made.launch_of)
    return made


def held(course: Course, tmp_path: Path, *, keep: bool = False) -> "asyncio.Future[run.Qualified]":
    paths = Paths.of("test", {"HOME": str(tmp_path)})
    return asyncio.ensure_future(run.qualify(Asked("mtp", tmp_path, keep=keep), paths, course.tell))


@pytest.mark.asyncio
async def test_the_record_is_written_and_told_before_anything_is_brought_back(course: Course, tmp_path: Path) -> None:
    course.unreturned = ArcopsError("it does not come back", exit_code=ExitCode.BACKEND_FAILED)
    done = await held(course, tmp_path)
    assert course.order == ["asked", "recorded", "told", "brought back"]
    assert done == run.Qualified(STORED, course.unreturned), "neither the evidence nor the failed return is lost"


@pytest.mark.asyncio
async def test_what_has_qualified_is_kept_where_that_is_wanted(course: Course, tmp_path: Path) -> None:
    assert (await held(course, tmp_path, keep=True)).unreturned is None
    assert course.order == ["asked", "recorded", "told"]


@pytest.mark.asyncio
async def test_a_failure_on_the_way_is_said_with_the_return_that_failed(course: Course, tmp_path: Path) -> None:
    course.problem = ArcopsError("the disk is full")
    course.unreturned = ArcopsError("it does not come back", exit_code=ExitCode.BACKEND_FAILED)
    with pytest.raises(ArcopsError, match="does not come back; before that: the disk is full") as failed:
        await held(course, tmp_path)
    assert failed.value.exit_code is ExitCode.BACKEND_FAILED


@pytest.mark.asyncio
async def test_a_refused_order_touches_nothing(course: Course, tmp_path: Path) -> None:
    course.problem = ArcopsError("busy", exit_code=ExitCode.BUSY)
    with pytest.raises(ArcopsError, match="busy"):
        await held(course, tmp_path)
    assert course.order == ["asked"]


@pytest.mark.asyncio
async def test_given_up_it_is_brought_back_all_the_same(course: Course, tmp_path: Path) -> None:
    course.hangs = True
    task = held(course, tmp_path)
    await course.asking.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert course.order == ["asked", "brought back"]


@pytest.mark.asyncio
async def test_given_up_while_it_is_brought_back_it_comes_back_all_the_same(course: Course, tmp_path: Path) -> None:
    course.back.clear()
    task = held(course, tmp_path)
    await course.returning.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(course.back.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert course.order[-1] == "brought back"


@pytest.mark.asyncio
async def test_given_up_once_more_it_is_not_waited_for(course: Course, tmp_path: Path) -> None:
    course.hangs = True
    course.back.clear()
    task = held(course, tmp_path)
    await course.asking.wait()
    task.cancel()
    await course.returning.wait()
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert course.order == ["asked"]


def serves(order_id: int, profile: str) -> Callable[[Path], object]:
    order = SimpleNamespace(id=order_id, profile=profile, standing_in=None)
    backend = SimpleNamespace(profile=profile, launch_id="launch-1", ready_at=9.0)
    return lambda _: SimpleNamespace(order=order, backend=backend, phase="serving")


def test_what_somebody_else_started_in_between_is_not_blamed_on_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = run._Order(4)  # pyright: ignore[reportPrivateUsage] - the race cannot be had through a real daemon
    for order_id, profile in ((5, "mtp"), (4, "third")):
        monkeypatch.setattr(daemon, "status_of", serves(order_id, profile))
        with pytest.raises(ArcopsError, match="another order came in between") as refused:
            run._ours(Path("/nowhere"), "mtp", ours)  # pyright: ignore[reportPrivateUsage] - as above
        assert refused.value.exit_code is ExitCode.BUSY
    monkeypatch.setattr(daemon, "status_of", serves(4, "mtp"))
    begun, ready_at = run._ours(Path("/nowhere"), "mtp", ours)  # pyright: ignore[reportPrivateUsage] - as above
    assert (begun.order_id, begun.launch_id, ready_at) == (4, "launch-1", 9.0)


class Talks:
    """A client whose daemon has the variables of a process."""

    def __init__(self, pid: int = 0, page: object = None) -> None:
        self.pid, self.page = pid, page

    def __call__(self, _socket: Path) -> "Talks":
        return self

    def __enter__(self) -> "Talks":
        return self

    def __exit__(self, *_: object) -> None: ...

    def ping(self) -> object:
        return SimpleNamespace(pid=self.pid)

    def environment(self) -> object:
        return self.page


def test_a_profile_is_filled_in_by_the_daemon_s_variables_not_by_this_shell_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNTIME", "the shell's")
    sleeper = subprocess.Popen(["/bin/sleep", "60"], env={"RUNTIME": "the daemon's"})
    try:
        monkeypatch.setattr(daemon, "Client", Talks(sleeper.pid))
        eventually(lambda: daemon.variables(Path("/nowhere")) == {"RUNTIME": "the daemon's"}, why="not read")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert daemon.variables(Path("/nowhere")) is None, "then it is this process's own that count"
    assert os.environ["RUNTIME"] == "the shell's"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("launch_id", "digest", "unread", "words"),
    [("launch-2", None, (), "another launch runs"), ("launch-1", None, ("no runtime",), "no runtime")],
)
async def test_an_environment_that_the_daemon_did_not_record_is_unknown_and_not_guessed(
    monkeypatch: pytest.MonkeyPatch, launch_id: str, digest: str | None, unread: tuple[str, ...], words: str
) -> None:
    info = SimpleNamespace(launch_id=launch_id, digest=digest, unread=unread)
    monkeypatch.setattr(daemon, "Client", Talks(page=SimpleNamespace(info=info)))
    told: list[str] = []

    def tell(words: str) -> None:
        told.append(words)

    found: Environment | None = await daemon.environment_of(Path("/nowhere"), "launch-1", tell)
    assert found is None
    assert words in told[0]
