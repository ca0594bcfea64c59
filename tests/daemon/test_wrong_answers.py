"""Answers that come in time and are wrong, and numbers that say that something is: told, and judged by their worth."""

from typing import cast

import pytest

from tests.daemon.rig import Rig
from tests.daemon.test_hangs import engine_of, evidence, reasons, restarted, served
from tests.helpers import eventually

pytestmark = pytest.mark.processes

PROMPT = "one two three"
OFTEN = {"idle_probe": "0.3s"}


def right(rig: Rig) -> str:
    """What the fake says to PROMPT when that is the first it hears; always the same."""
    rig.profile("unasked", extends="target-only", checks={"first_answer": False})
    served(rig, "unasked")
    said = cast("list[dict[str, object]]", rig.complete(8, PROMPT)["choices"])
    text = str(said[0]["text"])
    assert rig.arcops("stop").code == 0
    return text


def trouble(rig: Rig) -> str:
    return " | ".join(rig.status().trouble)


def test_a_start_whose_known_answer_is_wrong_fails_with_what_was_expected_and_what_came(rig: Rig) -> None:
    text = right(rig)
    known = {"prompt": PROMPT, "equals": "no such thing", "max_tokens": 8}
    rig.profile("strict", extends="target-only", checks={"known_answer": known, "first_answer": False})
    switched = rig.arcops("switch", "strict")
    assert switched.code == 7
    assert f"expected 'no such thing', got {text!r}" in switched.err
    assert "checks.known_answer" in switched.err
    assert (evidence(rig, "wrong_answer") / "why.txt").exists()


def test_a_wrong_known_answer_of_one_that_serves_is_told_until_a_right_one_comes(rig: Rig) -> None:
    text = right(rig)
    known = {"prompt": PROMPT, "equals": text, "max_tokens": 8}
    rig.profile("strict", extends="target-only", checks=OFTEN | {"known_answer": known})
    assert rig.arcops("switch", "strict").code == 0
    starts = rig.starts()
    assert trouble(rig) == ""
    rig.misbehave(astray=True)
    eventually(lambda: "the known answer is wrong: expected" in trouble(rig), why="nobody is told")
    rig.misbehave(astray=False)
    eventually(lambda: trouble(rig) == "", why="it is still told")
    told = eventually(lambda: now if len(now := reasons(rig, "quality")) == 2 else None, why="the events")
    assert told is not None
    assert "the known answer is wrong" in told[0]
    assert "no longer: " in told[1]
    assert (rig.phase(), rig.starts()) == ("serving", starts)
    assert [one for one in reasons(rig, "phase") if one.startswith("suspect")] == []


def test_one_token_over_and_over_is_doubted_asked_again_and_ended(rig: Rig) -> None:
    rig.profile("judged", extends="target-only", checks=OFTEN | {"degenerate": True})
    served(rig, "judged")
    rig.misbehave(garbage=True)
    restarted(rig)
    phases = reasons(rig, "phase")
    assert any(one.startswith("suspect: it was idle, and its answer was bad: one token over") for one in phases), phases
    assert any(one.startswith("stopping: the answers are worthless: one token over and over: '!!!!") for one in phases)


def test_a_start_that_says_one_token_over_and_over_fails(rig: Rig) -> None:
    rig.misbehaving("judged", garbage=True)
    path = rig.paths.config_dir / "profiles" / "judged.yaml"
    path.write_text(path.read_text() + "checks: {degenerate: true}\n")
    rig.start()
    switched = rig.arcops("switch", "judged")
    assert switched.code == 7
    assert "one token over and over" in switched.err


def test_one_token_is_not_judged_where_nobody_asked_for_it(rig: Rig) -> None:
    rig.misbehaving("garbage", garbage=True)
    served(rig, "garbage")
    assert rig.phase() == "serving"
    assert engine_of(rig)


def test_a_draft_that_is_never_accepted_is_told_and_left_alone(rig: Rig) -> None:
    rig.profile("dflash2", extends="target-only", speculation={"method": "dflash", "model": "draft", "num_tokens": 3},
                checks={"acceptance_floor": 0.05}, runtime={"env": {"FAKE_VLLM_ACCEPTANCE": "0"}})  # fmt: skip
    served(rig, "dflash2")
    rig.complete(400)
    words = eventually(lambda: now if "not speculating" in (now := trouble(rig)) else None, why="nobody is told")
    assert words is not None
    assert words.startswith("serving, but not speculating (acceptance 0.00 over ")
    assert words.endswith(" drafted tokens, floor 0.05)")
    eventually(lambda: len(reasons(rig, "quality")) == 1, why="it is no event")
    rig.complete(400)
    assert len(reasons(rig, "quality")) == 1
    rig.misbehave(acceptance=0.9)
    rig.complete(1600)
    eventually(lambda: trouble(rig) == "", why="it is still told")
    assert rig.starts() == 1


def test_requests_with_nan_in_their_logits_are_told(rig: Rig) -> None:
    served(rig)
    rig.misbehave(corrupted=2)
    eventually(lambda: "2 requests of this launch had NaN in their logits" in trouble(rig), why="nobody is told")
    eventually(lambda: len(reasons(rig, "quality")) == 1, why="it is no event")
    assert rig.phase() == "serving"
