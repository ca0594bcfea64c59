"""Checks run side by side, and what is wrong with one of them stays with it."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.doctor import Report, Sight, Verdict, examine
from arcops.doctor.checks import CHECKS
from arcops.doctor.finding import Outcome, ok, together
from arcops.doctor.run import Check
from tests.doctor.patient import Patient

Look = Callable[[Sight], Outcome]


def check(name: str, look: Look, within: float = 5.0) -> Check:
    return Check(name, f"{name}?", look, within)


def raising(error: Exception) -> Look:
    def look(_: Sight) -> Outcome:
        raise error

    return look


def saying(outcome: Outcome) -> Look:
    def look(_: Sight) -> Outcome:
        return outcome

    return look


def test_one_that_hangs_is_unknown_and_holds_up_nobody(patient: Patient) -> None:
    never = threading.Event()

    def hang(_: Sight) -> Outcome:
        never.wait()
        return ok("at last")

    heard: list[str] = []
    checks = [check("hangs", hang, within=0.3), check("well", saying(ok("well")))]
    report = examine(patient.sight(), checks, lambda finding: heard.append(finding.name))
    hangs, well = report.findings
    assert (hangs.verdict, hangs.summary) == (Verdict.UNKNOWN, "there was no answer within 0.3 s")
    assert well.verdict is Verdict.OK
    assert heard == ["well", "hangs"]
    never.set()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ArcopsError("no bus", hint="log in"), "no bus"),
        (PermissionError(13, "Permission denied", "/proc/1"), "it cannot be looked at: Permission denied"),
        (ValueError("odd"), "the check itself failed: ValueError: odd"),
    ],
)
def test_one_that_fails_is_unknown_with_its_reason(patient: Patient, error: Exception, words: str) -> None:
    report = examine(patient.sight(), [check("fails", raising(error))])
    assert report.ok
    assert (report.findings[0].verdict, report.findings[0].summary) == (Verdict.UNKNOWN, words)


def test_only_a_problem_makes_a_report_bad(patient: Patient) -> None:
    for verdict in Verdict:
        report = examine(patient.sight(), [check("one", saying(Outcome(verdict, "so")))])
        assert report.ok is (verdict is not Verdict.PROBLEM)


def test_the_worst_of_several_subjects_leads() -> None:
    outcomes = [
        ok("fine", "a"),
        Outcome(Verdict.PROBLEM, "bad", ("b",), "do"),
        Outcome(Verdict.WARNING, "so so", ("c",)),
    ]
    made = together(outcomes)
    assert (made.verdict, made.summary, made.remedy) == (Verdict.PROBLEM, "bad", "do")
    assert made.evidence == ("b", "fine", "a", "so so", "c")


def test_a_report_goes_over_the_wire_and_comes_back(patient: Patient) -> None:
    report = patient.report("lingering", "versions")
    assert msgspec.json.decode(wire.encode(report), type=Report) == report


def test_every_check_has_a_name_and_a_question_of_its_own() -> None:
    assert len({one.name for one in CHECKS}) == len(CHECKS)
    assert all(one.question.endswith("?") for one in CHECKS)


def test_a_bare_machine_gives_every_check_something_to_say(patient: Patient) -> None:
    report = patient.report()
    assert [one.name for one in report.findings] == [one.name for one in CHECKS]
    assert all("failed" not in one.summary for one in report.findings), report
    assert all(one.remedy for one in report.findings if one.verdict is Verdict.PROBLEM)
