"""The two-run rule: which rungs may be called exact."""

from dataclasses import replace

from arcops.core.evidence.identity import Divergence, Margin
from arcops.core.evidence.rungs import Standing, rungs_of, words_of
from arcops.core.evidence.setting import Befallen
from arcops.core.evidence.work import Sampling
from arcops.evidence.record import Record
from tests.core.evidence.measured import (
    ARGV,
    STARTED,
    answer_to,
    items,
    itself,
    ladder,
    record,
    request,
    run,
    setting,
    stage,
)

ODD = (999, *answer_to("item-3")[1:])


def second(passes: int = 2, started: float = STARTED + 500, odd: bool = False) -> Record:
    return record(ladder(passes, started, {1: ODD} if odd else None), began=1_796_001_000.0)


def standings(*records: Record) -> dict[str, Standing]:
    return {one.name: one.standing for one in rungs_of(records)}


def test_one_exact_run_awaits_a_second() -> None:
    assert standings(record()) == {"c1": Standing.EXACT, "c4": Standing.EXACT}


def test_two_exact_runs_on_two_starts_of_the_server_qualify_a_rung() -> None:
    found = rungs_of([record(), second()])
    assert {one.standing for one in found} == {Standing.QUALIFIED}
    assert found[1].words == "4/4, 4/4, 4/4, 4/4, in 2 passes or more of each of 2 runs"


def test_two_runs_on_one_start_of_the_server_are_not_two() -> None:
    assert standings(record(), second(started=STARTED))["c4"] is Standing.EXACT
    assert standings(record(), record())["c4"] is Standing.EXACT, "nor is one record twice"


def test_one_pass_in_the_second_run_is_not_enough() -> None:
    assert standings(record(), second(passes=1))["c4"] is Standing.EXACT
    assert "2 passes" in rungs_of([record(ladder(1))])[0].words


def test_starts_that_nobody_knows_are_not_two() -> None:
    blind = ladder()
    hidden = tuple(
        replace(one, before=replace(one.before, server_started=None), after=replace(one.after, server_started=None))
        for one in blind.stages
    )
    assert standings(record(), record(replace(blind, stages=hidden)))["c4"] is Standing.EXACT


def test_a_rung_that_was_not_exact_once_is_not_qualified_and_is_shown_with_its_place() -> None:
    for records in ([second(odd=True)], [record(), second(odd=True)], [second(odd=True), record()]):
        rungs = {one.name: one for one in rungs_of(records)}
        assert rungs["c4"].standing is Standing.NOT_EXACT
        assert "3/4" in rungs["c4"].words
        assert "item-3 at token 0: 999 in place of" in rungs["c4"].words
        assert rungs["c1"].standing is not Standing.NOT_EXACT, "each rung stands for itself"


def test_a_run_of_another_configuration_counts_nothing() -> None:
    other = record(ladder(started=STARTED + 500), setting((*ARGV, "--enforce-eager")))
    assert standings(record(), other)["c4"] is Standing.EXACT
    odd = record(ladder(started=STARTED + 500, odd={1: ODD}), setting((*ARGV, "--enforce-eager")))
    assert standings(record(), odd)["c4"] is Standing.EXACT


def test_a_spoiled_run_counts_nothing() -> None:
    reset = replace(setting(), befallen=(Befallen(1.0, "reset", "GT reset", spoils=True),))
    spoiled = record(ladder(started=STARTED + 500), reset)
    assert standings(record(), spoiled)["c4"] is Standing.EXACT
    found = rungs_of([spoiled])
    assert {one.standing for one in found} == {Standing.UNKNOWN}
    assert "GT reset" in found[0].words


def test_what_differs_in_a_spoiled_run_is_said_to_differ() -> None:
    reset = replace(setting(), befallen=(Befallen(1.0, "reset", "GT reset", spoils=True),))
    rungs = {one.name: one for one in rungs_of([record(ladder(odd={1: ODD}), reset)])}
    assert rungs["c1"].standing is Standing.UNKNOWN
    assert rungs["c4"].standing is Standing.NOT_EXACT
    assert "3/4, 4/4, first item-3 at token 0" in rungs["c4"].words
    assert "every pass is spoiled" in rungs["c4"].words


def test_an_answer_that_is_unknown_makes_its_rung_unknown() -> None:
    made = ladder()
    silent = replace(made.stages[2].requests[0], answer=None)
    broken = replace(made.stages[2], requests=(silent, *made.stages[2].requests[1:]))
    found = standings(record(replace(made, stages=(*made.stages[:2], broken, *made.stages[3:]))))
    assert found == {"c1": Standing.EXACT, "c4": Standing.UNKNOWN}


def test_a_run_that_was_not_compared_is_unknown_and_says_why() -> None:
    made = ladder()
    apart = replace(itself(made), oracle="", stages=(), not_compared="the oracle speculated itself")
    bare = record(made)
    told = Record(
        arcops_record=1, kind=bare.kind, arcops="0", began=1.0, ended=2.0, command=(), run=made, setting=bare.setting,
        identity=apart,
    )  # fmt: skip
    (first, *_) = rungs_of([told])
    assert (first.standing, first.words) == (Standing.UNKNOWN, "the oracle speculated itself")
    assert first.passes[0].share == "unknown"


def test_what_is_sampled_is_not_called_exact() -> None:
    work = items(1, Sampling(temperature=0.7))
    (found,) = rungs_of([record(run([stage([request("item-0")])], work))])
    assert (found.standing, found.passes[0].share) == (Standing.UNKNOWN, "sampled")
    assert found.words == "sampled: its answers may differ by right"


def test_the_suites_servers_are_the_passes_of_one_rung() -> None:
    def suite(started: float) -> Record:
        servers = [
            stage([request("item-0")], f"server-{number}", number, started=started + number) for number in (1, 2)
        ]
        oracle = stage([request("item-0")], "sequential", 0, started=started)
        return record(run([oracle, *servers], name="suite"))

    assert standings(suite(STARTED)) == {"suite": Standing.EXACT}
    assert standings(suite(STARTED), suite(STARTED + 100)) == {"suite": Standing.QUALIFIED}


def test_a_divergence_reads_as_its_place_with_its_margin() -> None:
    place = Divergence("item-3", 41, 262, 318, Margin(-1.51, -1.5))
    assert words_of(place) == "item-3 at token 41: 318 in place of 262, by 0.0100 nats"
    unknown = replace(place, margin=Margin(None, -1.5, "the server gives no log-probabilities"))
    assert words_of(unknown).endswith("by an unknown margin: the server gives no log-probabilities")
    assert words_of(replace(place, token=None, margin=None)) == "item-3 at token 41: the end in place of 262"
