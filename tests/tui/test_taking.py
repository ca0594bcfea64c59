"""What is taken away from the screen: copied values, the screen as SVG, the history as CSV."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from arcops import samples_csv, wire
from arcops.core.errors import ArcopsError
from arcops.tui import copying, exporting
from arcops.tui.dialogs import ChooseCopy, SaveAs
from tests.tui import scenes
from tests.tui.on_demand import Prepared
from tests.tui.screen_text import text_of
from tests.tui.screens import MOMENTS, Canned, Heard, no_daemon, shown, snapshot_of, until


# -- copy -------------------------------------------------------------------------------------------------------------
def labels(moment: str) -> dict[str, str]:
    return dict(copying.of_snapshot(MOMENTS[moment]()))


def test_what_runs_is_worth_copying():
    found = labels("busy")
    assert found["url"] == "http://127.0.0.1:8000"
    assert found["served name"] == "demo"
    assert found["pid"] == "4242"
    assert found["launch"] == scenes.LAUNCH
    assert found["log file"] == "/var/lib/arcops/log"


def test_of_a_failure_cause_hint_and_evidence_come_first():
    assert [label for label, _ in copying.of_snapshot(MOMENTS["failed"]())][:3] == ["cause", "hint", "evidence"]
    assert "sched" in labels("failed")["hint"]


def test_without_a_daemon_the_problem_and_its_hint_are_what_there_is():
    found = dict(copying.of_snapshot(no_daemon()))
    assert list(found) == ["problem", "hint", "socket"]


def test_what_is_unknown_cannot_be_copied():
    status = msgspec.structs.replace(scenes.busy(), backend=scenes.backend(pid=None))
    assert "pid" not in dict(copying.of_snapshot(snapshot_of(status)))


async def choose_copy(app: Heard, pilot: Pilot[None], key: str = "c") -> OptionList:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, ChooseCopy))
    await pilot.pause()
    return app.screen.query_one(OptionList)


@pytest.mark.asyncio
async def test_c_and_y_copy_what_is_chosen_whole_though_it_is_shown_cut():
    source = Canned(MOMENTS["failed"]())
    async with shown(source) as (app, pilot):
        await choose_copy(app, pilot, "c")
        await pilot.press("enter")
        await until(pilot, lambda: len(app.copied) == 1)
        await choose_copy(app, pilot, "y")
        assert "…" in text_of(app)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: len(app.copied) == 2)
        failure = scenes.failed().failure
        assert failure is not None
        assert app.copied == [f"{failure.cause}: {failure.summary}", failure.evidence]
        assert app.said[0].startswith("copied: kv_cache_too_small")
        assert source.asked == []


@pytest.mark.asyncio
async def test_a_value_with_markup_is_shown_and_copied_as_it_is():
    status = msgspec.structs.replace(scenes.busy(), backend=scenes.backend(served_name="[b]x[/b]\x1b[2J"))
    async with shown(Canned(snapshot_of(status))) as (app, pilot):
        options = await choose_copy(app, pilot)
        assert "[b]x[/b]" in text_of(app)
        options.highlighted = 1
        await pilot.press("enter")
        await until(pilot, lambda: app.copied == ["[b]x[/b]\x1b[2J"])
        assert "\x1b" not in app.said[0]


# -- export -----------------------------------------------------------------------------------------------------------
async def save(app: Heard, pilot: Pilot[None], key: str, path: Path | None) -> str:
    """Press the key, type a path (or take the one that is proposed) and enter; what was proposed."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, SaveAs))
    await pilot.pause()
    field = app.screen.query_one(Input)
    proposed = field.value
    if path is not None:
        field.value = str(path)
    await pilot.press("enter")
    await until(pilot, lambda: bool(app.said))
    return proposed


