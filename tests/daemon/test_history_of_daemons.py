"""The numbers' past over real daemons: killed, their clock set, their file taken away; and their own log."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from arcops import wire
from tests.daemon.crashing import CrashingRig
from tests.daemon.rig import Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

ALL = -1e9
"""As far back as there is anything, whatever the clock says."""


@pytest.fixture
def crashing(tmp_path: Path) -> Generator[CrashingRig]:
    with CrashingRig(tmp_path) as rig:
        yield rig


def samples(rig: Rig, step: float) -> list[wire.SamplePoint]:
    with rig.client() as client:
        return [point for page in client.all_samples(ALL, 1e11, step) for point in page.points]


def tokens(points: Sequence[wire.SamplePoint]) -> int:
    return round(sum(point.seconds * (point.decode or 0.0) for point in points))


def serve(rig: Rig, profile: str = "dflash2") -> None:
    rig.start()
    switched = rig.arcops("switch", profile)
    assert switched.code == 0, switched.err
    eventually(lambda: samples(rig, 1.0), within=60.0, why="nothing was scraped")


def ask(rig: Rig, count: int) -> None:
    """So many requests of 40 tokens, each seen by the daemon."""
    before = tokens(samples(rig, 1.0))
    for _ in range(count):
        rig.complete(40)
    eventually(lambda: tokens(samples(rig, 1.0)) >= before + 40 * count, within=60.0, why="not all was seen")


def test_what_was_seen_outlasts_a_kill_and_windows_and_plots_reach_back_over_it(rig: Rig) -> None:
    serve(rig)
    ask(rig, 5)
    until_written(rig)
    rig.kill_daemon()
    rig.start()
    rig.wait_for("serving")
    ask(rig, 2)
    assert tokens(samples(rig, 1.0)) == tokens(samples(rig, 60.0)) == 280
    (launch,) = {point.launch_id for point in samples(rig, 60.0)}
    with rig.client() as client:
        status, plot = client.status(3600.0), client.history(3600.0)
    assert status.daemon.started_at > samples(rig, 1.0)[0].at, "these points are older than the daemon"
    assert status.rates.launch_id == launch
    assert status.rates.at is not None
    assert status.rates.at - status.rates.seconds < status.daemon.started_at, "and so is the start of the window"
    assert plot.points[0].at < status.daemon.started_at
    assert status.trouble == ()


def until_written(rig: Rig) -> None:
    """Until all that was seen so far is on the disk: in the second batch from now at the latest."""
    batches = on_disk(rig)
    eventually(lambda: on_disk(rig) >= batches + 2, within=60.0, why="nothing was written")


def on_disk(rig: Rig) -> int:
    """How many batches were written."""
    with closing(sqlite3.connect(f"file:{rig.paths.history}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM marks").fetchone()[0])


def test_an_orderly_end_loses_nothing_over_launches_and_profiles(rig: Rig) -> None:
    serve(rig, "dflash2")
    ask(rig, 2)
    assert rig.arcops("switch", "target-only").code == 0
    eventually(lambda: {point.profile for point in samples(rig, 1.0)} == {"dflash2", "target-only"}, within=60.0)
    ask(rig, 3)
    before = samples(rig, 1.0)
    assert rig.end_daemon(60.0) == 0
    rig.start()
    after = samples(rig, 1.0)
    assert [point.at for point in after[: len(before)]] == [point.at for point in before]
    assert tokens(after) == 200
    by_minute = samples(rig, 86_400.0)
    assert sorted(point.profile for point in by_minute) == ["dflash2", "target-only"]
    first = next(point for point in by_minute if point.profile == "dflash2")
    second = next(point for point in by_minute if point.profile == "target-only")
    assert (tokens([first]), tokens([second])) == (80, 120)
    assert first.tokens_per_step is not None
    assert second.tokens_per_step is None, "there is nothing to speculate with: unknown, not one"
    assert first.ttft is not None
    assert first.ttft.count == 2.0


def test_a_clock_that_is_set_while_it_runs_costs_no_point(crashing: CrashingRig) -> None:
    serve(crashing)
    ask(crashing, 2)
    crashing.step_clock(-7200.0)
    ask(crashing, 2)
    crashing.step_clock(+7200.0)
    ask(crashing, 2)
    assert tokens(samples(crashing, 1.0)) == tokens(samples(crashing, 60.0)) == 240
    until_written(crashing)
    crashing.kill_daemon()
    crashing.start()
    crashing.wait_for("serving")
    ask(crashing, 1)
    assert tokens(samples(crashing, 60.0)) == 280


def test_a_damaged_history_costs_the_past_and_nothing_else(rig: Rig) -> None:
    serve(rig)
    assert rig.end_daemon(60.0) == 0
    for path in rig.paths.state_dir.glob("history.db*"):
        path.unlink()
    rig.paths.history.write_bytes(b"no database" * 1000)
    rig.start()
    rig.wait_for("stopped", "serving", "starting")
    eventually(
        lambda: any("the numbers' history was corrupt" in event.reason for event in events(rig)),
        within=60.0,
        why="nothing was told",
    )
    assert rig.status().trouble == ()


def events(rig: Rig) -> tuple[wire.Event, ...]:
    with rig.client() as client:
        return client.events().events


def test_the_commands_show_the_past_and_the_supervisors_own_log(rig: Rig) -> None:
    rig.start()
    empty = rig.arcops("history")
    assert (empty.code, empty.out) == (0, "")
    assert "no numbers" in empty.err
    assert rig.arcops("switch", "dflash2").code == 0
    eventually(lambda: len(samples(rig, 1.0)) >= 2, within=60.0)
    assert "== dflash2 (launch " in rig.arcops("history", "--step", "1s").out
    header, *rows = rig.arcops("history", "--csv").out.splitlines()
    assert header.startswith("time,covered_s,launch,profile,phase,")
    assert rows
    own = rig.arcops("logs", "--supervisor", "-n", "5").out.splitlines()
    assert 1 <= len(own) <= 5
    assert all(" [arcopsd] " in line for line in own)
    assert "serves" in own[-1]
    rig.end_daemon()
    assert rig.arcops("history").code == 8
    assert rig.arcops("logs", "--supervisor").code == 8
