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
def test_importing_the_screen_loads_neither_pydantic_nor_a_yaml_parser():
    code = "import sys, arcops.tui.app; print([m for m in ('pydantic', 'yaml', 'arcops.config') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"
