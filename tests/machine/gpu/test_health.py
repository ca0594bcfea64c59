"""A card is tried in a child that may hang, crash or babble without harm to whoever started it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arcops.core.cards.health import Health, Verdict
from arcops.machine import proc
from arcops.machine.gpu import health
from arcops.machine.gpu.health import Examiner, Patience, Subject, python_of, running
from tests.fakes.runtime import real_runtime
from tests.helpers import eventually

pytestmark = pytest.mark.processes

B70 = "0000:03:00.0"
QUICK = Patience(loads=1.0, step=1.0, killed=60.0)
CALM = Patience(loads=100.0, step=100.0, killed=60.0)
"""For what comes by itself, on a machine that may stand still meanwhile."""

TORCH = """
import os, signal, sys, time
__version__ = "2.13.0+fake"
FAULT = os.environ.get("FAKE_FAULT", "")
float32 = bfloat16 = int64 = None
if FAULT == "import":
    raise OSError("libsycl.so.8: cannot open shared object file")
if FAULT == "import hangs":
    time.sleep(600)

class Tensor:
    dtype = None
    def same(self, *_): return self
    unsqueeze = to = cpu = __mul__ = __mod__ = __add__ = __matmul__ = __ne__ = same
    def sum(self): return 9 if FAULT == "wrong" else 0

def arange(size):
    if FAULT == "lost": raise RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")
    if FAULT == "memory": raise RuntimeError("level_zero backend failed (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)")
    if FAULT == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if FAULT == "hang": time.sleep(600)
    if FAULT == "deaf child": print("Abort was called at 49 line in file", file=sys.stderr); os._exit(134)
    return Tensor()

class xpu:
    def device_count():
        if FAULT == "enumeration hangs": time.sleep(600)
        return 0 if FAULT == "none" else 2 if FAULT == "two" else 1
    def get_device_name(index): return "Intel(R) Arc(TM) Pro B70 Graphics"
"""


ONE_BIT = """
import runpy, sys, torch
trial = runpy.run_path(sys.argv[1])
whole = torch.Tensor.cpu
def flipped(self):
    copy = whole(self).clone()
    copy[3, 5] += 1
    return copy
torch.Tensor.cpu = flipped
print(trial["compute"](torch, "cpu"))
"""
"""Real torch, and a device that has one number of 65,536 wrong by one."""


class Runtime:
    """A vllm with a Python beside it, and a torch that fails as it is told."""

    def __init__(self, root: Path) -> None:
        (root / "lib").mkdir()
        (root / "lib" / "torch.py").write_text(TORCH)
        self.root, self.vllm = root, root / "vllm"
        self.vllm.write_text(f"#!{sys.executable}\n")

    def subject(self, fault: str = "", cards: tuple[str, ...] = (B70,)) -> Subject:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.root / "lib"), "FAKE_FAULT": fault}
        return Subject(str(self.vllm), cards, ("xe",) * len(cards), env)

    def examined(self, fault: str = "", patience: Patience = CALM, cards: tuple[str, ...] = (B70,)) -> Health:
        return Examiner(patience).examine(self.subject(fault, cards))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Generator[Callable[[str], str]]:
    """Another script in the real one's place, with a name of its own: other tests may be at work."""
    path = tmp_path / f"trial_{os.getpid()}_{tmp_path.name}.py"

    def write(code: str) -> str:
        path.write_text(f"import os, signal, sys, time\n{code}\n")
        return str(path)

    yield write
    found = running(str(path), (B70,))
    if found is not None:
        os.kill(found[0], signal.SIGKILL)


def test_a_card_that_computes_is_healthy(runtime: Runtime) -> None:
    assert runtime.examined() == Health(Verdict.HEALTHY, f"card {B70} computes (tried with torch 2.13.0+fake)")


