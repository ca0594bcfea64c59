"""Are these the very tokens that the oracle gave?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.evidence.identity import (
    Divergence,
    Margin,
    by_another,
    by_itself,
    compare,
    diverges,
    open_questions,
    with_margins,
    without_margins,
)
from arcops.core.evidence.work import Sampling, digest_of_tokens
from tests.core.evidence.measured import answer_to, items, ladder, request, run, stage

TOKENS = st.lists(st.integers(0, 9), max_size=6).map(tuple)


def test_a_stage_whose_answers_are_all_the_oracles_is_exact() -> None:
    measured = ladder()
    found = compare(measured, by_itself(measured).answers)
    assert [(one.stage, one.pass_number, one.exact, one.asked) for one in found] == [
        ("c1", 1, 1, 1),
        ("c4", 1, 4, 4),
        ("c1", 2, 1, 1),
        ("c4", 2, 4, 4),
    ]
    assert all(one.is_exact for one in found)


def test_a_flipped_token_is_found_at_its_place() -> None:
    right = answer_to("item-3")
    flipped = (*right[:2], 999, *right[3:])
    measured = ladder(odd={2: flipped})
    last = compare(measured, by_itself(measured).answers)[-1]
    assert (last.exact, last.asked, last.is_exact) == (3, 4, False)
    assert last.divergences == (Divergence("item-3", 2, right[2], 999),)


def test_an_answer_that_ends_too_soon_diverges_where_it_ends() -> None:
    assert diverges("one", (1, 2, 3), (1, 2)) == Divergence("one", 2, 3, None)
    assert diverges("one", (1, 2), (1, 2, 3)) == Divergence("one", 2, None, 3)


@given(TOKENS, TOKENS)
def test_the_divergence_is_the_first_place_in_which_two_answers_differ(
    oracle: tuple[int, ...], said: tuple[int, ...]
) -> None:
    found = diverges("item", oracle, said)
    if found is None:
        assert oracle == said
        return
    assert oracle[: found.position] == said[: found.position]
    assert oracle[found.position : found.position + 1] != said[found.position : found.position + 1]


def test_an_answer_that_the_oracle_never_gave_is_unknown_and_not_exact() -> None:
    measured = ladder()
    found = compare(measured, {"item-0": answer_to("item-0")})
    assert (found[1].exact, found[1].unknown, found[1].is_exact) == (1, 3, False)


def test_a_request_without_an_answer_or_without_ids_is_unknown() -> None:
    good = request("item-0")
    for bad in (
        replace(good, problem="the connection was cut", ended=None),
        replace(good, answer=None),
        replace(good, finish="abort"),
    ):
        measured = run([stage([bad])])
        (found,) = compare(measured, {"item-0": answer_to("item-0")})
        assert (found.exact, found.unknown) == (0, 1)


def test_a_sampled_request_is_not_asked() -> None:
    work = items(1, Sampling(temperature=0.7, seed=1))
    (found,) = compare(run([stage([request("item-0")])], work), {"item-0": (1,)})
    assert (found.asked, found.exact, found.is_exact) == (0, 0, False)


def test_nothing_asked_is_not_exact() -> None:
    (found,) = compare(run([stage([request("item-0")])], ()), {})
    assert not found.is_exact


def test_an_oracle_that_answers_an_item_in_two_ways_is_none_for_it() -> None:
    other = (7, 7)
    two = [request("item-0"), request("item-0", tokens=other, sent=2.0), request("item-1", sent=3.0)]
    measured = run([stage(two, "sequential", 0), stage([request("item-0"), request("item-1", 1)])])
    measured = replace(measured, answers={**measured.answers, digest_of_tokens(other): other})
    found = by_itself(measured)
    assert found.wavering == ("item-0",)
    assert set(found.answers) == {"item-1"}


def test_only_what_was_asked_one_by_one_is_an_oracle() -> None:
    measured = ladder()
    assert set(by_itself(measured).answers) == {"item-0", "item-1", "item-2", "item-3"}
    crowd = replace(measured, stages=tuple(one for one in measured.stages if one.concurrency > 1))
    assert by_another(crowd).answers == {}
    assert set(by_another(replace(measured, stages=measured.stages[1:])).answers) == {"item-0"}


def test_a_warm_up_makes_no_run_its_own_oracle() -> None:
    measured = run([stage([request("item-7")], "warm-up", 0), stage([request("item-0")])])
    assert by_itself(measured).answers == {}


def test_a_margin_is_asked_for_once_and_given_to_every_stage_that_diverges_there() -> None:
    flipped = (999, *answer_to("item-3")[1:])
    measured = ladder(odd={1: flipped, 2: flipped})
    found = compare(measured, by_itself(measured).answers)
    (question,) = open_questions(found)
    margin = Margin(oracle=-1.5, other=-1.25)
    told = with_margins(found, {question: margin})
    assert [one.margin for part in told for one in part.divergences] == [margin, margin]
    assert margin.nats == pytest.approx(0.25)
    assert open_questions(told) == ()
    assert without_margins(told) == found


def test_nobody_asks_for_a_margin_where_an_answer_has_ended() -> None:
    measured = ladder(odd={1: answer_to("item-3")[:2]})
    assert open_questions(compare(measured, by_itself(measured).answers)) == ()
