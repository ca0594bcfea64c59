"""A run of the doctor's checks beside the screen."""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from arcops.core.errors import ArcopsError
from arcops.doctor.checks import CHECKS
from arcops.doctor.finding import Finding, Outcome, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import process
from arcops.tui.checks import examiner
from arcops.tui.checks.examination import Examination
from arcops.tui.live.on_demand import examine
from arcops.tui.live.on_demand import examiner as live_examiner
from arcops.tui.panels.card import CHECKS as CARD_CHECKS
from tests.helpers import eventually
from tests.tui.on_demand import Prepared
from tests.tui.views.happenings import FINDINGS


def nothing() -> None:
    return


@pytest.mark.asyncio
async def test_its_age_is_told():
    now = [100.0]
    examination = Examination(Prepared(findings=FINDINGS), clock=lambda: now[0])
    assert examination.told == "not looked yet"
    await examination.run(nothing)
    now[0] = 165.0
    assert examination.told == "looked 1 min 05 s ago"
    assert examination.findings == FINDINGS


@pytest.mark.asyncio
async def test_while_one_hangs_it_says_for_which_it_waits_and_keeps_what_was_found_before():
    now = [100.0]
    source = Prepared(findings=FINDINGS)
    examination = Examination(source, clock=lambda: now[0])
    await examination.run(nothing)
    source.hanging = ("kernel-log",)
    waits = asyncio.Event()
    again = asyncio.create_task(
        examination.run(lambda: waits.set() if examination.told.endswith(" for kernel-log") else None)
    )
    await waits.wait()
    now[0] = 104.0
    assert examination.running
    assert examination.told == f"looking for 4 s: {len(FINDINGS) - 1} answers, waiting for kernel-log"
    assert {one.name for one in examination.findings} == {one.name for one in FINDINGS}
    source.go_on.set()
    await again
    assert not examination.running


@pytest.mark.asyncio
async def test_where_nobody_can_look_it_says_why_and_keeps_what_was_found():
    source = Prepared(findings=FINDINGS)
    examination = Examination(source)
    await examination.run(nothing)
    source.refusal = ArcopsError("a recording has no machine")
    await examination.run(nothing)
    assert examination.problem == "a recording has no machine"
    assert examination.findings == FINDINGS
    assert examination.told.startswith("tried")


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def line(finding: Finding) -> str:
    return f"print({msgspec.json.encode(finding).decode()!r}, flush=True)"


@pytest.mark.processes
@pytest.mark.asyncio
async def test_the_doctor_is_a_process_of_its_own_and_is_heard_as_it_goes():
    heard: list[str] = []
    found = await examine(child(";".join(line(one) for one in FINDINGS)), lambda one: heard.append(one.name))
    assert found == FINDINGS
    assert heard == [one.name for one in FINDINGS]


@pytest.mark.processes
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("""print('{"message": "there is no check x"}'); raise SystemExit(2)""", "there is no check x"),
        ("print('a traceback'); raise SystemExit(3)", "ended with 3 and gave no reason"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
    ],
)
async def test_a_doctor_that_fails_says_why(code: str, words: str):
    with pytest.raises(ArcopsError, match=words):
        await examine(child(code), lambda _: None)


@pytest.mark.asyncio
async def test_a_doctor_that_cannot_be_run_says_why():
    with pytest.raises(ArcopsError, match="cannot be run: No such file"):
        await examine(["/nonexistent/python"], lambda _: None)


@pytest.mark.processes
@pytest.mark.asyncio
async def test_a_doctor_that_hangs_is_bounded_and_ended(tmp_path: Path):
    place = tmp_path / "pid"
    code = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); {line(FINDINGS[0])}; time.sleep(300)"
    heard = asyncio.Event()
    running = asyncio.create_task(examine(child(code), lambda _: heard.set()))
    await heard.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(place.read_text())
    await asyncio.to_thread(eventually, lambda: process.identify(pid) is None, why="the doctor lives on")
    with pytest.raises(ArcopsError, match=r"did not end within 0\.2 s"):
        await examine(child("import time; time.sleep(300)"), lambda _: None, within=0.2)


def put(monkeypatch: pytest.MonkeyPatch, looks: dict[str, Callable[[Sight], Outcome]], within: float = 20.0) -> None:
    made = tuple(Check(name, f"Is {name} well?", look, within) for name, look in looks.items())
    monkeypatch.setattr(examiner, "CHECKS", made)


def told(names: Sequence[str] = ()) -> list[Finding]:
    lines: list[bytes] = []
    examiner.run("main", names, lines.append)
    return [msgspec.json.decode(one, type=Finding) for one in lines]


def test_only_the_checks_that_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    put(monkeypatch, {"one": lambda _: ok("fine"), "two": lambda _: ok("fine")})
    assert sorted(one.name for one in told()) == ["one", "two"]
    assert [one.name for one in told(["two"])] == ["two"]
    with pytest.raises(ArcopsError, match="there is no check three"):
        told(["two", "three"])


def test_a_check_that_hangs_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch):
    never = threading.Event()
    put(monkeypatch, {"hangs": lambda _: ok("late") if never.wait(30) else ok("never")}, within=0.05)
    try:
        (found,) = told()
    finally:
        never.set()
    assert found.verdict.value == "unknown"
    assert found.summary == "there was no answer within 0.05 s"


def test_the_names_of_the_cards_checks_are_those_of_checks():
    assert set(CARD_CHECKS) <= {check.name for check in CHECKS}


@pytest.mark.processes
@pytest.mark.asyncio
async def test_the_real_doctor_answers():
    heard: list[str] = []
    found = await examine(live_examiner("main", ["disk", "kernel-log"]), lambda one: heard.append(one.name))
    assert sorted(heard) == sorted(one.name for one in found) == ["disk", "kernel-log"]