@pytest.mark.parametrize(
    ("fault", "verdict", "part"),
    [
        ("lost", Verdict.WEDGED, f"card {B70} was lost over a small product: RuntimeError: level_zero"),
        ("wrong", Verdict.WEDGED, f"card {B70} computes wrong numbers: 9 of 65536 numbers in float32"),
        ("memory", Verdict.INCONCLUSIVE, "OUT_OF_DEVICE_MEMORY"),
        ("crash", Verdict.INCONCLUSIVE, f"was ended by SIGSEGV, in the middle of card {B70}"),
        ("deaf child", Verdict.INCONCLUSIVE, "ended with exit code 134 (Abort was called at 49 line in file)"),
        ("none", Verdict.INCONCLUSIVE, "sees no xpu card"),
        ("two", Verdict.INCONCLUSIVE, "sees 2 cards, where 1 were meant"),
        ("import", Verdict.INCONCLUSIVE, "torch cannot be imported: OSError: libsycl"),
    ],
)
def test_every_fault_of_a_card_and_of_its_runtime_is_told_apart(
    runtime: Runtime, fault: str, verdict: Verdict, part: str
) -> None:
    found = runtime.examined(fault)
    assert part in found.words
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("fault", "verdict", "part"),
    [
        ("hang", Verdict.WEDGED, f"card {B70} did not finish a small product within 5 s"),
        ("enumeration hangs", Verdict.WEDGED, f"card {B70} did not come up within 5 s"),
    ],
)
def test_a_card_that_does_not_come_back_is_wedged(runtime: Runtime, fault: str, verdict: Verdict, part: str) -> None:
    found = runtime.examined(fault, Patience(loads=100.0, step=5.0, killed=60.0))
    assert part in found.words
    assert found.verdict is verdict
    assert "/sys/bus/pci/drivers/xe/unbind" in found.hint
    assert running(health.SCRIPT, (B70,)) is None


def test_a_slow_disk_is_no_fault_of_the_card(runtime: Runtime) -> None:
    found = runtime.examined("import hangs", QUICK)
    assert (found.verdict, "to be imported" in found.words) == (Verdict.INCONCLUSIVE, True)


def test_a_runtime_without_torch_says_so(runtime: Runtime) -> None:
    (runtime.root / "lib" / "torch.py").unlink()
    found = runtime.examined()
    assert (found.verdict, "torch is not in the runtime" in found.words) == (Verdict.INCONCLUSIVE, True)


def test_a_runtime_that_is_not_there_is_told(runtime: Runtime) -> None:
    runtime.vllm.write_text("#!/nonexistent/python3\n")
    assert "/nonexistent/python3 cannot be started: No such file" in runtime.examined().words
    runtime.vllm.unlink()
    assert "cannot be told" in runtime.examined().words


def test_cards_that_torch_cannot_take_together_are_not_tried(runtime: Runtime) -> None:
    subject = Subject(str(runtime.vllm), (B70, "0000:08:00.0"), ("xe", "nvidia"), {})
    found = Examiner(CALM).examine(subject)
    assert (found.verdict, "driver xe, nvidia" in found.words) == (Verdict.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    "code",
    [
        "print('x' * 10_000_000)",
        "while True: print('right 0 0.1', flush=True)",
        "os.write(1, bytes(range(256)) * 20)",
        "sys.exit(3)",
        "os.execv('/bin/echo', ['echo', 'torch', 'done'])",
    ],
)
def test_rubbish_is_inconclusive(runtime: Runtime, script: Callable[[str], str], code: str) -> None:
    found = Examiner(CALM, script(code)).examine(runtime.subject())
    assert found.verdict is not Verdict.HEALTHY
    assert found.words.isprintable()


