"""What a record is worth: each fault that may be in one is found, and nothing unknown is called good."""

from dataclasses import replace

import pytest

from arcops.core.evidence.judge import STALE_CACHES, Judgement, Question, judge, spoiled, spoils_stage
from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.run import ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.setting import Befallen, Setting
from arcops.evidence.record import Record
from tests.core.evidence.measured import PROMPT, STARTED, ladder, record, request, run, setting, stage


def told(made: Record, question: Question) -> list[Judgement]:
    return [one for one in judge(made) if one.question is question]


def one_stage(changed: Stage, kind: str = "ladder", where: Setting | None = None) -> Record:
    return record(run([changed], name=kind), where)


def verdict_of(changed: Stage, question: Question, kind: str = "ladder", where: Setting | None = None) -> Verdict:
    (found,) = told(one_stage(changed, kind, where), question)
    return found.verdict


def test_a_run_without_fault_is_good_in_every_respect() -> None:
    found = judge(record())
    assert {one.verdict for one in found} == {Verdict.PASSED}
    assert {one.question for one in found} == set(Question) - {Question.CACHED}
    assert {one.pass_number for one in found if one.question is Question.COLD} == {1}, "the first pass is the cold one"
    assert spoiled(found) == ()


def test_a_record_without_a_run_is_asked_nothing() -> None:
    assert judge(replace_run(record(), None)) == ()


def replace_run(made: Record, measured: Run | None) -> Record:
    return Record(
        arcops_record=1, kind="environment", arcops="0", began=made.began, ended=made.ended, command=(), run=measured
    )


def test_a_cold_run_that_was_warm_is_found_by_the_counters() -> None:
    warm = stage([request("item-0")], "cold-greedy", hits=96)
    (found,) = told(one_stage(warm, "long-prompt"), Question.COLD)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, True)
    assert "96 prompt tokens were hits" in found.words


def test_a_cold_run_that_was_warm_is_found_by_usage_alone() -> None:
    warm = stage([replace(request("item-0"), cached_tokens=64)], "cold-greedy")
    assert verdict_of(without_hits(warm), Question.COLD, "long-prompt") is Verdict.FAILED
    assert verdict_of(warm, Question.COLD, "long-prompt") is Verdict.FAILED, "the counters' 0 does not outweigh it"


def test_one_answer_that_says_cached_is_enough() -> None:
    some = [replace(request("item-0"), cached_tokens=None), replace(request("item-1"), cached_tokens=16)]
    assert verdict_of(without_hits(stage(some, "cold-x")), Question.COLD, "long-prompt") is Verdict.FAILED


def test_a_cold_run_is_cold_by_whoever_tells() -> None:
    cold = stage([request("item-0")], "cold-greedy")
    silent = replace(cold, requests=(replace(cold.requests[0], cached_tokens=None),))
    assert verdict_of(cold, Question.COLD, "long-prompt") is Verdict.PASSED
    assert verdict_of(silent, Question.COLD, "long-prompt") is Verdict.PASSED
    assert verdict_of(without_hits(cold), Question.COLD, "long-prompt") is Verdict.PASSED
    assert verdict_of(without_hits(silent), Question.COLD, "long-prompt") is Verdict.UNKNOWN


def test_the_hits_of_another_server_say_nothing() -> None:
    silent = replace(request("item-0"), cached_tokens=None)
    moved = stage([silent], "cold-greedy")
    moved = replace(moved, after=replace(moved.after, server_started=STARTED + 5))
    assert verdict_of(moved, Question.COLD, "long-prompt") is Verdict.UNKNOWN


def without_hits(one: Stage) -> Stage:
    return replace(one, before=replace(one.before, prefix_hits=None), after=replace(one.after, prefix_hits=None))


def test_the_depths_of_a_context_are_cold_but_their_decode_counts_all_the_same() -> None:
    warm = replace(stage([request("item-0")], "8192", hits=96, warm=False), depth=8192)
    (found,) = told(one_stage(warm, "context"), Question.COLD)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, False)


