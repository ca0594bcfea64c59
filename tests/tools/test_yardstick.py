"""The yardstick: both sides ask the same, and arcops' definitions give vLLM's own figures on the same arrivals."""

from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from arcops.core.evidence.run import ClientLoad, Counters, Request, Stage, Watched
from tools.yardstick.lines import pandas
from tools.yardstick.sides import python_of
from tools.yardstick.summary import FIGURES, Measured, beside, interval, of_stage, of_vllm
from tools.yardstick.work import make

SAVED = (Path(__file__).parents[1] / "data" / "yardstick" / "vllm-bench-0.29.json").read_bytes()


class Saved(msgspec.Struct):
    """What each request brought."""

    duration: float
    start_times: list[float]
    ttfts: list[float]
    itls: list[list[float]]
    input_lens: list[int]
    output_lens: list[int]


RESULT = msgspec.json.decode(SAVED, type=Saved)
PRINTED = of_vllm(msgspec.json.decode(SAVED, type=dict[str, object]))


def as_a_stage() -> Stage:
    """What vLLM's client saw, as arcops would have written it down."""
    columns = zip(RESULT.start_times, RESULT.ttfts, RESULT.itls, RESULT.input_lens, RESULT.output_lens, strict=True)
    requests: list[Request] = []
    for number, (sent, ttft, gaps, prompt, output) in enumerate(columns):
        arrivals = tuple(accumulate(gaps, initial=ttft))
        requests.append(
            Request(
                item=f"p{number}",
                user=number % 3,
                sent=sent,
                arrivals=arrivals,
                chunk_tokens=(),
                ended=arrivals[-1],
                prompt_tokens=prompt,
                output_tokens=output,
                finish="length",
            )
        )
    nothing = Counters(at=0.0)
    load = ClientLoad(1.0, 0.1, 0.0, 0.0, 0.0)
    return Stage("c3", 1, 3, None, None, nothing, nothing, Watched(0), load, tuple(requests))


@pytest.mark.parametrize("name", FIGURES)
def test_on_the_same_arrivals_each_figure_is_vllms_own(name: str) -> None:
    # vLLM looks at the clock twice for the first token, a microsecond apart; both looks are in its TPOT.
    exactly = 1e-5 if "tpot" in name else 1e-9
    assert of_stage(as_a_stage(), RESULT.duration)[name] == pytest.approx(PRINTED[name], rel=exactly)


def test_how_long_it_took_is_told_from_the_requests_too() -> None:
    ours = of_stage(as_a_stage())
    assert ours["output_throughput"] == pytest.approx(PRINTED["output_throughput"], rel=0.02)


def test_a_failed_request_is_in_no_figure() -> None:
    stage = as_a_stage()
    failed = Request("p9", 0, 0.0, (50.0,), (), None, problem="cut")
    worse = Stage(
        "c3", 1, 3, None, None, stage.before, stage.after, stage.watched, stage.client, (*stage.requests, failed)
    )
    assert of_stage(worse, 1.0) == of_stage(stage, 1.0)


def test_both_sides_ask_the_same(tmp_path: Path) -> None:
    work = make(count=5, words=20, output=7)
    work.write(tmp_path / "work.jsonl")
    table = pandas.read_json(str(tmp_path / "work.jsonl"), lines=True)
    theirs = [(row.to_dict()["prompt"], row.to_dict()["output_tokens"]) for _, row in table.iterrows()]
    assert theirs == [(item.prompt, item.max_tokens) for item in work.items("salt")]
    assert "prompt" in table.columns
    assert len(set(work.prompts)) == 5
    assert make(5, 20, 7) == work


def test_figures_stand_beside_each_other_as_the_middle_of_their_rounds() -> None:
    def rounds(*values: float) -> list[Measured]:
        return [Measured(dict.fromkeys(FIGURES, value), 1.0, 10, 0) for value in values]

    row = beside(rounds(100.0, 102.0, 110.0), rounds(50.0, 51.0, 52.0))[0]
    assert (row.ours, row.theirs, row.ratio) == (102.0, 51.0, 2.0)
    assert row.spread == pytest.approx(10 / 102)


@pytest.mark.parametrize(
    ("first", "python"),
    [
        ("#!/opt/venv/bin/python3.12", "/opt/venv/bin/python3.12"),
        ("#!/bin/sh", "python3"),
        ("#!/usr/bin/env python3", "python3"),
    ],
)
def test_vllm_is_run_by_the_python_of_its_own_environment(first: str, python: str, tmp_path: Path) -> None:
    (tmp_path / "vllm").write_text(f"{first}\nexec something\n")
    assert python_of(tmp_path / "vllm") == python


def test_few_pairs_say_nothing_of_where_their_ratio_lies() -> None:
    assert interval([1.0] * 5) is None
    assert interval(range(6)) == (0, 5)


def test_the_interval_holds_the_median_as_often_as_it_says_and_is_no_wider() -> None:
    """Of every way in which 14 values can fall below and above the median: the number below tells where it lies."""
    low, high = interval(range(14)) or (0, 0)
    below = [bits.bit_count() for bits in range(1 << 14)]
    assert sum(low < one <= high for one in below) / len(below) >= 0.95
    assert sum(low + 1 < one <= high - 1 for one in below) / len(below) < 0.95
