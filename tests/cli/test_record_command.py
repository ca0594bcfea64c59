"""`arcops record`: what a daemon says is in the file, also when it goes away in between."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import pytest

from arcops import recording, wire
from arcops.cli import record
from arcops.cli.record import Recorder
from arcops.client import LiveClient
from arcops.core.errors import ArcopsError, ExitCode
from arcops.recording import FullError, Header, Recording
from tests.cli.conftest import Ran
from tests.daemon.rig import Rig
from tests.helpers import eventually
from tests.sites import MadeUpSite
from tests.tui import card_scenes, scenes
from tests.tui.fake_daemon import FakeDaemon

HEADER = Header(arcops_recording=1, arcops="0.1.0", instance="main", at=scenes.NOW, window=60.0, logs=True)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeDaemon]:
    """One with a past and a log; whoever lost it asks again soon."""
    monkeypatch.setattr(record, "RETRY", 0.02)
    with tempfile.TemporaryDirectory(prefix="arcops-") as directory:
        yield FakeDaemon(Path(directory) / "it.sock", scenes.busy(), scenes.history(60), scenes.LOG)


async def until(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, condition, within=15)


async def recorded(
    daemon: FakeDaemon, path: Path, story: Callable[[Recorder], "asyncio.Future[None]"], header: Header = HEADER
) -> tuple[Recording, Recorder, ArcopsError | None]:
    """What is in the file when the story has been told, with the recorder and what it complained about."""
    with recording.writing(path, header) as writer:
        recorder = Recorder(LiveClient(daemon.socket), writer, header)
        running = asyncio.ensure_future(recorder.run(None))
        await asyncio.wait({running, story(recorder)}, return_when=asyncio.FIRST_COMPLETED)
        recorder.end()
        problem = await running
    return recording.read(path), recorder, problem


@pytest.mark.asyncio
async def test_statuses_numbers_and_lines_are_in_the_file(daemon: FakeDaemon, tmp_path: Path) -> None:
    await daemon.start()

    async def story(recorder: Recorder) -> None:
        await until(lambda: recorder.seen["statuses"] and recorder.seen["lines of log"])
        await daemon.say(scenes.speculating())
        await daemon.log_lines("a new line")
        await until(lambda: recorder.seen["statuses"] > 1 and recorder.seen["lines of log"] > len(scenes.LOG))
        await until(lambda: recorder.seen["seconds"])

    found, recorder, problem = await recorded(
        daemon, tmp_path / "it.rec", lambda one: asyncio.ensure_future(story(one))
    )
    await daemon.die()
    assert problem is None
    assert [found.beat(index).status for index in range(2)] == [scenes.busy(), scenes.speculating()]
    assert [line for _, entry in found.log if entry.log for line in entry.log.lines] == [*scenes.LOG, "a new line"]
    assert [point for _, point in found.history][-1].at == scenes.NOW
    assert "2 statuses" in recorder.summary()


@pytest.mark.asyncio
async def test_the_cards_are_in_the_file_where_the_daemon_tells_of_any(daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.cards = card_scenes.cards()
    await daemon.start()

    async def story(recorder: Recorder) -> None:
        await until(lambda: recorder.seen["statuses"] and "/v1/cards" in daemon.asked)
        await until(lambda: recorder.seen["cards"])

    found, _, _ = await recorded(daemon, tmp_path / "it.rec", lambda one: asyncio.ensure_future(story(one)))
    await daemon.die()
    assert found.cards_told(0) == card_scenes.cards()
    assert "/v1/cards?everybody=1" not in daemon.asked


@pytest.mark.asyncio
async def test_a_daemon_that_goes_is_recorded_as_gone_and_waited_for(daemon: FakeDaemon, tmp_path: Path) -> None:
    await daemon.start()

    async def story(recorder: Recorder) -> None:
        await until(lambda: recorder.seen["statuses"] and recorder.seen["lines of log"])
        await daemon.die()
        await until(lambda: recorder.seen["away"])
        before = recorder.seen["statuses"]
        await daemon.start()
        await until(lambda: recorder.seen["statuses"] > before)
        await until(lambda: recorder.seen["lines of log"] > len(scenes.LOG))

    found, recorder, _ = await recorded(daemon, tmp_path / "it.rec", lambda one: asyncio.ensure_future(story(one)))
    await daemon.die()
    kinds = ["status" if found.beat(index).status else "gone" for index in range(len(found.beats))]
    assert kinds[0] == kinds[-1] == "status"
    assert kinds.count("gone") == 1
    gone = found.beat(kinds.index("gone")).gone
    assert gone is not None
    assert gone.problem
    assert [entry.anew for _, entry in found.log] == [True, True], "the log began again with its end"
    assert "the daemon was away once" in recorder.summary()


@pytest.mark.asyncio
async def test_without_logs_no_line_is_asked_for(daemon: FakeDaemon, tmp_path: Path) -> None:
    await daemon.start()

    async def story(recorder: Recorder) -> None:
        await until(lambda: recorder.seen["statuses"] and recorder.seen["seconds"])

    header = msgspec.structs.replace(HEADER, logs=False)
    path = tmp_path / "it.rec"
    found, recorder, _ = await recorded(daemon, path, lambda one: asyncio.ensure_future(story(one)), header)
    await daemon.die()
    assert not found.log
    assert not any("logs" in target for target in daemon.asked)
    assert "lines of log" not in recorder.summary()


@pytest.mark.asyncio
async def test_a_file_that_takes_no_more_ends_it_and_stays_readable(
    daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 12_000)
    await daemon.start()

    async def story(_: Recorder) -> None:
        while True:
            await daemon.say()
            await asyncio.sleep(0.01)

    telling: list[asyncio.Future[None]] = []

    def begin(recorder: Recorder) -> "asyncio.Future[None]":
        telling.append(asyncio.ensure_future(story(recorder)))
        return telling[0]

    found, _, problem = await recorded(daemon, tmp_path / "it.rec", begin)
    telling[0].cancel()
    await daemon.die()
    assert isinstance(problem, FullError)
    assert len(found.beats) > 1
    assert not found.cut


@pytest.mark.processes
def test_without_a_daemon_no_file_is_made_and_none_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "it.rec"
    with Rig(tmp_path / "rig", instance="recorded") as rig:
        ran = rig.arcops("record", str(path), "--for", "10s")
        assert ran.code == ExitCode.NO_DAEMON
        assert not path.exists()
        path.write_text("mine")
        assert rig.arcops("record", str(path), "--force").code == ExitCode.NO_DAEMON
        assert path.read_text() == "mine", "it is replaced when there is something to record, and not before"


def test_what_is_there_is_not_overwritten(site: MadeUpSite, arcops: Callable[..., Ran], tmp_path: Path) -> None:
    del site
    path = tmp_path / "it.rec"
    path.write_text("mine")
    ran = arcops("record", str(path))
    assert ran.code == ExitCode.USAGE
    assert "--force overwrites it" in ran.err
    assert path.read_text() == "mine"


@pytest.mark.processes
def test_ctrl_c_ends_a_recording_of_a_real_daemon_that_was_restarted_in_between(tmp_path: Path) -> None:
    path = tmp_path / "it.rec.gz"
    with Rig(tmp_path, instance="recorded") as rig:
        rig.start()
        assert rig.arcops("switch", "dflash2").code == 0
        rig.complete()
        command = [sys.executable, "-m", "arcops.cli.main", "record", str(path)]
        with subprocess.Popen(
            command, env=rig.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            eventually(lambda: statuses(path, 2), within=60)
            rig.kill_daemon()
            eventually(lambda: gone(path), within=60)
            rig.start()
            before = len(read(path).beats)
            eventually(lambda: statuses(path, before + 2), within=60)
            os.kill(running.pid, signal.SIGINT)
            out, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
        assert "the daemon was away once" in out
        assert f"arcops tui --replay {path}" in err
        assert rig.arcops("stop").code == 0
        rig.end_daemon()
    found = read(path)
    assert not found.cut
    profiles = {status.backend.profile for status in seen(found) if status.backend is not None}
    assert profiles == {"dflash2"}
    kinds = [event.kind for _, event in found.events]
    assert kinds.count("daemon") >= 2, "both starts of the daemon are among the events"


def read(path: Path) -> Recording:
    return recording.read(path)


def seen(found: Recording) -> list[wire.Status]:
    entries = (found.beat(index) for index in range(len(found.beats)))
    return [entry.status for entry in entries if entry.status is not None]


def statuses(path: Path, least: int) -> bool:
    """While it is written: what was flushed is readable."""
    return readable(path) and len(seen(read(path))) >= least


def gone(path: Path) -> bool:
    found = read(path)
    return any(found.beat(index).gone is not None for index in range(len(found.beats)))


def readable(path: Path) -> bool:
    try:
        read(path)
    except ArcopsError:
        return False
    return True
