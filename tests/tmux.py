"""A real terminal: tmux with one window in which a program runs, and somebody who reads its screen."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import cannot_run_here, eventually


class Terminal:
    """A tmux server of its own."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "tmux"

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        # A caller's idea of the terminal's size would be believed before the terminal's own.
        env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env).stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "it")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "it", *keys)

    def until(self, wanted: Callable[[str], bool], why: str, within: float = 15.0) -> str:
        """The first screen that is as wanted. `why` says what it means if there is none."""

        def look() -> str | None:
            text = self.screen()
            return text if wanted(text) else None

        return eventually(look, within=within, every=0.1, why=why)


@contextmanager
def terminal(command: str, environment: Mapping[str, str], size: tuple[int, int]) -> Generator[Terminal]:
    """Run `command` in a window of `size` columns and rows; everything ends with the context."""
    if shutil.which("tmux") is None:
        cannot_run_here("tmux is not installed")
    with tempfile.TemporaryDirectory(prefix="arcops-tmux-") as directory:
        there = Terminal(Path(directory))
        settings = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        width, height = (str(cells) for cells in size)
        there.tmux("new-session", "-d", "-s", "it", "-x", width, "-y", height, *settings, command)
        try:
            yield there
        finally:
            there.tmux("kill-server")
