"""A record that contradicts itself is not believed, whatever its digest says."""

from dataclasses import replace

import msgspec
import pytest

from arcops.core.evidence.identity import Divergence, Identity, StageIdentity
from arcops.core.evidence.possible import impossible
from arcops.core.evidence.run import ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.work import digest
from arcops.evidence.record import Record
from tests.core.evidence.measured import STARTED, items, itself, ladder, record, request, run, stage


def said(made: Run) -> str:
    """Of a record of this run, with the identity that follows from it."""
    return impossible(record(made))


def of_request(one: Request) -> str:
    return said(run([stage([one])]))


def of_stage(one: Stage) -> str:
    return said(run([one]))


def test_what_arcops_writes_is_possible() -> None:
    assert impossible(record()) == ""
    assert impossible(record(ladder(3, odd={2: (1, 2)}))) == ""


@pytest.mark.parametrize("began", [-1.0, 1e12])
def test_a_time_that_no_calendar_has(began: float) -> None:
    assert "after the epoch" in impossible(record(began=began))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(request("item-0"), sent=-0.5), "sent -0.5 s after the run began"),
        (replace(request("item-0"), arrivals=(-0.1, 0.2, 0.3, 0.4)), "tokens came before it was sent"),
        (replace(request("item-0"), arrivals=(0.3, 0.2, 0.3, 0.4)), "the wrong order of time"),
        (replace(request("item-0"), arrivals=(0.1,)), "1 arrivals of 4 chunks"),
        (replace(request("item-0"), chunk_tokens=(1, 1, 3, -1)), "less than no tokens"),
        (replace(request("item-0"), ended=0.11), "it ended before its last tokens came"),
        (replace(request("item-0"), ended=None), "it never ended, and yet nothing was wrong"),
        (replace(request("item-0"), user=1), "there are 1 users"),
        (replace(request("item-0"), user=-1), "there are 1 users"),
        (replace(request("item-0"), answer="sha256:nowhere"), "its answer is not in the record"),
    ],
)
def test_a_request_that_cannot_be(changed: Request, words: str) -> None:
    assert words in of_request(changed)


def test_a_request_of_no_item_of_the_workload() -> None:
    assert "no such item" in said(run([stage([request("item-0")])], items(4)[1:]))


def test_what_a_server_says_may_be_nonsense_and_is_kept() -> None:
    liar = replace(request("item-0"), prompt_tokens=-5, cached_tokens=10**12, output_tokens=-1)
    assert of_request(liar) == ""
    assert of_stage(replace(stage([request("item-0")]), after=Counters(3.0, -1.0, -1.0, kv_usage=17.0))) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(stage([request("item-0")]), pass_number=-1), "negative number"),
        (replace(stage([request("item-0")]), concurrency=0), "0 users"),
        (replace(stage([request("item-0")]), depth=-1), "a depth of -1 tokens"),
        (replace(stage([request("item-0")]), after=Counters(0.1)), "read after it before they were read before it"),
        (replace(stage([request("item-0")]), before=Counters(-1.0)), "read after it before"),
        (replace(stage([request("item-0")]), watched=Watched(-1)), "looked at -1 times"),
        (replace(stage([request("item-0")]), client=ClientLoad(1.0, -1.0, 0, 0, 0)), "negative"),
        (replace(stage([request("item-0")]), client=ClientLoad(1.0, 1.0, 0.2, 0.1, 0.3)), "in the wrong order"),
    ],
)
def test_a_stage_that_cannot_be(changed: Stage, words: str) -> None:
    assert words in of_stage(changed)


def test_a_stage_that_is_there_twice() -> None:
    assert "is there twice" in said(run([stage([request("item-0")]), stage([request("item-0")])]))


def test_a_token_that_was_flipped_in_the_record_does_not_fit_its_digest() -> None:
    made = ladder()
    flipped = {key: (*tokens[:-1], tokens[-1] + 1) for key, tokens in made.answers.items()}
    assert "has tokens of another digest" in said(replace(made, answers=flipped))


def test_a_workload_whose_digest_is_another() -> None:
    made = ladder()
    assert "the workload's digest" in said(replace(made, workload=replace(made.workload, digest=digest(b""))))
    twice = replace(made.workload, items=(made.workload.items[0], *made.workload.items))
    assert "same name" in said(replace(made, workload=twice))


def test_a_canary_of_another_time() -> None:
    made = ladder()
    assert "neither before nor after" in said(replace(made, canaries=(replace(made.canaries[0], when="during"),)))


def with_identity(identity: Identity) -> str:
    return impossible(msgspec.structs.replace(record(), identity=identity))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (StageIdentity("c4", 1, 4, 5, 0), "5 exact, 0 unknown and 0 divergent are not the 4 that were asked"),
        (StageIdentity("c4", 1, 4, 3, 0), "are not the 4"),
        (StageIdentity("c4", 1, 4, -1, 5), "fewer than none"),
        (StageIdentity("c4", 1, 1, 0, 0, (Divergence("item-3", -1, 1, 2),)), "a divergence that is none"),
        (StageIdentity("c4", 1, 1, 0, 0, (Divergence("item-3", 2, 7, 7),)), "a divergence that is none"),
    ],
)
def test_an_identity_that_cannot_be(counts: StageIdentity, words: str) -> None:
    assert words in with_identity(Identity("sha256:oracle", (counts,)))


def test_an_identity_that_does_not_follow_from_the_records_own_answers() -> None:
    odd = ladder(odd={1: (1, 2)})
    claims = itself(ladder())
    assert "does not follow" in impossible(msgspec.structs.replace(record(odd), identity=claims))
    assert impossible(msgspec.structs.replace(record(odd), identity=itself(odd))) == ""


def test_a_run_that_was_not_compared_has_nothing_that_came_of_it() -> None:
    odd = ladder(odd={1: (1, 2)})
    assert with_identity(Identity("itself", (), not_compared="no oracle was given")) == ""
    claims = replace(itself(odd), not_compared="no oracle was given")
    assert "was not compared" in impossible(msgspec.structs.replace(record(odd), identity=claims))


def bare(kind: str, **parts: object) -> Record:
    fields = {"arcops_record": 1, "kind": kind, "arcops": "0", "began": STARTED, "ended": STARTED, "command": ()}
    return msgspec.structs.replace(msgspec.convert(fields, Record), **parts)


def test_a_benchmark_has_a_run_of_its_own_kind() -> None:
    assert impossible(bare("environment")) == ""
    assert impossible(bare("ladder")) == "a record of a ladder has no run"
    assert "has the workload of a ladder" in impossible(bare("context", run=ladder()))
    assert "yet an identity" in impossible(bare("soak", identity=itself(ladder())))