@pytest.mark.parametrize(
    ("hits", "speculates", "expected"),
    [
        (96, False, Verdict.PASSED),  # of 100 tokens 6 blocks of 16
        (80, False, Verdict.FAILED),
        (80, True, Verdict.PASSED),  # whoever drafts drops the last block
        (80, None, Verdict.PASSED),
        (64, True, Verdict.FAILED),
        (0, True, Verdict.FAILED),
    ],
)
def test_a_cached_run_has_all_whole_blocks_of_its_prompt(hits: int, speculates: bool | None, expected: Verdict) -> None:
    again = stage([replace(request("item-0"), cached_tokens=None)], "cached-greedy", hits=hits)
    assert verdict_of(again, Question.CACHED, "long-prompt", setting(speculates=speculates)) is expected


def test_a_cached_run_is_believed_only_where_both_tell_the_same() -> None:
    again = stage([replace(request("item-0"), cached_tokens=0)], "cached-greedy", hits=96)
    assert verdict_of(again, Question.CACHED, "long-prompt") is Verdict.FAILED


def test_a_prompt_that_is_no_longer_than_a_block_proves_nothing() -> None:
    short = stage([replace(request("item-0"), prompt_tokens=9, cached_tokens=None)], "cached-greedy")
    assert verdict_of(short, Question.CACHED, "long-prompt") is Verdict.UNKNOWN


def test_how_many_blocks_were_cached_is_unknown_without_their_size_or_the_prompts() -> None:
    again = stage([replace(request("item-0"), cached_tokens=96)], "cached-greedy", hits=96)
    where = setting()
    for labels in (None, {}, {"block_size": "sixteen"}, {"block_size": "0"}):
        sizeless = replace(where, server=replace(where.server, cache=labels))
        assert verdict_of(again, Question.CACHED, "long-prompt", sizeless) is Verdict.UNKNOWN
    unasked = replace(again, requests=(replace(again.requests[0], prompt_tokens=None),))
    assert verdict_of(unasked, Question.CACHED, "long-prompt") is Verdict.UNKNOWN
    neither = replace(without_hits(again), requests=(replace(again.requests[0], cached_tokens=None),))
    assert verdict_of(neither, Question.CACHED, "long-prompt") is Verdict.UNKNOWN


def test_a_reset_during_the_run_spoils_all_of_it() -> None:
    where = replace(setting(), befallen=(Befallen(31.4, "reset", "xe 0000:03:00.0: GT reset", spoils=True),) * 2)
    made = record(where=where)
    (found,) = told(made, Question.UNDISTURBED)
    assert found.verdict is Verdict.FAILED
    assert found.words == "reset at 31.4 s: xe 0000:03:00.0: GT reset, and 1 more"
    assert made.run is not None
    assert all(spoils_stage(judge(made), one) for one in made.run.stages)


def test_what_befell_without_spoiling_is_told_and_spoils_nothing() -> None:
    where = replace(setting(), befallen=(Befallen(2.0, "event", "quality: slow", spoils=False),))
    (found,) = told(record(where=where), Question.UNDISTURBED)
    assert (found.verdict, found.spoils) == (Verdict.PASSED, False)
    assert "quality: slow" in found.words


def test_where_nobody_watched_nobody_knows() -> None:
    where = replace(setting(), watched_by="nobody", unwatched="the kernel log cannot be read")
    (found,) = told(record(where=where), Question.UNDISTURBED)
    assert found.verdict is Verdict.UNKNOWN
    assert "the kernel log cannot be read" in found.words


def test_a_restart_within_a_stage_spoils_that_stage() -> None:
    made = ladder()
    broken = replace(made.stages[2], after=replace(made.stages[2].after, server_started=STARTED + 9))
    found = judge(record(replace(made, stages=(*made.stages[:2], broken, *made.stages[3:]))))
    assert spoils_stage(found, broken) == "the server was restarted while it went on"
    assert spoils_stage(found, made.stages[3]) == ""


