"""The kernel's log as it grows: the past apart from the news, a flood in turns, an overrun said, and an end known."""

import asyncio
import errno
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arcops.machine import kernel_watch
from arcops.machine.kernel_watch import A_TURN, JournalWatch, KmsgWatch, Lines, Said, Watch
from tests.daemon.waiting import until
from tests.helpers import cannot_run_here, eventually

RESET = "xe 0000:03:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs"


def record(text: str, at: float = 5.0) -> bytes:
    return f"3,7,{at * 1e6:.0f},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n".encode()


@dataclass
class Pipe:
    """A pipe that stands for /dev/kmsg; both its ends are open as long as it is."""

    path: Path
    heard: list[Said] = field(default_factory=list[Said])
    end: int = -1

    def __post_init__(self) -> None:
        os.mkfifo(self.path)
        self.end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def say(self, *texts: str) -> None:
        for text in texts:
            os.write(self.end, record(text))

    def texts(self, *, past: bool) -> list[str]:
        return [line.text for said in self.heard if said.past is past for line in said.lines]


@asynccontextmanager
async def watched(pipe: Pipe) -> AsyncGenerator[KmsgWatch]:
    watch = KmsgWatch(pipe.heard.append, str(pipe.path))
    try:
        yield watch
    finally:
        watch.close()
        os.close(pipe.end)


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path / "kmsg")


@pytest.mark.asyncio
async def test_what_was_there_is_past_and_what_comes_is_news(pipe: Pipe) -> None:
    pipe.say("old", "older")
    async with watched(pipe) as watch:
        await until(lambda: len(pipe.texts(past=True)) == 2)
        await asyncio.sleep(0)  # it sees the end of the past
        pipe.say(RESET)
        await until(lambda: len(pipe.texts(past=False)) > 0)
        assert (pipe.texts(past=True), pipe.texts(past=False)) == (["old", "older"], [RESET])
        assert watch.ended is None


@pytest.mark.asyncio
async def test_a_log_that_is_empty_has_no_past(pipe: Pipe) -> None:
    async with watched(pipe):
        await asyncio.sleep(0)
        pipe.say(RESET)
        await until(lambda: len(pipe.heard) > 0)
        assert pipe.texts(past=False) == [RESET]


@pytest.mark.asyncio
async def test_pieces_are_put_together_and_what_is_no_record_is_left_out(pipe: Pipe) -> None:
    async with watched(pipe):
        await asyncio.sleep(0)
        raw = record(RESET)
        os.write(pipe.end, b"nonsense\n\xff\xfe\n" + raw[:20])
        await asyncio.sleep(0.01)
        os.write(pipe.end, raw[20:] + b"12,9,5,-;a user wrote this\n")
        await until(lambda: len(pipe.texts(past=False)) > 0)
        assert pipe.texts(past=False) == [RESET]


@pytest.mark.asyncio
async def test_a_flood_leaves_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    left = 20 * A_TURN

    def endless(descriptor: int, size: int) -> bytes:
        nonlocal left
        if left == 0:
            raise BlockingIOError(errno.EAGAIN, "again")
        left -= 1
        return record(RESET)

    async with watched(pipe):
        await asyncio.sleep(0)
        monkeypatch.setattr(kernel_watch.os, "read", endless)
        os.write(pipe.end, b"x")  # readable from here on
        turns = 0
        while left:
            await asyncio.sleep(0)
            turns += 1
        monkeypatch.undo()
    assert turns >= 20
    assert max(len(said.lines) for said in pipe.heard) <= A_TURN
    assert sum(len(said.lines) for said in pipe.heard) == 20 * A_TURN


@pytest.mark.asyncio
async def test_an_overrun_is_said_and_read_over(monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    answers: list[bytes | OSError] = [BrokenPipeError(errno.EPIPE, "overrun"), record(RESET)]

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0) if answers else BlockingIOError(errno.EAGAIN, "again")
        if isinstance(answer, OSError):
            raise answer
        return answer

    async with watched(pipe):
        await asyncio.sleep(0)
        monkeypatch.setattr(kernel_watch.os, "read", read)
        os.write(pipe.end, b"x")
        await until(lambda: len(pipe.heard) > 0)
        monkeypatch.undo()
    assert (pipe.heard[0].lost, [line.text for line in pipe.heard[0].lines]) == (True, [RESET])


