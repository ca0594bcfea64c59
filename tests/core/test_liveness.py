"""What counts as progress."""

from dataclasses import replace

import pytest

from arcops.core.liveness import CPU_NOTICEABLE, serving_progress, starting_progress
from arcops.core.world import Activity

OLD = Activity(log_bytes=1000, cpu_seconds=50.0, counters=700.0, kv_usage=0.25)


@pytest.mark.parametrize(
    ("new", "seconds", "progress"),
    [
        (OLD, 1.0, False),
        (replace(OLD, log_bytes=1001), 1.0, True),
        (replace(OLD, log_bytes=10), 1.0, True),
        (replace(OLD, cpu_seconds=49.0), 1.0, True),
        (replace(OLD, cpu_seconds=50.0 + CPU_NOTICEABLE), 1.0, True),
        (replace(OLD, cpu_seconds=50.4), 1.0, False),
        (replace(OLD, cpu_seconds=56.0), 600.0, False),
        (replace(OLD, cpu_seconds=80.0), 600.0, True),
        (replace(OLD, counters=9.0, kv_usage=0.9), 1.0, False),
    ],
    ids=[
        "nothing", "a log line", "a new log", "a new process", "compiling", "a crumb of processor time",
        "crumbs that add up over ten minutes", "a twentieth of a core over ten minutes", "counters do not count yet",
    ],
)  # fmt: skip
def test_progress_of_a_start(new: Activity, seconds: float, progress: bool) -> None:
    assert starting_progress(OLD, new, seconds) is progress


@pytest.mark.parametrize(
    ("new", "progress"),
    [
        (OLD, False),
        (replace(OLD, counters=701.0), True),
        (replace(OLD, counters=0.0), True),
        (replace(OLD, kv_usage=0.26), True),
        (replace(OLD, log_bytes=5000, cpu_seconds=500.0), False),
    ],
    ids=["nothing", "a token", "counters begin anew", "a step of a long prefill", "a hung engine that spins and logs"],
)
def test_progress_of_work_in_flight(new: Activity, progress: bool) -> None:
    assert serving_progress(OLD, new) is progress


def test_the_first_sign_of_life_is_progress() -> None:
    assert starting_progress(None, OLD, 0.0)
    assert serving_progress(None, OLD)
