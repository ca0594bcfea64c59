"""The real program in a real terminal (tmux), against a daemon that comes and goes."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.helpers import cannot_run_here
from tests.tui import scenes
from tests.tui.fake_daemon import FakeDaemon


class Terminal:
    """A tmux server of its own, with one window in which a command runs."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "tmux"

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        # A caller's idea of the terminal's size would be believed before the terminal's own.
        env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, env=env).stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "it")

    async def until(self, wanted: Callable[[str], bool], why: str) -> str:
        try:
            async with asyncio.timeout(15):
                # Another program's screen has no event to wait for.
                while not wanted(text := await asyncio.to_thread(self.screen)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{why}; the screen shows:\n{await asyncio.to_thread(self.screen)}")
        return text


@asynccontextmanager
async def terminal(command: str, environment: dict[str, str], size: tuple[int, int]) -> AsyncGenerator[Terminal]:
    if shutil.which("tmux") is None:
        cannot_run_here("tmux is not installed")
    with tempfile.TemporaryDirectory(prefix="arcops-tmux-") as directory:
        there = Terminal(Path(directory))
        settings = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        width, height = (str(cells) for cells in size)
        await asyncio.to_thread(
            there.tmux, "new-session", "-d", "-s", "it", "-x", width, "-y", height, *settings, command
        )
        try:
            yield there
        finally:
            await asyncio.to_thread(there.tmux, "kill-server")


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
    async with terminal(command, environment, (100, 30)) as there:
        await there.until(lambda text: "no daemon answers on" in text and "trying again" in text, "no word of it")
        await daemon.start()
        text = await there.until(lambda text: "● serving dflash2" in text, "the daemon was not found")
        assert "tokens per step 3.14" in text
        await daemon.die()
        await there.until(lambda text: "not connected" in text and "last known" in text, "its death went unnoticed")
        await daemon.start()
        await there.until(lambda text: "not connected" not in text, "the daemon was not found again")
        there.tmux("send-keys", "-t", "it", "x")
        await there.until(lambda text: "Stop dflash2?" in text, "no question")
        there.tmux("send-keys", "-t", "it", "y")
        await there.until(lambda _: bool(daemon.orders), "no order came")
        there.tmux("send-keys", "-t", "it", "q")
        await there.until(lambda text: "left with 0" in text, "it did not end well")
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
def test_importing_the_screen_loads_neither_pydantic_nor_a_yaml_parser():
    code = "import sys, arcops.tui.app; print([m for m in ('pydantic', 'yaml', 'arcops.config') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"
