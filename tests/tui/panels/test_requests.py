"""Running and waiting beside the KV cache, and what has finished."""

import msgspec
import pytest

from arcops import wire
from arcops.core.rates import Rates
from arcops.tui.panels.base import Room
from arcops.tui.panels.requests import RequestsPanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes


def lines(rates: Rates, width: int = 78, **backend: object) -> list[str]:
    status: wire.Status = msgspec.structs.replace(scenes.busy(), rates=rates, backend=scenes.backend(**backend))
    snapshot = Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=status)
    return ["".join(text for text, _ in line) for line in RequestsPanel().lines(snapshot, Room(width, 0, tall=False))]


def test_all_of_it_at_80_columns():
    assert lines(scenes.busy_rates()) == [
        "── Requests · last 1 min · length 2 · stop 70 ────────────────────────────────",
        "running     3 of 16   waiting    12   KV cache ██████████████▍░░░░░░░░  62.4 %",
        "finished 1.20 req/s  preempted     1  prefix hits  43.1 %",
    ]


def test_a_wide_screen_says_how_much_the_cache_holds():
    assert lines(scenes.busy_rates(), 97)[1].endswith(" 62.4 % of 321,024 tok")


def test_numbers_that_grow_move_nothing():
    few, many = (
        lines(scenes.busy_rates()),
        lines(
            scenes.busy_rates(
                running=128, waiting=1024, kv_usage=1.0, preemptions=999, prefix_hit_rate=1.0, requests=99.0
            )
        ),
    )
    for small, large in zip(few[1:], many[1:], strict=True):
        for label in ("waiting", "KV cache", "preempted", "prefix hits"):
            assert small.find(label) == large.find(label)


def test_a_limit_that_vllm_chose_is_not_made_up():
    assert lines(scenes.busy_rates(), max_running=None)[1].startswith("running     3   waiting    12   KV cache ")


def test_a_cache_that_is_nearly_full_says_so():
    assert lines(scenes.busy_rates(kv_usage=0.953, kv_capacity=None))[1].endswith(" 95.3 % nearly full")


@pytest.mark.parametrize("width", [41, 45, 51, 57, 58, 77, 200])
@pytest.mark.parametrize("most", [None, 16, 1024])
@pytest.mark.parametrize("usage", [0.0, 0.953, 1.0])
def test_at_any_width_the_gauge_has_its_whole_figure_and_the_line_fits(width: int, most: int | None, usage: float):
    line = lines(scenes.busy_rates(kv_usage=usage), width, max_running=most)[1]
    assert len(line) <= width
    assert f" {usage * 100:.1f} %" in line


def test_where_there_is_little_room_the_number_outlives_its_bar():
    assert lines(scenes.busy_rates(kv_usage=0.0), 57)[1] == "running     3 of 16  waiting    12  KV cache ░░░░   0.0 %"
    assert lines(scenes.busy_rates(kv_usage=0.0), 41)[1] == "running     3  waiting    12  KV    0.0 %"


def test_what_is_unknown_is_said_and_is_not_zero():
    bare = scenes.busy_rates(waiting=None, kv_usage=None, requests=None, preemptions=None, prefix_hit_rate=None)
    _, now, past = lines(bare)
    assert "waiting unknown" in now
    assert "KV cache unknown: the server does not say" in now
    assert past == "finished    unknown  preempted unknown  prefix hits  unseen"


def test_bad_ends_come_first_and_only_what_happened():
    found = {"stop": 7.0, "abort": 0.0, "error": 2.0, "repetition": 1.0}
    assert lines(scenes.busy_rates(finished=found))[0].startswith(
        "── Requests · last 1 min · error 2 · stop 7 · repetition 1 ─"
    )
    assert "error 2" in lines(scenes.busy_rates(finished=found), width=40)[0]
    assert "none finished" in lines(scenes.busy_rates(finished={"stop": 0.0}))[0]