def test_a_child_that_outlives_sigkill_is_left_and_not_started_a_second_time(
    runtime: Runtime, script: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test can hang in a driver; a SIGKILL that is never sent looks the same to whoever waits."""
    path = script("print('torch 2', flush=True); print('cards 1', flush=True); time.sleep(600)")
    monkeypatch.setattr(health, "_kill", lambda child: None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType] - of any type
    examiner = Examiner(Patience(loads=60.0, step=0.5, killed=0.5), path)
    first = examiner.examine(runtime.subject())
    assert "outlived SIGKILL" in first.words
    left = running(path, (B70,))
    assert left is not None
    second = examiner.examine(runtime.subject())
    assert f"an earlier trial hangs in the driver (process {left[0]}" in second.words
    assert {first.verdict, second.verdict} == {Verdict.WEDGED}
    assert running(path, (B70,)) is not None
    os.kill(left[0], signal.SIGKILL)
    eventually(lambda: running(path, (B70,)) is None, within=60.0)
    monkeypatch.undo()
    # Its own child is killed in earnest now, and a busy machine takes its time to let it go.
    monkeypatch.setattr(examiner, "_patience", Patience(loads=60.0, step=0.5, killed=60.0))
    assert "an earlier trial" not in examiner.examine(runtime.subject()).words


def test_a_trial_that_somebody_else_makes_is_left_to_him(runtime: Runtime, script: Callable[[str], str]) -> None:
    path = script("print('torch 2', flush=True); time.sleep(600)")
    first = Examiner(CALM, path)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(first.examine, runtime.subject())
        try:
            (pid,) = eventually(lambda: first.pids, within=60.0)
            found = eventually(lambda: running(path, (B70,)), within=60.0)
            assert found[0] == pid
            other = Examiner(CALM, path).examine(runtime.subject())
            assert f"is being tried by process {pid} already" in other.words
            assert other.verdict is Verdict.INCONCLUSIVE
            assert running(path, ("0000:08:00.0",)) is None, "another card is another matter"
        finally:
            first.close()
        assert "was ended by SIGKILL" in working.result(60).words
    assert first.pids == frozenset()


@pytest.mark.parametrize(
    ("trusted", "spare", "verdict"),
    [
        ({"root", proc.user_name(os.geteuid())}, -1000, Verdict.WEDGED),
        ({"root", proc.user_name(os.geteuid())}, 1000, Verdict.INCONCLUSIVE),
        (set[str](), -1000, Verdict.INCONCLUSIVE),
    ],
    ids=["past every deadline", "within its time", "of a user who may say anything"],
)
def test_a_card_is_given_up_for_a_trial_only_past_its_deadlines_and_never_on_a_strangers_word(
    runtime: Runtime,
    script: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    trusted: set[str],
    spare: int,
    verdict: Verdict,
) -> None:
    path = script("time.sleep(600)")
    monkeypatch.setattr(health, "_SPARE", spare)
    monkeypatch.setattr(health, "_trusted", lambda: frozenset(trusted))
    with subprocess.Popen([sys.executable, path, "xpu", "600", B70]) as earlier:
        try:
            eventually(lambda: running(path, (B70,)), within=60.0)
            found = Examiner(CALM, path).examine(runtime.subject())
        finally:
            earlier.kill()
    assert f"process {earlier.pid}" in found.words
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("#!/opt/vllm/bin/python\nimport sys\n", "/opt/vllm/bin/python"),
        ("#!/opt/vllm/bin/python3.12\n", "/opt/vllm/bin/python3.12"),
        ("#!/bin/sh\n'''exec' \"/a very/long path/bin/python\" \"$0\" \"$@\"\n' '''\n", "/a very/long path/bin/python"),
        ("#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''\n", "/long/bin/python"),
    ],
)
def test_the_runtimes_python_is_what_its_vllm_runs_with(tmp_path: Path, text: str, python: str) -> None:
    vllm = tmp_path / "vllm"
    vllm.write_text(text)
    assert python_of(str(vllm)) == python


def test_a_first_line_with_env_is_looked_up_in_the_launchs_path(tmp_path: Path) -> None:
    vllm = tmp_path / "vllm"
    vllm.write_text("#!/usr/bin/env python3\n")
    (tmp_path / "python3").symlink_to(sys.executable)
    assert python_of(str(vllm), f"/nonexistent:{tmp_path}") == str(tmp_path / "python3")
    assert python_of(str(vllm), "/nonexistent") is None


def test_of_a_wrapper_the_python_beside_what_it_is_a_link_to_is_taken(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "vllm").write_text("#!/bin/bash\nexec something\n")
    (tmp_path / "vllm").symlink_to(tmp_path / "venv" / "vllm")
    assert python_of(str(tmp_path / "vllm")) is None
    (tmp_path / "venv" / "python3").symlink_to(sys.executable)
    assert python_of(str(tmp_path / "vllm")) == str(tmp_path / "venv" / "python3")


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_real_torch_computes_on_the_processor_and_a_wrong_product_is_found() -> None:
    vllm = str(real_runtime().vllm)
    found = Examiner(Patience(loads=400.0, step=100.0)).examine(Subject(vllm, (), (), dict(os.environ)))
    assert found.words.startswith("the processor computes (tried with torch 2.")
    assert found.verdict is Verdict.HEALTHY
    python = python_of(vllm)
    assert python is not None
    said = subprocess.run([python, "-c", ONE_BIT, health.SCRIPT], capture_output=True, text=True, check=True).stdout
    assert said == "1 of 65536 numbers in float32 are wrong\n"
