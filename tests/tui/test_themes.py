"""Light, dark, sixteen colours, none: what is shown, and what is remembered."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.tui.themes import THEMES
from tests.helpers import eventually
from tests.tui import scenes
from tests.tui.fake_daemon import FakeDaemon
from tests.tui.screen_text import text_of
from tests.tui.screens import MOMENTS, Canned, shown, until


@pytest.mark.asyncio
async def test_t_goes_through_the_themes_and_the_next_screen_begins_with_the_last_one(tmp_path: Path):
    file = tmp_path / "state" / "screen.json"
    async with shown(Canned(MOMENTS["busy"]()), remembered=file) as (app, pilot):
        assert app.theme == THEMES["dark"]
        await pilot.press("t")
        assert app.theme == THEMES["light"]
        assert app.said == ["theme: light"]
    async with shown(Canned(MOMENTS["busy"]()), remembered=file) as (app, pilot):
        assert app.theme == THEMES["light"]
        await pilot.press("t", "t")
        assert app.theme == THEMES["dark"]
    assert file.stat().st_mode & 0o022 == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("content", ["", "{", '{"theme": 7}', '{"theme": "no such theme"}', "\x00"])
async def test_a_file_that_makes_no_sense_is_no_choice(tmp_path: Path, content: str):
    file = tmp_path / "screen.json"
    file.write_text(content)
    async with shown(Canned(MOMENTS["busy"]()), remembered=file) as (app, _):
        assert app.theme == THEMES["dark"]


@pytest.mark.asyncio
async def test_a_folder_that_cannot_be_written_to_harms_nothing(tmp_path: Path):
    (tmp_path / "state").write_text("a file where a folder should be")
    async with shown(Canned(MOMENTS["busy"]()), remembered=tmp_path / "state" / "screen.json") as (app, pilot):
        await pilot.press("t")
        assert app.theme == THEMES["light"]
        assert "serving dflash2" in text_of(app)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [("NO_COLOR", "1", "NO_COLOR is set"), ("TERM", "xterm-16color", "sixteen colours")],
)
async def test_without_the_colours_for_it_there_is_no_other_theme(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
):
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv(variable, value)
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        assert app.theme == THEMES["terminal"]
        await pilot.press("t")
        await until(pilot, lambda: bool(app.said))
        assert why in app.said[0]
        assert app.theme == THEMES["terminal"]


@pytest.mark.asyncio
@pytest.mark.parametrize("moment", ["busy", "failed", "starting", "daemon-silent"])
async def test_no_theme_changes_a_word(moment: str):
    """Colour is never the only carrier: the words are the same in all of them."""
    async with shown(Canned(MOMENTS[moment]())) as (app, pilot):
        before = text_of(app)
        for _ in THEMES:
            await pilot.press("t")
            await pilot.pause()
            assert text_of(app) == before


def test_how_the_screen_looks_is_kept_beside_the_instances_not_in_one_of_them():
    paths = Paths.of("main", {"XDG_STATE_HOME": "/home/op/state", "XDG_RUNTIME_DIR": "/run/user/1000"})
    assert paths.screen == Path("/home/op/state/arcops/screen.json")
    assert paths.screen.parent == paths.state_dir.parent


SGR = re.compile(rb"\x1b\[([0-9;]*)m")


class Window:
    """A terminal whose every byte is kept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes = b""

    def press(self, key: bytes) -> None:
        os.write(self._descriptor, key)

    def holds(self, wanted: bytes) -> bool:
        """Whether this was ever written."""
        with_more = True
        while with_more:
            try:
                piece = os.read(self._descriptor, 65536)
            except (BlockingIOError, OSError):
                piece = b""
            self.bytes += piece
            with_more = bool(piece)
        return wanted in self.bytes

    def codes(self) -> set[str]:
        """Every parameter of every SGR sequence, those of colours with what they begin with (38, 48)."""
        return {code for found in SGR.findall(self.bytes) for code in found.decode().split(";") if code}


@contextmanager
def window(runtime: Path, **environment: str) -> Generator[tuple[Window, "subprocess.Popen[bytes]"]]:
    """The real program on a terminal of its own."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.set_blocking(ours, False)
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLORTERM", "TERM"}}
    env = {**kept, "XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime), **environment}
    program = subprocess.Popen(
        [sys.executable, "-m", "arcops.cli.main", "tui"], stdin=its, stdout=its, stderr=its, env=env
    )
    os.close(its)
    try:
        yield Window(ours), program
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def look(runtime: Path, keys: tuple[tuple[bytes, bytes], ...], **environment: str) -> set[str]:
    """Press keys, wait for what each brings, leave; the codes that were sent."""
    with window(runtime, **environment) as (there, program):
        eventually(lambda: there.holds(b"3.14"), why="the screen did not come")
        for key, brings in keys:
            there.press(key)
            eventually(lambda brings=brings: there.holds(brings), why=f"{key} did not bring {brings}")
        there.press(b"\x03")
        eventually(lambda: not there.holds(_NEVER) and program.poll() is not None, why="it did not end")
        return there.codes()


_NEVER = b"no program says this"
"""Asked for, so that what is there is read: a program that cannot write does not end."""
CHOOSER = ((b"c", b"Copy what?"),)


@pytest.mark.processes
@pytest.mark.asyncio
async def test_what_a_real_terminal_is_sent():
    """With NO_COLOR no colour at all, bold and underlined instead; with sixteen colours none that is not among them."""
    with tempfile.TemporaryDirectory(prefix="arcops-") as directory:
        runtime = Path(directory)
        (runtime / "arcops").mkdir(mode=0o700)
        daemon = FakeDaemon(runtime / "arcops" / "main.sock", scenes.speculating(), scenes.history(60), scenes.LOG)
        await daemon.start()
        try:
            plain = await asyncio.to_thread(look, runtime, CHOOSER, TERM="xterm-256color", NO_COLOR="1")
            few = await asyncio.to_thread(look, runtime, CHOOSER, TERM="xterm-16color")
            all_of_them = await asyncio.to_thread(
                look, runtime, CHOOSER, TERM="xterm-256color", COLORTERM="truecolor", NO_COLOR=""
            )
        finally:
            await daemon.die()
    assert plain <= {"0", "1", "2", "4", "39", "49"}
    assert {"1", "2", "4"} <= plain, "titles, what is quiet, and what is selected"
    named = {str(code) for base in (30, 40, 90, 100) for code in range(base, base + 8)}
    assert few <= {"0", "1", "2", "4", "39", "49"} | named
    assert few & {"32", "92"}, "what is well is green"
    assert {"38", "48"} <= all_of_them, "an empty NO_COLOR asks for nothing"
