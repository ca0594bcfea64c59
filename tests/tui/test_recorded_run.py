"""A real run of vLLM, recorded while a known load went through it: played, the screen shows what was true then.

tests/data/recording holds it, with the time at which each chunk of each request reached the client; it was made by
`python -m tools.screen_truth --keep`.
"""

from functools import cache
from pathlib import Path

import pytest

from arcops import recording, wire, words
from arcops.recording import Recording
from arcops.tui.replaying.player import PlayerScreen
from arcops.tui.replaying.replay import Replay
from tests.tui.screen_text import text_of
from tools.screen_truth import shown
from tools.screen_truth.__main__ import STAGES, kept, span
from tools.screen_truth.load import Timing
from tools.screen_truth.truth import Truth, agrees, quantile, rates_beside, truth

FOLDER = Path(__file__).resolve().parent.parent / "data" / "recording"
MOST_BYTES = 200_000
OFF = 0.02
"""Share of the truth by which a rate may be wrong."""
ROUNDED = 0.006
"""What rounding to three digits may add to that."""
LATER = 0.045
"""Seconds by which the client saw things later than vLLM did, on two busy cores: docs/benchmarks.md says how much."""
STAGE_NAMES = [stage.name for stage in STAGES]


@cache
def run() -> tuple[Recording, list[Timing], dict[str, float]]:
    """The recording, the timings, and when (in seconds from its beginning) each stage was looked at."""
    found = recording.read(FOLDER / "recording.gz")
    timings, looks = kept(FOLDER / "timings.json.gz")
    return found, timings, {name: at - found.header.at for name, at in looks}


def status_at(found: Recording, at: float) -> wire.Status:
    replay = Replay(found, clock=lambda: 0.0)
    replay.seek(at)
    status = replay.snapshot().status
    assert status is not None
    return status


def of_stage(name: str) -> tuple[wire.Status, Truth, float]:
    found, timings, looks = run()
    status = status_at(found, looks[name])
    return status, truth(timings, *span(status)), looks[name]


def test_it_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", STAGE_NAMES)
def test_each_rate_is_true(name: str) -> None:
    status, true, _ = of_stage(name)
    compared = {one.what: one for one in rates_beside(true, status.rates)}
    for what in ("prefill", "decode", "requests"):
        assert abs(compared[what].off) < OFF, compared[what]


def test_the_accepted_length_is_that_of_the_chunks_where_the_server_was_not_held_up() -> None:
    """Under more load vLLM puts what several steps brought into one chunk."""
    status, true, _ = of_stage(STAGE_NAMES[0])
    compared = {one.what: one for one in rates_beside(true, status.rates)}
    assert abs(compared["tokens per step"].off) < OFF


@pytest.mark.parametrize("name", STAGE_NAMES)
def test_each_quantile_lies_inside_what_is_stated(name: str) -> None:
    """The client saw everything a little later than vLLM, and nothing earlier."""
    status, true, _ = of_stage(name)
    rates = status.rates
    for values, told in ((true.ttft, rates.ttft), (true.inter_token, rates.inter_token), (true.e2e, rates.e2e)):
        assert told is not None
        for q, bounds in ((0.5, told.p50), (0.9, told.p90), (0.99, told.p99)):
            assert agrees(values, q, bounds, LATER), (name, q, bounds, quantile(values, q))


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_screen_draws_those_numbers(size: tuple[int, int]) -> None:
    found = run()[0]
    replay = Replay(found, clock=lambda: 0.0)
    app = PlayerScreen(replay)
    async with app.run_test(size=size) as pilot:
        before = 0.0
        for name in STAGE_NAMES:
            status, true, at = of_stage(name)
            replay.seek(at - before)
            before = at
            await pilot.pause(0.1)
            text = text_of(app)
            for label, unit, truly in (
                ("prefill", "tok/s", true.prefill),
                ("decode", "tok/s", true.decode),
                ("finished", "req/s", true.requests),
            ):
                drawn = shown.rate(text, label, unit)
                assert drawn == pytest.approx(truly, rel=OFF + ROUNDED), (name, label, text)
            for label, told in (("TTFT", status.rates.ttft), ("inter-token", status.rates.inter_token)):
                assert told is not None
                expected = [words.quantile(one) for one in (told.p50, told.p90, told.p99)]
                assert shown.cells(text, label)[:3] == expected, text


def test_the_truth_is_made_of_what_came_within_the_time() -> None:
    timings = [
        Timing(0.0, 100, [(1.0, 1), (1.5, 3), (2.5, 4)], 2.5),
        Timing(1.0, 50, [(2.0, 1), (3.5, 3)], 3.5),
    ]
    true = truth(timings, 1.0, 3.0)
    assert (true.prefill, true.decode, true.requests) == (25.0, 2.0, 0.5)
    assert (true.ttft, true.inter_token, true.e2e) == ((1.0,), (0.5, 1.0), (2.5,))
    assert quantile((1.0, 2.0, 3.0, 4.0), 0.5) == 2.0
    assert quantile((), 0.5) is None
