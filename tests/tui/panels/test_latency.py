"""Latencies with the bounds that the histograms give, at all widths."""

import msgspec
import pytest

from arcops.core.rates import Rates
from arcops.tui.panels.base import Room
from arcops.tui.panels.latency import LatencyPanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes


def lines(rates: Rates, width: int = 78) -> list[str]:
    status = msgspec.structs.replace(scenes.busy(), rates=rates)
    snapshot = Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=status)
    return ["".join(text for text, _ in line) for line in LatencyPanel().lines(snapshot, Room(width, 0, tall=False))]


def test_all_of_it_at_80_columns():
    assert lines(scenes.busy_rates()) == [
        "── Latency · last 1 min p50 ───────── p90 ───────── p99 ──────── mean ─ count ",
        "TTFT             0.25–0.5 s    0.5–0.75 s     > 2,560 s        0.31 s      72",
        "inter-token         ≤ 10 ms      10–25 ms     75–100 ms       12.3 ms      72",
        "queue               ≤ 0.3 s       5–7.5 s   640–2,560 s        1.25 s      72",
        "end to end          2.5–5 s       15–20 s 1,920–7,680 s         8.4 s      72",
    ]


@pytest.mark.parametrize(("width", "has", "lacks"), [(58, "p99", "mean"), (70, "mean", "count"), (77, "count", "none")])
def test_a_narrow_screen_keeps_the_quantiles(width: int, has: str, lacks: str):
    found = lines(scenes.busy_rates(), width)
    assert has in found[0]
    assert lacks not in found[0]
    assert all(len(line) <= width for line in found)
    assert all("1,920–7,680 s" in line for line in found[-1:])


def test_each_line_says_why_it_is_unknown():
    found = lines(scenes.busy_rates(queue=None))
    assert found[3] == "queue        unknown: nothing observed in the last 1 min"
    assert lines(Rates(absent="nothing was scraped yet"))[1:] == ["unknown: nothing was scraped yet"]
