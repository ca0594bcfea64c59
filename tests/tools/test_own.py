"""The demo's own arcops: it says why it failed, waits for nothing without a limit, and leaves nothing."""

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.real import Census
from tests.helpers import eventually
from tools import demo, own
from tools.own import Runtime, supervised

pytestmark = pytest.mark.processes

DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", os.getpid(), flush=True)
time.sleep(60)
"""


def play(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let `program` be the daemon."""
    monkeypatch.setattr(own, "DAEMON", (sys.executable, "-c", program))


def test_the_demo_shows_a_completion_and_the_status_and_leaves_nothing(
    runtime: Runtime, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with supervised("demo", runtime) as arcops:
        demo.show(arcops)
        backend = Census(arcops.port)
        assert len(backend.servers()) == 1
    out = capfd.readouterr().out
    assert out.startswith(demo.PROMPT)
    assert "serving demo-dflash2" in out
    assert backend.servers() == set()
    assert list(temporary.iterdir()) == []


def test_a_switch_that_fails_ends_the_demo_with_its_exit_code_and_the_daemons_log(
    runtime: Runtime, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nowhere = Runtime(temporary.parent / "no" / "vllm", runtime.models)
    with pytest.raises(SystemExit) as ended, supervised("demo", nowhere) as arcops:
        demo.show(arcops)
    assert ended.value.code == 6
    err = capfd.readouterr().err
    assert "arcops switch demo-dflash2 failed with exit code 6" in err
    assert "arcopsd ends" in err or "ready" in err.partition("the end of the daemon's log:")[2]
    assert list(temporary.iterdir()) == []


def test_a_daemon_that_ends_at_once_is_told_with_its_last_words(
    runtime: Runtime, temporary: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, "raise SystemExit('nothing works today')")
    with pytest.raises(SystemExit, match="ended at once, with exit code 1"), supervised("demo", runtime):
        pytest.fail("it answers")
    assert "nothing works today" in capfd.readouterr().err
    assert list(temporary.iterdir()) == []


# The daemon is left as it is on purpose, and its Popen with it.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_daemon_that_neither_answers_nor_ends_holds_up_nobody_and_keeps_its_folder(
    runtime: Runtime, temporary: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, DEAF)
    monkeypatch.setattr(own, "DAEMON_WITHIN", 0.5)
    monkeypatch.setattr(own, "END_WITHIN", (0.1, 0.1))
    with pytest.raises(SystemExit, match="does not answer"), supervised("demo", runtime):
        pytest.fail("it answers")
    (folder,) = temporary.iterdir()
    words = eventually(lambda: (folder / "arcopsd.log").read_text().split())
    pid = int(words[1])
    try:
        err = capfd.readouterr().err
        assert f"the daemon (pid {pid}) has not ended" in err
        assert str(folder) in err
        assert f"deaf {pid}" in err
    finally:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        gc.collect()


def test_who_asks_for_the_end_is_not_shown_a_log(
    runtime: Runtime, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), supervised("demo", runtime):
        raise KeyboardInterrupt
    assert "log" not in capfd.readouterr().err
    assert list(temporary.iterdir()) == []


def test_a_command_that_takes_too_long_is_given_up(runtime: Runtime, temporary: Path) -> None:
    with pytest.raises(SystemExit, match="no end after"), supervised("demo", runtime) as arcops:
        arcops.must("events", "--follow", within=1)
    assert list(temporary.iterdir()) == []
