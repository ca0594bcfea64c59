"""A question to a process: what it answers, and what becomes of one that hangs, dies, babbles or is not wanted."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from arcops.machine import child as module
from arcops.machine.child import Child, ChildError
from tests.helpers import eventually

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
HANG = "import os, sys, time; print(os.getpid(), flush=True); sys.stdout.close(); os.close(1); time.sleep(600)"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def ask(code: str, question: bytes = b"", *, within: float = 60.0, most: int = 1 << 20) -> bytes:
    return Child().ask(python(code), question, within=within, most=most)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_question_of_any_size_is_answered_in_full() -> None:
    question = b"0123456789" * 100_000
    assert ask(ECHO, question) == question[::-1]


def test_one_that_does_not_listen_holds_up_nobody() -> None:
    assert ask("print('done', end='')", b"x" * 1_000_000) == b"done"


def test_what_it_says_last_is_why_it_gave_no_answer() -> None:
    with pytest.raises(ChildError, match=r"^no such runtime$"):
        ask("import sys; sys.exit('first\\nno such runtime')")
    with pytest.raises(ChildError, match="exit code 3"):
        ask("raise SystemExit(3)")
    with pytest.raises(ChildError, match="exit code -9"):
        ask("import os; os.kill(os.getpid(), 9)")


def test_one_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = f"""
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(told)!r}).write_text(str(other.pid))
time.sleep(600)
"""
    with pytest.raises(ChildError, match="not done within"):
        ask(code, within=2.0)
    eventually(lambda: not told.exists() or gone(int(told.read_text())), why="what it had started is left")


def test_one_that_has_answered_and_does_not_go_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KILLED_WITHIN", 0.2)
    with pytest.raises(ChildError, match="exit code -9"):
        ask(HANG)


def test_one_that_babbles_is_cut_short() -> None:
    with pytest.raises(ChildError, match="more than 1,000,000 bytes"):
        ask("while True: print('x' * 9999)", most=1_000_000)


def test_whoever_does_not_wait_any_more_ends_it() -> None:
    one, caught = Child(), list[BaseException]()

    def asking() -> None:
        try:
            one.ask(python("import time; time.sleep(600)"), b"", within=600.0, most=10)
        except ChildError as error:
            caught.append(error)

    thread = threading.Thread(target=asking)
    thread.start()
    deadline = time.monotonic() + 60.0
    while thread.is_alive() and time.monotonic() < deadline:
        one.end()
        thread.join(0.02)
    assert len(caught) == 1
    assert one.ask(python(ECHO), b"ab", within=60.0, most=10) == b"ba", "the next question is asked all the same"


def test_what_cannot_be_started_is_the_machines_own_error() -> None:
    with pytest.raises(FileNotFoundError):
        Child().ask(("/nonexistent/reader",), b"", within=1.0, most=1)
