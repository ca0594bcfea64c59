"""The real program in a real terminal (tmux), against a daemon that comes and goes."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.tmux import Terminal, terminal
from tests.tui import scenes
from tests.tui.fake_daemon import FakeDaemon

RECORDING = Path(__file__).resolve().parent.parent / "data" / "recording" / "recording.gz"


async def see(there: Terminal, wanted: Callable[[str], bool], why: str) -> str:
    """Wait for a screen beside the fake daemon, which runs in this event loop."""
    return await asyncio.to_thread(there.until, wanted, why)


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "arcops.cli.main", *arguments]


@pytest.fixture
def runtime_dir() -> Generator[Path]:
    """Short: a socket's path holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="arcops-") as directory:
        (Path(directory) / "arcops").mkdir(mode=0o700)
        yield Path(directory)


@pytest.mark.processes
@pytest.mark.asyncio
async def test_the_operator_sees_the_daemon_come_and_go_gives_an_order_and_leaves(runtime_dir: Path):
    daemon = FakeDaemon(runtime_dir / "arcops" / "main.sock", scenes.speculating(), scenes.history(60), scenes.LOG)
    environment = {"XDG_RUNTIME_DIR": str(runtime_dir), "PYTHONPATH": os.getcwd()}
    command = f"sh -c '{' '.join(program('tui'))}; echo left with $?; cat'"
    with terminal(command, environment, (100, 30)) as there:
        await see(there, lambda text: "no daemon answers on" in text and "trying again" in text, "no word of it")
        await daemon.start()
        text = await see(there, lambda text: "● serving dflash2" in text, "the daemon was not found")
        assert "tokens per step 3.14" in text
        await daemon.die()
        await see(there, lambda text: "not connected" in text and "last known" in text, "its death went unnoticed")
        await daemon.start()
        await see(there, lambda text: "not connected" not in text, "the daemon was not found again")
        there.press("x")
        await see(there, lambda text: "Stop dflash2?" in text, "no question")
        there.press("y")
        await see(there, lambda _: bool(daemon.orders), "no order came")
        there.press("q")
        await see(there, lambda text: "left with 0" in text, "it did not end well")
    await daemon.die()


@pytest.mark.processes
def test_without_a_terminal_it_refuses_and_names_the_alternative(runtime_dir: Path):
    done = subprocess.run(
        program("tui"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime_dir)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a terminal" in done.stderr
    assert "arcops status --watch" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("elsewhere", ["stdin", "stdout", "stderr"])
def test_one_end_that_is_no_terminal_is_enough_to_refuse(runtime_dir: Path, elsewhere: str, tmp_path: Path):
    master, slave = os.openpty()
    other = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        stdin, stdout, stderr = (other if end == elsewhere else slave for end in ("stdin", "stdout", "stderr"))
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime_dir), "TERM": "xterm"}
        done = subprocess.run(
            program("tui"), timeout=60, check=False, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
    finally:
        os.close(other)
        os.close(slave)
        os.close(master)
    assert done.returncode == 2


@pytest.mark.processes
def test_importing_the_screen_loads_neither_pydantic_nor_a_yaml_parser():
    code = "import sys, arcops.tui.app; print([m for m in ('pydantic', 'yaml', 'arcops.config') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.processes
def test_the_screen_does_not_load_the_command_line_of_its_http_client():
    """3 MB, and a twentieth of a second before the first paint."""
    code = (
        "import sys, arcops.tui.app, arcops.tui.views.overview, httpx; httpx.Client().close(); "
        "print([m for m in ('click', 'pygments') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.processes
def test_a_recording_is_played_without_a_daemon(runtime_dir: Path):
    environment = {"XDG_RUNTIME_DIR": str(runtime_dir), "PYTHONPATH": os.getcwd()}
    command = f"sh -c '{' '.join(program('tui', '--replay', str(RECORDING)))}; echo left with $?; cat'"
    with terminal(command, environment, (100, 30)) as there:
        there.until(lambda text: "▶ recording of" in text and "● serving demo-dflash2" in text, "it is not played")
        there.press("Space")
        there.until(lambda text: "‖ recording of" in text, "it does not stand still")
        there.press("S-Right")
        there.until(lambda text: "at 01:0" in text, "it does not go on by a minute")
        there.press("3")
        there.until(lambda text: "[3 logs]" in text and "POST /v1/completions" in text, "the log is not shown")
        there.press("x")
        there.until(lambda text: "it takes no orders" in text, "an order is not refused")
        there.press("q")
        there.until(lambda text: "left with 0" in text, "it did not end well")


@pytest.mark.processes
@pytest.mark.parametrize(("name", "says", "code"), [("pyproject.toml", "no recording", 1), ("nothing", "No such", 2)])
def test_what_is_no_recording_is_refused_in_a_sentence(runtime_dir: Path, name: str, says: str, code: int):
    environment = {"XDG_RUNTIME_DIR": str(runtime_dir), "PYTHONPATH": os.getcwd()}
    command = f"sh -c '{' '.join(program('tui', '--replay', name))}; echo left with $?; cat'"
    with terminal(command, environment, (100, 30)) as there:
        text = there.until(lambda text: "left with" in text, "it did not end")
    assert f"left with {code}" in text
    assert says in text
    assert "Traceback" not in text