def test_a_restart_between_two_stages_spoils_the_run() -> None:
    made = ladder()
    later = [replace(one, before=moved(one.before), after=moved(one.after)) for one in made.stages[3:]]
    (found,) = told(record(replace(made, stages=(*made.stages[:3], *later))), Question.SAME_SERVER)
    assert (found.verdict, found.spoils, found.stage) == (Verdict.FAILED, True, None)


def moved(counters: Counters, seconds: float = 60.0) -> Counters:
    return replace(counters, server_started=STARTED + seconds)


def test_counters_that_fall_are_a_restart_even_where_the_server_hides_its_start() -> None:
    fallen = stage([request("item-0")], started=None)
    fallen = replace(fallen, after=replace(fallen.after, generation_tokens=4.0))
    found = told(one_stage(fallen), Question.SAME_SERVER)
    assert [one.verdict for one in found] == [Verdict.FAILED, Verdict.UNKNOWN]


def test_a_server_that_does_not_say_when_it_started_is_unknown() -> None:
    (found,) = told(record(ladder(started=0.0)), Question.SAME_SERVER)
    assert found.verdict is Verdict.PASSED
    (found,) = told(one_stage(stage([request("item-0")], started=None)), Question.SAME_SERVER)
    assert found.verdict is Verdict.UNKNOWN


def test_the_suites_servers_have_to_be_fresh_ones() -> None:
    def server(number: int, started: float) -> Stage:
        return stage([request("item-0")], f"server-{number}", number, started=started)

    fresh = run([server(1, STARTED), server(2, STARTED + 100)], name="suite")
    (found,) = told(record(fresh), Question.SAME_SERVER)
    assert (found.verdict, found.words) == (Verdict.PASSED, "2 servers, each started anew")
    stale = run([server(1, STARTED), server(2, STARTED)], name="suite")
    (found,) = told(record(stale), Question.SAME_SERVER)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, True)
    warm = replace(setting(), befallen=(Befallen(3.0, STALE_CACHES, "its caches were not empty", spoils=False),))
    (found,) = told(record(fresh, warm), Question.SAME_SERVER)
    assert (found.verdict, found.words, found.spoils) == (Verdict.FAILED, "its caches were not empty", False)


def test_a_server_that_is_not_seen_after_a_stage_may_be_another_one() -> None:
    made = ladder()
    last = replace(made.stages[-1], after=Counters(made.stages[-1].after.at, unread="cannot connect"))
    (found,) = told(record(replace(made, stages=(*made.stages[:-1], last))), Question.SAME_SERVER)
    assert (found.verdict, found.words) == (
        Verdict.UNKNOWN,
        f"after stage {last.name} the server did not say when it started",
    )


def test_a_canary_that_answers_otherwise_after_the_run_spoils_it() -> None:
    made = ladder()
    changed = (made.canaries[0], replace(made.canaries[1], answer="sha256:other"))
    (found,) = told(record(replace(made, canaries=changed)), Question.CANARIES)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, True)


def test_a_canary_that_falls_silent_spoils_the_run_and_one_that_never_sang_proves_nothing() -> None:
    made = ladder()
    before, after = made.canaries
    silent = replace(after, answer=None, problem="timed out")
    never = replace(before, answer=None, problem="timed out")
    cases = [((before, silent), Verdict.FAILED), ((never, silent), Verdict.UNKNOWN), ((before,), Verdict.UNKNOWN)]
    for canaries, expected in (*cases, ((), Verdict.UNKNOWN)):
        (found,) = told(record(replace(made, canaries=canaries)), Question.CANARIES)
        assert found.verdict is expected