@pytest.mark.asyncio
async def test_the_screen_is_written_to_the_current_folder_under_a_name_with_instance_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        proposed = await save(app, pilot, "S", None)
        file = tmp_path / proposed
        assert app.said[0].startswith(f"written: {file}")
    assert proposed.startswith("arcops-main-screen-20")
    text = "".join(ElementTree.parse(file).getroot().itertext()).replace("\N{NO-BREAK SPACE}", " ")  # noqa: S314 - our own
    assert "serving dflash2" in text
    assert "Write the screen" not in text, "the question is no part of the picture"
    assert "url(http" not in text.replace('"', ""), "whoever looks at it asks nobody for fonts"


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["S", "H"])
async def test_a_folder_that_cannot_be_written_to_is_one_clear_message(tmp_path: Path, key: str):
    (tmp_path / "file").write_text("")
    source = with_history()
    async with shown(source) as (app, pilot):
        await save(app, pilot, key, tmp_path / "file" / "x")
        assert app.said == [f"cannot write {tmp_path}/file/x: Not a directory\nhint: choose another folder"]


@pytest.mark.asyncio
async def test_the_home_of_nobody_is_one_clear_message():
    async with shown(with_history()) as (app, pilot):
        await save(app, pilot, "S", Path("~no-such-user-here/x"))
        assert app.said[0].startswith("there is no place ~no-such-user-here/x")


def test_where_the_disk_is_full_no_half_of_a_file_is_left(tmp_path: Path):
    program = f"""
import asyncio, resource, signal
from pathlib import Path
from arcops.core.errors import ArcopsError
from arcops.tui import exporting
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    asyncio.run(exporting.write(Path({str(tmp_path / "big")!r}), "x" * 100_000))
except ArcopsError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"cannot write {tmp_path / 'big'}: File too large\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.asyncio
async def test_a_file_that_is_there_is_kept(tmp_path: Path):
    (tmp_path / "mine").write_text("mine")
    async with shown(with_history()) as (app, pilot):
        await save(app, pilot, "S", tmp_path / "mine")
        assert "is there already" in app.said[0]
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.asyncio
async def test_escape_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with shown(with_history()) as (app, pilot):
        for key in ("S", "H"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, SaveAs))
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)
    assert os.listdir(tmp_path) == []


def with_history(points: int = 90) -> Canned:
    source = Canned(MOMENTS["busy"]())
    found = scenes.samples(points, until=scenes.NOW, step=60)
    source.on_demand.numbers = wire.Samples(step=60.0, points=found, next=None)
    return source


@pytest.mark.asyncio
async def test_the_history_is_written_with_the_columns_of_arcops_history(tmp_path: Path):
    source = with_history()
    async with shown(source) as (app, pilot):
        proposed = await save(app, pilot, "H", tmp_path / "numbers.csv")
    assert proposed.startswith("arcops-main-history-20")
    assert proposed.endswith(".csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "numbers.csv").read_text())))
    assert list(rows[0]) == samples_csv.columns()
    assert source.on_demand.numbers is not None
    assert len(rows) == len(source.on_demand.numbers.points)
    assert rows[0]["profile"] == "dflash2"
    assert rows[0]["queue_p50_s"] == "", "unknown is empty, and not 0"


@pytest.mark.asyncio
async def test_a_daemon_that_has_no_history_is_said_before_a_name_is_asked_for():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await pilot.press("H")
        await until(pilot, lambda: bool(app.said))
        assert "there is no history yet" in app.said[0]
        source.on_demand.refusal = ArcopsError("the daemon does not answer in time", hint="see its log")
        await pilot.press("H")
        await until(pilot, lambda: len(app.said) == 2)
        assert app.said[1] == "the daemon does not answer in time\nhint: see its log"
        assert len(app.screen_stack) == 1


class Pages(Prepared):
    """A history that comes in pages."""

    async def samples(self, since: float, until: float, step: float | None = None) -> wire.Samples:
        self.asked.append(f"{since:g} {step}")
        later = since + 600.0
        points = scenes.samples(1, until=later)
        return wire.Samples(step=60.0, points=points, next=later if later < 1800.0 else None)


@pytest.mark.asyncio
async def test_all_pages_of_the_history_are_asked_for():
    source = Pages()
    text = await exporting.history(source, 3000.0)
    assert source.asked == ["0 60.0", "600 60.0", "1200 60.0"]
    assert len(text.splitlines()) == 4
