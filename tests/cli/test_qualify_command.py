"""`arcops qualify` with a daemon and the fake: who qualifies, who does not, and what serves afterwards."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arcops.cli.qualify import code_of, verdict
from arcops.core.errors import ExitCode
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.evidence import shelf
from tests.daemon.rig import Rig
from tests.helpers import eventually


def given(**verdicts: Verdict) -> Qualification:
    gates = tuple(Gate(name, found, "") for name, found in verdicts.items())
    return Qualification("mtp", "sha256:0", gates)


@pytest.mark.parametrize(
    ("held", "code", "words"),
    [
        (
            given(start=Verdict.PASSED, chat=Verdict.PASSED, tools=Verdict.PASSED),
            ExitCode.DONE,
            "mtp has qualified",
        ),
        (
            given(start=Verdict.PASSED, chat=Verdict.FAILED, tools=Verdict.PASSED),
            ExitCode.FAILED,
            "mtp has not qualified: chat",
        ),
        (
            given(start=Verdict.PASSED, chat=Verdict.PASSED, tools=Verdict.PASSED, memory=Verdict.UNKNOWN),
            ExitCode.FAILED,
            "mtp has not qualified: memory",
        ),
        (
            given(start=Verdict.PASSED, chat=Verdict.PASSED, tools=Verdict.SKIPPED),
            ExitCode.DONE,
            "mtp has qualified",
        ),
        (
            given(start=Verdict.PASSED, chat=Verdict.PASSED),
            ExitCode.FAILED,
            "mtp has not qualified: tools was not asked",
        ),
        (given(start=Verdict.FAILED), ExitCode.BACKEND_FAILED, "mtp has not qualified: start"),
    ],
)
def test_the_verdicts_make_the_exit_code_and_the_last_line(held: Qualification, code: ExitCode, words: str) -> None:
    assert code_of(held) is code
    assert verdict(held) == words


def gates(rig: Rig) -> dict[str, Gate]:
    """Of the newest qualification."""
    found = shelf.find(rig.paths.records, "qualification")[0]
    held = shelf.read(found.path).record.qualification
    assert held is not None
    return {gate.name: gate for gate in held.gates}


def running(rig: Rig) -> str | None:
    status = rig.status()
    return status.backend.profile if status.backend is not None and status.phase == "serving" else None


def ordered(rig: Rig, *words: str) -> "subprocess.Popen[bytes]":
    """A command that goes on."""
    argv = [sys.executable, "-m", "arcops.cli.main", *words]
    return subprocess.Popen(argv, env=rig.env(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


QUICK = ("--long", "600")


@pytest.mark.processes
def test_only_what_has_passed_its_gates_may_replace_what_works(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.profile("target-only", parsers={"tool_call": "hermes"})
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0

        done = rig.arcops("qualify", "mtp", *QUICK, within=120)
        assert done.code == 0, done.out + done.err
        assert "mtp has qualified" in done.out
        assert running(rig) == "target-only", "what ran before runs again"
        first = gates(rig)
        assert first["identity"].verdict is Verdict.SKIPPED
        assert first["memory"].verdict is Verdict.SKIPPED, "a CPU has no card"

        again = rig.arcops("qualify", "mtp", *QUICK, "--keep", "--json", within=120)
        assert again.code == 0, again.out + again.err
        assert {one["name"] for one in json.loads(again.out)["gates"]} == set(first)
        assert gates(rig)["identity"].detail.startswith("12/12")
        assert running(rig) == "mtp", "it was to be kept"

        assert rig.arcops("switch", "dflash2", "--qualified").code == ExitCode.BLOCKED
        assert rig.arcops("switch", "target-only").code == 0
        accepted = rig.arcops("switch", "mtp", "--qualified", within=120)
        assert accepted.code == 0, accepted.err

        # It runs already: asked as it is, now that it says something else.
        rig.misbehave(wrong_chat=True, tool_fault="no_json", tool_fault_in="stream")
        wrong = rig.arcops("qualify", "mtp", *QUICK, within=120)
        assert wrong.code == ExitCode.FAILED, wrong.out + wrong.err
        assert {name for name, gate in gates(rig).items() if gate.verdict is Verdict.FAILED} == {"chat", "tools"}
        assert all("streamed" in line for line in gates(rig)["tools"].evidence)
        assert "not started anew" in gates(rig)["start"].detail
        assert running(rig) == "mtp"


@pytest.mark.processes
def test_what_fails_a_gate_leaves_the_working_one_in_place(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.profile("target-only", parsers={"tool_call": "hermes"})
        rig.profile("candidate", extends="target-only")
        rig.start()
        assert rig.arcops("qualify", "candidate", *QUICK, within=120).code == 0
        eventually(lambda: rig.phase() == "stopped", why="nothing ran before, and something runs now")

        assert rig.arcops("switch", "target-only").code == 0
        rig.misbehaving("candidate", flip_at=3)
        flipped = rig.arcops("qualify", "candidate", *QUICK, "--keep", within=120)
        assert flipped.code == ExitCode.FAILED, flipped.out + flipped.err
        identity = gates(rig)["identity"]
        assert identity.verdict is Verdict.FAILED
        assert "at token 3" in identity.evidence[0]
        assert "nats" in identity.evidence[0]
        assert running(rig) == "target-only"

        accepted = rig.arcops(
            "qualify", "candidate", *QUICK, "--accept-divergence", "another kernel", "--headroom", "64", within=120
        )
        assert accepted.code == 0, accepted.out + accepted.err
        assert "another kernel" in gates(rig)["identity"].detail
        assert running(rig) == "target-only"

        rig.misbehaving("candidate", start_seconds=60)
        interrupted = ordered(rig, "qualify", "candidate")
        eventually(lambda: rig.status().order.profile == "candidate", within=60, why="no order came")
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(120) == 130
        assert running(rig) == "target-only", "after Ctrl-C as well"

        rig.misbehaving("candidate", fail_with="oom")
        failed = rig.arcops("qualify", "candidate", within=120)
        assert failed.code == ExitCode.BACKEND_FAILED, failed.out + failed.err
        assert gates(rig)["start"].verdict is Verdict.FAILED
        assert gates(rig)["chat"].verdict is Verdict.SKIPPED
        assert any("memory" in line.lower() for line in gates(rig)["start"].evidence), "the diagnosis"
        assert running(rig) == "target-only"

        bare = rig.arcops("qualify", "target-only", "--url", rig.url, *QUICK, "--soak", "2s", within=120)
        assert "soak" in bare.out
        assert gates(rig)["soak"].verdict is not Verdict.SKIPPED
        assert gates(rig)["chat"].verdict is Verdict.PASSED
        assert rig.arcops("switch", "target-only", "--qualified").code == ExitCode.BLOCKED, "a bare server never counts"


def test_a_prompt_without_its_answer_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        refused = rig.arcops("qualify", "mtp", "--chat-prompt", "What?")
        assert refused.code == ExitCode.USAGE
        assert rig.arcops("qualify", "mtp").code == ExitCode.NO_DAEMON


ENDED = """
import asyncio, os, signal, sys
from arcops.cli.qualify import until_told

async def work():
    try:
        for number in {numbers!r}:
            os.kill(os.getpid(), number)
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("brought back")

until_told(work())
"""


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], 129),
    ],
)
def test_whatever_ends_the_command_lets_it_bring_back_what_ran(numbers: list[int], code: int) -> None:
    program = ENDED.format(numbers=[int(one) for one in numbers])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (code, "brought back\n"), ended.stderr
