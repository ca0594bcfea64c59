"""Plots with axes and the rows that stand for them on a small screen, as golden lines."""

from dataclasses import replace

import msgspec
import pytest

from arcops import wire
from arcops.core.rates import Prefilling, Rates
from arcops.tui.panels.base import Room
from arcops.tui.panels.plots import (
    CARD_MEMORY,
    CARD_POWER,
    CONCURRENCY,
    DECODE,
    FINISHED,
    KV_CACHE,
    PREFILL,
    STEPS,
    PlotPanel,
    Subject,
)
from arcops.tui.panels.rates import RatesPanel
from arcops.tui.past import Mark, Past
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import card_scenes, scenes

NOW = scenes.NOW


def snapshot(**changes: object) -> Snapshot:
    status = msgspec.structs.replace(scenes.busy(), backend=scenes.backend(speculates=True))
    made = Snapshot("/s", "main", 60.0, NOW, link=Link.LIVE, status=status, history=scenes.history(600))
    return replace(made, **changes)


def plot(subject: Subject, now: Snapshot, width: int = 57, height: int = 7) -> list[str]:
    panel = PlotPanel(subject)
    panel.wanted = True
    return ["".join(text for text, _ in line) for line in panel.lines(now, Room(width, height, tall=True))]


def row(now: Snapshot, width: int = 78) -> list[str]:
    lines = RatesPanel().lines(now, Room(width, 0, tall=False))
    return ["".join(text for text, _ in line) for line in lines]


def test_a_rate_over_time():
    assert plot(DECODE, snapshot()) == [
        "── Decode   412 tok/s · last 1 min ── columns: 2 s mean ─",
        "    500 ┤▇▆▅▄▃▂▁    ▁▂▃▄▅▆▇████▇▆▅▄▃▁     ▁▂  ▆▆▇████▇▆▅▄",
        "  tok/s │███████████████████████████████████  ███████████",
        "    250 ┤███████████████████████████████████  ███████████",
        "        │███████████████████████████████████  ███████████",
        "      0 ┤███████████████████████████████████  ███████████",
        "        └──┴90 s ago──────┴60 s──────────┴30 s────────now",
    ]


@pytest.mark.parametrize("subject", [PREFILL, DECODE, CONCURRENCY, KV_CACHE, FINISHED, STEPS], ids=lambda s: s.title)
@pytest.mark.parametrize("width", [20, 57, 77, 97, 300])
def test_every_plot_keeps_to_its_room(subject: Subject, width: int):
    past = Past()
    past.take_samples(scenes.samples(600))
    lines = plot(subject, snapshot(history=past.seconds), width, 12)
    assert len(lines) == 12
    assert all(len(line) == width for line in lines[1:])
    assert subject.unit in lines[2]
    assert lines[-1].endswith("now")


def test_requests_that_wait_stand_on_those_that_run():
    points = tuple(
        wire.HistoryPoint(
            at=NOW - ago, running=3.0, waiting=5.0 if ago < 4 else 0.0, kv_usage=None, prefill=None, decode=None
        )
        for ago in reversed(range(8))
    )
    assert plot(CONCURRENCY, snapshot(history=points, window=8.0), 17, 6) == [
        "── Running and waiting █ 3 ▒ 12 ",
        "      8 ┤    ▒▒▒▒",
        "    req │    ▒▒▒▒",
        "        │▄▄▄▄████",
        "      0 ┤████████",
        "        └─────now",
    ]


def test_a_number_that_the_daemon_has_no_history_of_says_so():
    assert plot(FINISHED, snapshot())[1:] == ["no history yet"]  # the short history has no requests per second
    assert plot(DECODE, snapshot(history=()))[1:] == ["no history yet"]


def test_the_cards_together_are_plotted_where_all_of_them_are_known():
    past = Past()
    past.take_samples(scenes.samples(600))
    both = (card_scenes.glance(), card_scenes.glance(address=card_scenes.SECOND, power=None))
    now = snapshot(status=msgspec.structs.replace(scenes.busy(), cards=both), history=past.seconds)
    assert plot(CARD_MEMORY, now)[0].startswith("── Card memory   55.8 GiB ─")
    assert plot(CARD_POWER, now)[0].startswith("── Card power unknown ─")
    assert plot(CARD_MEMORY, now)[1].startswith("     30 ┤▄▄▅▄")
    assert plot(CARD_POWER, snapshot(history=past.seconds)) == []


def test_steps_are_plotted_only_where_there_is_a_draft():
    assert plot(STEPS, snapshot(status=scenes.busy())) == []


def test_nothing_is_plotted_while_nothing_serves_or_where_it_is_not_wanted():
    assert plot(DECODE, snapshot(status=scenes.stopped())) == []
    assert PlotPanel(DECODE).lines(snapshot(), Room(57, 7, tall=True)) == ()


def test_without_height_only_the_number_is_shown():
    assert plot(DECODE, snapshot(), height=3) == ["── Decode   412 tok/s · last 1 min ── columns: 2 s mean ─"]


def test_a_rate_that_is_unknown_says_why():
    status = msgspec.structs.replace(scenes.busy(), rates=Rates(absent="nothing was scraped yet"))
    assert "Decode unknown: nothing was scraped yet" in plot(DECODE, snapshot(status=status))[0]


def test_the_rows_of_a_small_screen_share_an_axis():
    found = row(snapshot(marks=(Mark(NOW - 40, "dflash2"),)))
    assert found == [
        "── Rates · last 1 min · columns: 2 s mean ────────────────────────────────────",
        "prefill   1,234 tok/s  ▂▂▂▂▂▃▄▅▆▇▇██▇▇▆▅▄▃▂▁▁▁▁▂▂▂  ▅▆▇▇██▇▇▆▅▄ to 2,500",
        "decode      412 tok/s  ▆▆▆▇▇▇▇▇████████▇▇▇▇▆▆▆▆▆▇▇  █████████▇▇ to 500",
        "                      └─────────┴60 s ago─▲────┴30 s────────now",
    ]


def test_a_prefill_that_goes_on_is_not_taken_for_nothing():
    rates = scenes.busy_rates(prefill=0.0, prefilling=Prefilling(since=1.0, rate=None, tokens_done=None, kv_slope=0.01))
    status = msgspec.structs.replace(scenes.busy(), rates=rates)
    assert row(snapshot(status=status))[1].endswith(" counted at end")
    assert row(snapshot(status=scenes.prefilling()))[1].endswith(" now 2,346")
    assert "· now 2,346 ─" in plot(PREFILL, snapshot(status=scenes.prefilling()), 97)[0]


def test_rows_without_a_past_say_so():
    assert row(snapshot(history=()))[1].endswith(" no history")