def test_a_failed_request_spoils_its_stage() -> None:
    failed = replace(request("item-1", 1), problem="the server answered 500", ended=None, output_tokens=None)
    (found,) = told(one_stage(stage([request("item-0"), failed])), Question.ANSWERED)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, True)
    assert found.words == "1 of 2 requests failed, the first: the server answered 500"
    assert verdict_of(stage([request("item-0"), failed]), Question.ALONE) is Verdict.UNKNOWN
    empty = replace(stage([request("item-0")]), requests=())
    assert verdict_of(empty, Question.ANSWERED) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("output", "prompt", "expected"),
    [
        (0, 0, Verdict.PASSED),
        (5, 0, Verdict.FAILED),
        (5, 40, Verdict.FAILED),
        (0, 40, Verdict.FAILED),
        (-1, 0, Verdict.UNKNOWN),
        (0, -1, Verdict.UNKNOWN),
    ],
)
def test_somebody_else_on_the_server_is_found_by_its_counters(output: int, prompt: int, expected: Verdict) -> None:
    shared = stage([request("item-0")])
    after = replace(
        shared.after,
        generation_tokens=(shared.after.generation_tokens or 0) + output,
        prompt_tokens=(shared.after.prompt_tokens or 0) + prompt,
    )
    (found,) = told(one_stage(replace(shared, after=after)), Question.ALONE)
    assert found.verdict is expected
    assert found.spoils is (expected is Verdict.FAILED)


def test_somebody_else_on_the_server_is_found_by_how_many_ran() -> None:
    crowded = replace(stage([request("item-0")]), watched=Watched(4, 2.0, 0.0, 0.1))
    assert verdict_of(crowded, Question.ALONE) is Verdict.FAILED


def test_a_prompt_that_was_read_twice_for_a_preemption_is_nobody_elses() -> None:
    again = stage([request("item-0")])
    after = replace(again.after, preemptions=1.0, prompt_tokens=(again.after.prompt_tokens or 0) + PROMPT)
    assert verdict_of(replace(again, after=after), Question.ALONE) is Verdict.UNKNOWN
    (found,) = told(one_stage(replace(again, after=after)), Question.NO_PREEMPTION)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, False)


def test_a_server_that_counts_nothing_proves_nothing() -> None:
    blind = replace(stage([request("item-0")]), before=Counters(0.5), after=Counters(3.0))
    assert verdict_of(blind, Question.ALONE) is Verdict.UNKNOWN
    assert verdict_of(blind, Question.NO_PREEMPTION) is Verdict.UNKNOWN


def test_a_rung_above_what_the_server_runs_at_once_is_queueing_and_counts() -> None:
    eight = stage([request("item-0", user) for user in range(8)])
    (found,) = told(one_stage(eight), Question.AT_ONCE)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, False)
    assert found.words == "queueing: 8 users of a server that runs 4 requests at once"


def test_a_rung_that_was_seen_to_wait_is_queueing() -> None:
    four = replace(stage([request("item-0", user) for user in range(4)]), watched=Watched(4, 2.0, 2.0, 0.9))
    assert verdict_of(four, Question.AT_ONCE) is Verdict.FAILED
    unseen = replace(four, watched=Watched(0))
    blind = replace(setting(), configuration=replace(setting().configuration, max_num_seqs=None))
    assert verdict_of(unseen, Question.AT_ONCE, where=blind) is Verdict.UNKNOWN
    assert told(one_stage(stage([request("item-0")])), Question.AT_ONCE) == [], "one user queues behind nobody"


def test_a_client_that_is_too_slow_for_its_latencies_says_so() -> None:
    slow = replace(stage([request("item-0")]), client=ClientLoad(2.5, 2.0, 0.002, 0.02, 0.4))
    (found,) = told(one_stage(slow), Question.LATENCIES)
    assert (found.verdict, found.spoils) == (Verdict.FAILED, False)
    assert "20.0 ms late" in found.words


def test_a_little_lag_is_never_too_much() -> None:
    def quick(one: Request) -> Request:
        return replace(one, arrivals=tuple(0.0001 * number for number in range(4)))

    fast = replace(stage([quick(request("item-0"))]), client=ClientLoad(2.5, 2.0, 0.0001, 0.0009, 0.4))
    assert verdict_of(fast, Question.LATENCIES) is Verdict.PASSED
    single = stage([request("item-0", tokens=(1,))])
    assert verdict_of(single, Question.LATENCIES) is Verdict.UNKNOWN


def test_what_is_not_measured_is_asked_only_whether_it_was_disturbed() -> None:
    made = ladder()
    asked = {one.question for one in judge(record(made)) if one.pass_number == 0}
    assert asked == {Question.ANSWERED, Question.ALONE}
