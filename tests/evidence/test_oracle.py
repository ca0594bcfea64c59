"""A recorded identity is held against its oracle again, where that is at hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from arcops.core.evidence.identity import Identity, by_another, compare
from arcops.core.evidence.qualification import Qualification, Verdict
from arcops.core.evidence.run import Run
from arcops.evidence import shelf
from arcops.evidence.oracle import followed
from arcops.evidence.record import Record
from arcops.evidence.shelf import Stored
from tests.core.evidence.measured import ARGV, DRAFTS, STARTED, answer_to, ladder, record, setting

ODD = (999, *answer_to("item-3")[1:])


def beside(oracle: Stored, measured: Run, claims: Callable[[Identity], Identity] = lambda told: told) -> Record:
    """A run of the same workload with speculation, and what it says of its identity."""
    assert oracle.record.run is not None
    told = Identity(oracle.digest, compare(measured, by_another(oracle.record.run).answers))
    made = record(measured, setting((*ARGV, *DRAFTS), speculates=True), began=1_796_009_000.0)
    return msgspec.structs.replace(made, identity=claims(told))


def without_own_oracle(made: Run) -> Run:
    return replace(made, stages=tuple(one for one in made.stages if one.pass_number > 0))


def test_an_identity_that_follows_from_its_oracle_is_checked(tmp_path: Path) -> None:
    oracle = shelf.write(tmp_path, record())
    made = shelf.write(tmp_path, beside(oracle, without_own_oracle(ladder(started=STARTED + 9, odd={1: ODD}))))
    assert followed(made, tmp_path) == (Verdict.PASSED, f"checked with {oracle.path.name}")


def test_an_oracle_beside_the_record_is_found_there(tmp_path: Path) -> None:
    oracle = shelf.write(tmp_path / "samples", record())
    made = shelf.write(tmp_path / "samples", beside(oracle, without_own_oracle(ladder())))
    assert followed(made, tmp_path / "empty")[0] is Verdict.PASSED


def test_a_claim_that_does_not_follow_from_the_oracle_is_found_out(tmp_path: Path) -> None:
    oracle = shelf.write(tmp_path, record())
    odd = without_own_oracle(ladder(odd={1: ODD}))

    def all_exact(told: Identity) -> Identity:
        stages = tuple(replace(one, exact=one.asked, unknown=0, divergences=()) for one in told.stages)
        return replace(told, stages=stages)

    made = shelf.write(tmp_path, beside(oracle, odd, all_exact))
    assert followed(made, tmp_path) == (
        Verdict.FAILED,
        "what is recorded does not follow from the oracle's answers",
    )


def test_an_oracle_that_is_none_of_this_run_is_found_out(tmp_path: Path) -> None:
    oracle = shelf.write(tmp_path, record(where=setting((*ARGV, *DRAFTS), speculates=True)))
    made = shelf.write(tmp_path, beside(oracle, without_own_oracle(ladder())))
    verdict, words = followed(made, tmp_path)
    assert verdict is Verdict.FAILED
    assert words == "it is no oracle of this run: the oracle speculated itself"


def test_a_qualification_is_held_against_the_one_before_which_may_have_speculated(tmp_path: Path) -> None:
    def qualified(made: Record) -> Record:
        return msgspec.structs.replace(made, kind="qualification", qualification=Qualification("mtp", "unknown", ()))

    speculating = setting((*ARGV, *DRAFTS), speculates=True)
    oracle = shelf.write(tmp_path, qualified(record(where=speculating)))
    made = shelf.write(tmp_path, qualified(beside(oracle, without_own_oracle(ladder()))))
    assert followed(made, tmp_path) == (Verdict.PASSED, f"checked with {oracle.path.name}")

    def all_lost(told: Identity) -> Identity:
        return replace(told, stages=tuple(replace(one, exact=0, unknown=one.asked) for one in told.stages))

    lied = shelf.write(tmp_path, qualified(beside(oracle, without_own_oracle(ladder()), all_lost)))
    assert followed(lied, tmp_path)[0] is Verdict.FAILED


def test_without_the_oracle_nobody_knows(tmp_path: Path) -> None:
    oracle = shelf.write(tmp_path / "elsewhere", record())
    made = shelf.write(tmp_path / "here", beside(oracle, without_own_oracle(ladder())))
    assert followed(made, tmp_path / "here")[0] is Verdict.UNKNOWN
    damaged = shelf.write(tmp_path / "here" / "oracle.json", record())
    damaged.path.unlink()
    damaged.path.write_bytes(b"{}")
    assert followed(made, tmp_path / "here")[0] is Verdict.UNKNOWN


def test_a_record_that_is_its_own_oracle_was_checked_when_it_was_read(tmp_path: Path) -> None:
    assert followed(shelf.write(tmp_path, record()), tmp_path)[0] is Verdict.PASSED
    bare = msgspec.structs.replace(record(began=1.0), identity=None)
    assert followed(shelf.write(tmp_path, bare), tmp_path)[0] is Verdict.SKIPPED
