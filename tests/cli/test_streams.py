"""The commands that go on until they are told to stop, with a real daemon and the fake vLLM."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig]:
    with Rig(tmp_path) as one:
        yield one.start()


class Command:
    """A running `arcops ...` whose output goes to files; `with` ends it."""

    def __init__(self, rig: Rig, *arguments: str) -> None:
        name = "-".join(arguments).replace("/", "_")
        self._out, self._err = rig.root / f"{name}.out", rig.root / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "arcops.cli.main", *arguments],
                env=rig.env(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def says(self, text: str) -> None:
        eventually(lambda: text in self.out + self.err, within=30, why=f"{text!r} is not said: {self.out}{self.err}")

    def interrupt(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


def test_logs_are_followed_from_launch_to_launch_until_the_daemon_ends(rig: Rig) -> None:
    with Command(rig, "logs", "-f", "-n", "5") as logs:
        logs.says("there was no launch yet")
        rig.arcops("switch", "target-only")
        first = rig.status().backend
        assert first is not None
        logs.says(f"== launch {first.launch_id}")
        rig.complete()
        logs.says("/v1/completions")
        rig.arcops("switch", "mtp")
        second = rig.status().backend
        assert second is not None
        logs.says(f"== launch {second.launch_id}")
        rig.end_daemon()
        assert logs.process.wait(30) == 8
        assert logs.err.count("== launch") == 2
        assert "the daemon has ended" in logs.err
        lines = Path(second.log_path).read_text().splitlines()
        assert "\n".join(lines[:5]) in logs.out, "a new launch is shown from its first line"


def test_the_tail_and_what_follows_it_have_no_seam(rig: Rig) -> None:
    rig.misbehaving("chatty", log_bytes_per_second=20_000)
    rig.arcops("switch", "chatty")
    backend = rig.status().backend
    assert backend is not None
    with Command(rig, "logs", "-f", "-n", "3") as logs:
        eventually(lambda: len(logs.out.splitlines()) > 200, within=30, why="nothing follows")
        assert logs.interrupt() == 130
        shown = logs.out.splitlines()[:150]
    rig.arcops("stop", "--now")
    assert "\n".join(shown) in Path(backend.log_path).read_text()


def test_events_are_followed_and_are_one_json_document_a_line(rig: Rig) -> None:
    with Command(rig, "events", "-f", "-n", "1") as events, Command(rig, "events", "-f", "--json") as documents:
        events.says("arcopsd ")
        rig.arcops("switch", "target-only")
        events.says("target-only serves")
        documents.says("target-only serves")
        rig.end_daemon()
        assert events.process.wait(30) == 8
        assert documents.process.wait(30) == 8
        ids = [json.loads(line)["id"] for line in documents.out.splitlines()]
        assert ids == sorted(set(ids))
    for line in ("order     target-only", "starting  target-only", "serving   target-only"):
        assert line in events.out


def test_the_status_is_watched_until_ctrl_c(rig: Rig) -> None:
    with Command(rig, "status", "--watch") as watch:
        watch.says("stopped for ")
        rig.arcops("switch", "target-only")
        watch.says("serving target-only for ")
        assert watch.interrupt() == 130
        assert watch.err == ""


def test_ctrl_c_in_the_middle_of_a_switch_ends_the_command_and_not_the_switch(rig: Rig) -> None:
    rig.misbehaving("slow", start_seconds=1.5)
    with Command(rig, "switch", "slow") as switch:
        switch.says("starting")
        assert switch.interrupt() == 130
        assert "order 1 goes on" in switch.err
    assert rig.wait_for("serving").order.profile == "slow"


def test_a_reader_that_has_enough_ends_the_command_quietly(rig: Rig) -> None:
    script = "{ " + f"{sys.executable} -m arcops.cli.main status --watch; echo ended $? >&2; " + "} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", script], env=rig.env(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == "ended 0\n"