@pytest.mark.asyncio
async def test_a_log_that_ends_is_not_followed_any_more_and_says_so(tmp_path: Path) -> None:
    file, heard = tmp_path / "kmsg", list[Said]()
    os.mkfifo(file)
    writer = os.open(file, os.O_RDWR | os.O_NONBLOCK)
    watch = KmsgWatch(heard.append, str(file))
    os.close(writer)
    await until(lambda: watch.ended is not None)
    assert watch.ended == f"{file} has ended"
    assert heard[-1] == Said((), past=False)
    watch.close()


@pytest.mark.asyncio
async def test_one_that_is_not_there_or_cannot_be_polled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KmsgWatch(lambda said: None, str(tmp_path / "kmsg"))
    (tmp_path / "kmsg").write_bytes(b"")
    with pytest.raises(PermissionError):  # epoll's word for a plain file
        KmsgWatch(lambda said: None, str(tmp_path / "kmsg"))


@pytest.mark.asyncio
async def test_the_real_log_is_followed_from_its_oldest_record() -> None:
    heard = list[Said]()
    try:
        watch = KmsgWatch(heard.append)
    except OSError as error:
        cannot_run_here(f"/dev/kmsg: {error.strerror}")
    await until(lambda: len(heard) > 0)
    watch.close()
    assert watch.ended is None
    assert heard[0].past
    assert all(0 <= line.at < time.monotonic() + 60 for said in heard for line in said.lines)


def printing(*lines: str, then: str = "time.sleep(600)") -> tuple[str, ...]:
    script = f"import time\nfor line in {lines!r}: print(line, flush=True)\n{then}"
    return (sys.executable, "-I", "-S", "-c", script)


@pytest.mark.asyncio
@pytest.mark.processes
async def test_the_journal_is_followed_and_what_comes_after_a_silence_is_news(tmp_path: Path) -> None:
    heard, now = list[Said](), [100.0]
    old, new = "[    5.000000] box kernel: old", f"[ 9000.000001] box kernel: {RESET}"
    go_on = tmp_path / "go on"
    wait = f"import os\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    then = f"{wait}\nprint({new!r}, flush=True)\ntime.sleep(600)"
    watch: Watch = JournalWatch(heard.append, printing(old, "-- reboot --", then=then), lambda: now[0])
    assert watch.ended is not None
    assert "shown this user nothing" in watch.ended
    await until(lambda: len(heard) > 0)
    now[0] += 60.0
    go_on.touch()
    await until(lambda: len(heard) == 2)
    assert [(said.past, [line.text for line in said.lines]) for said in heard] == [(True, ["old"]), (False, [RESET])]
    assert watch.ended is None
    watch.close()


@pytest.mark.asyncio
@pytest.mark.processes
async def test_a_journal_that_ends_or_is_not_there_is_known_to_have_ended() -> None:
    for command in (printing(then=""), ("/nonexistent/journalctl",)):
        heard = list[Said]()
        watch = JournalWatch(heard.append, command)
        await until(lambda heard=heard: len(heard) > 0)
        assert watch.ended == "journalctl has ended, or could not be started"
        watch.close()


@pytest.mark.processes
def test_whoever_follows_the_journal_dies_with_the_one_who_asked_for_it(tmp_path: Path) -> None:
    """The parent is killed, so that nothing of ours can tidy up after it."""
    said = tmp_path / "pid"
    follower = (
        sys.executable,
        "-c",
        f"import os,time; open({str(said)!r},'w').write(str(os.getpid())); time.sleep(600)",
    )
    parent = (
        "import asyncio, time\nfrom arcops.machine.kernel_watch import JournalWatch\n"
        f"async def main():\n    JournalWatch(print, {follower!r})\n    time.sleep(600)\nasyncio.run(main())"
    )
    started = os.posix_spawn(sys.executable, [sys.executable, "-c", parent], os.environ)
    eventually(lambda: said.exists() and said.read_text(), why="the follower did not start")
    follows = int(said.read_text())
    assert Path(f"/proc/{follows}").exists()
    os.kill(started, 9)
    os.waitpid(started, 0)
    eventually(lambda: not _lives(follows), why="the follower outlives whoever asked for it")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_line_without_an_end_takes_no_memory_for_ever() -> None:
    lines = Lines()
    for _ in range(100):
        assert lines.of(b"x" * 10_000) == []
    assert lines.of(b"\nwhole\n")[-1] == "whole"
    assert len(lines.of(b"y" * 10)) == 0
