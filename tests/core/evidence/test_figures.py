"""Every figure from arrivals that were made up so that it can be reckoned by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.evidence.balanced import balanced_decode, center
from arcops.core.evidence.consumption import peak_memory_of, power_of
from arcops.core.evidence.figures import Percentiles, conditions, of_request, of_requests, of_stage
from arcops.core.evidence.run import ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.setting import CardSample
from arcops.core.evidence.statistics import Spread
from arcops.core.evidence.work import workload


def answered(
    user: int = 0,
    sent: float = 0.0,
    arrivals: tuple[float, ...] = (0.5, 1.0, 1.5),
    chunks: tuple[int, ...] | None = None,
    **other: object,
) -> Request:
    counts = (1,) * len(arrivals) if chunks is None else chunks
    made = Request("item", user, sent, arrivals, counts, arrivals[-1], prompt_tokens=100, output_tokens=sum(counts))
    return replace(made, **other)


def counted(at: float = 0.0, started: float | None = 1.0, **other: float | None) -> Counters:
    return replace(Counters(at, started), **other)


def staged(
    *requests: Request,
    before: Counters | None = None,
    after: Counters | None = None,
    name: str = "c1",
    warm: bool | None = None,
) -> Stage:
    users = len({one.user for one in requests}) or 1
    return Stage(
        name,
        1,
        users,
        None,
        warm,
        before or counted(),
        after or counted(),
        Watched(0),
        ClientLoad(1, 0, 0, 0, 0),
        requests,
    )


def test_the_figures_of_a_request_are_those_of_its_arrivals() -> None:
    found = of_request(answered(cached_tokens=0))
    assert found.ttft == 0.5
    assert found.chunk_gaps == (0.5, 0.5)
    assert found.end_to_end == 1.5
    assert found.decode == 2.0
    assert found.time_per_token == 0.5
    assert found.prefill == 200.0
    assert found.complete


def test_with_speculation_the_tokens_of_the_first_chunk_are_no_decode_and_gaps_stay_those_of_chunks() -> None:
    found = of_request(answered(chunks=(3, 4, 2)))
    assert found.decode == 6.0, "4 + 2 tokens in a second"
    assert found.tokens_per_chunk == 3.0
    assert found.time_per_token == 1 / 8, "as vLLM has it: all tokens but one"
    assert found.chunk_gaps == (0.5, 0.5)


def test_the_server_counts_the_tokens_and_where_it_does_not_the_chunks_do_if_all_are_known() -> None:
    assert of_request(answered(output_tokens=7)).output_tokens == 7
    assert of_request(answered(output_tokens=None)).output_tokens == 3
    assert of_request(answered(output_tokens=None, chunks=(1, 0, 1))).output_tokens is None


@pytest.mark.parametrize(
    "request_",
    [
        answered(problem="cut off"),
        answered(ended=None, problem="cut off"),
        answered(finish="abort"),
        replace(answered(), arrivals=(), chunk_tokens=()),
    ],
)
def test_what_was_cut_off_is_failed_and_in_no_figure_of_the_stage(request_: Request) -> None:
    found = of_stage(staged(answered(), request_))
    assert (found.requests, found.failed) == (2, 1)
    assert found.output_tokens == 3
    assert found.ttft == Percentiles(0.5, 0.5, 0.5, 1)
    assert found.steady is None, "not everybody was served"


def test_one_chunk_has_a_ttft_and_no_decode() -> None:
    found = of_request(answered(arrivals=(0.5,), chunks=(5,)))
    assert found.ttft == 0.5
    assert found.decode is None
    assert found.tokens_per_chunk is None


def test_chunks_that_came_at_one_moment_have_no_rate() -> None:
    assert of_request(answered(arrivals=(0.5, 0.5))).decode is None


@pytest.mark.parametrize(
    ("cached", "expected"), [(0, 200.0), (50, 100.0), (51, None), (100, None), (101, None), (None, None)]
)
def test_prefill_is_of_the_tokens_that_were_computed_and_unknown_where_most_were_cached(
    cached: int | None, expected: float | None
) -> None:
    assert of_request(answered(cached_tokens=cached)).prefill == expected


def test_the_counters_tell_of_the_cache_where_usage_does_not() -> None:
    none = staged(answered(), before=counted(prefix_hits=7.0), after=counted(prefix_hits=7.0))
    assert of_requests(none)[0].prefill == 200.0
    some = staged(answered(), before=counted(prefix_hits=7.0), after=counted(prefix_hits=57.0))
    assert of_requests(some)[0].prefill == 100.0
    several = staged(answered(), answered(), before=counted(prefix_hits=7.0), after=counted(prefix_hits=57.0))
    assert [one.prefill for one in of_requests(several)] == [None, None]


def test_throughput_is_over_the_whole_stage_and_steady_over_the_time_in_which_all_decode() -> None:
    early = answered(0, arrivals=(1.0, 2.0, 3.0, 4.0))
    late = answered(1, sent=1.0, arrivals=(1.0, 2.0, 3.0, 4.0))
    found = of_stage(staged(early, late))
    assert found.wall == 5.0
    assert found.throughput == 8 / 5
    assert found.steady == 2.0, "from 2.0 to 4.0 each of the two brings two tokens"
    assert found.prefill is None, "a TTFT among several users is waiting, too"


def test_one_user_alone_is_as_steady_as_it_decodes() -> None:
    found = of_stage(staged(answered(arrivals=(0.3, 0.7, 1.3))))
    assert found.decode is not None
    assert found.steady == pytest.approx(found.decode.median)


def test_users_of_whom_one_waits_until_the_others_end_are_never_steady() -> None:
    assert of_stage(staged(answered(0), answered(1, arrivals=(1.6, 2.0)))).steady is None


def test_speculation_is_told_by_the_counters() -> None:
    before = counted(drafts=10.0, draft_tokens=30.0, accepted_tokens=15.0)
    after = counted(drafts=20.0, draft_tokens=60.0, accepted_tokens=35.0)
    found = of_stage(staged(answered(), before=before, after=after))
    assert found.tokens_per_step == 3.0
    assert found.acceptance == pytest.approx(20 / 30)


@pytest.mark.parametrize(
    "after",
    [
        counted(drafts=None, accepted_tokens=35.0),
        counted(drafts=5.0, accepted_tokens=35.0),
        counted(started=2.0, drafts=20.0, accepted_tokens=35.0),
    ],
    ids=["unread", "fell", "another server"],
)
def test_counters_that_tell_nothing_are_unknown_and_not_0(after: Counters) -> None:
    assert (
        of_stage(staged(answered(), before=counted(drafts=10.0, accepted_tokens=15.0), after=after)).tokens_per_step
        is None
    )


def test_without_metrics_and_samples_everything_of_the_server_is_unknown() -> None:
    found = of_stage(staged(answered()))
    unknown = (found.tokens_per_step, found.acceptance, found.hit_rate, found.most_waiting, found.preemptions)
    assert unknown == (None,) * 5
    assert (found.power, found.energy_per_token, found.peak_memory) == (None, None, None)


def test_a_stage_without_requests_has_no_figures() -> None:
    found = of_stage(staged())
    assert (found.requests, found.wall, found.throughput, found.decode, found.ttft) == (0, None, None, None, None)


def test_energy_is_the_power_of_all_cards_over_the_tokens() -> None:
    looks = tuple(CardSample(at, card, 2**30, 30.0) for card in "ab" for at in (0.2, 0.8, 9.0))
    found = of_stage(staged(answered()), looks)
    assert found.power == 60.0
    assert found.energy_per_token == 60.0 * 1.5 / 3
    assert found.peak_memory == 2 * 2**30


def test_a_card_that_cannot_be_read_makes_the_sum_unknown() -> None:
    looks = [CardSample(0.1, "a", 5, 30.0), CardSample(0.2, "a", 7, 30.0), CardSample(0.1, "b"), CardSample(0.2, "b")]
    assert power_of(looks, (0.0, 1.0)) is None
    assert peak_memory_of(looks, (0.0, 1.0)) is None
    assert peak_memory_of(looks[:2], (0.0, 1.0)) == 7
    assert power_of(looks[:1], (0.0, 1.0)) is None, "one look is no mean"


def test_cold_and_warm_passes_are_never_of_one_condition() -> None:
    stages = (staged(answered(), warm=False), staged(answered(), warm=True), staged(answered(), warm=True))
    warm_up = replace(stages[0], pass_number=0)
    found = conditions(Run(workload("ladder", {}, ()), (warm_up, *stages), {}))
    assert {key: len(passes) for key, passes in found.items()} == {("c1", False): 1, ("c1", True): 2}


def classed(kind: str, rate: float) -> Request:
    return replace(answered(arrivals=(0.5, 0.5 + 1 / rate)), item=kind)


def test_classes_count_alike_however_many_requests_each_has() -> None:
    made = staged(*(classed("code", 10.0) for _ in range(9)), classed("prose", 20.0), classed("chat", 40.0))
    found = balanced_decode(made, {"code": "code", "prose": "prose", "chat": "chat"})
    assert found.center == pytest.approx(20.0)


def test_without_one_of_its_classes_nothing_is_balanced() -> None:
    made = staged(classed("code", 10.0), replace(classed("prose", 20.0), problem="cut off"))
    assert balanced_decode(made, {"code": "code", "prose": "prose"}).center is None


def test_the_center_of_two_servers_is_halfway_between() -> None:
    found = center((staged(classed("code", 10.0)), staged(classed("code", 20.0))), {"code": "code"})
    assert found is not None
    assert (found.median, found.least, found.most) == pytest.approx((15.0, 10.0, 20.0))


STEPS = st.lists(st.floats(0.001, 10.0), min_size=2, max_size=20)


@given(st.lists(STEPS, min_size=1, max_size=6))
def test_the_order_of_requests_changes_no_figure(gaps: list[list[float]]) -> None:
    requests = [
        answered(user, arrivals=tuple(sum(steps[: n + 1]) for n in range(len(steps))))
        for user, steps in enumerate(gaps)
    ]
    found, other = of_stage(staged(*requests)), of_stage(staged(*requests[::-1]))
    assert found == other
    assert found.throughput is not None
    if found.steady is not None:
        assert found.steady > 0
    if isinstance(found.decode, Spread):
        assert found.decode.least <= found.decode.median <= found.decode.most
