"""What processes are doing: told in words, whatever cannot be read."""

import os
import subprocess
from pathlib import Path

import pytest

from arcops.machine import autopsy
from tests.helpers import eventually

pytestmark = pytest.mark.processes


def test_a_process_is_described_with_state_waits_threads_and_command_line() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        try:
            text = eventually(lambda: now if "/bin/sleep" in (now := autopsy.describe_processes([child.pid])) else "")
        finally:
            child.kill()
    assert text.startswith(f"pid {child.pid}: ")
    assert f"parent {os.getpid()}, session {os.getsid(0)}, 1 threads" in text
    assert "command line: /bin/sleep 60" in text
    assert "waits in: " in text
    assert "kernel stack: " in text, "read, or why not"
    assert f"thread {child.pid}: " in text


def test_processes_that_have_gone_and_none_at_all_are_said_to_be() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        child.wait()
    assert autopsy.describe_processes([child.pid]) == f"pid {child.pid}: has gone\n"
    assert autopsy.describe_processes([]) == "no process is left\n"


def fake_proc(root: Path, pid: int, threads: int) -> None:
    """A process as /proc shows one, with `threads` threads and nothing that may be read but the stat files."""
    line = "{0} (VLLM::Engine Cor) R 1 1 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 {1} 0 99 0 0 " + " ".join(["0"] * 30)
    for folder in (root / str(pid), *(root / str(pid) / "task" / str(pid + n) for n in range(threads))):
        folder.mkdir(parents=True)
        (folder / "stat").write_text(line.format(folder.name, threads))


def test_many_threads_are_cut_and_counted(tmp_path: Path) -> None:
    fake_proc(tmp_path, 5, autopsy.MOST_THREADS + 3)
    text = autopsy.describe_processes([5], str(tmp_path))
    assert "pid 5: VLLM::Engine Cor\n  state R, parent 1, session 7" in text
    assert "kernel stack: (No such file or directory)" in text
    assert text.count("  thread ") == autopsy.MOST_THREADS
    assert "and 3 threads more" in text


def test_a_process_whose_threads_cannot_be_listed_is_described_all_the_same(tmp_path: Path) -> None:
    fake_proc(tmp_path, 5, 0)
    assert "threads: No such file or directory" in autopsy.describe_processes([5], str(tmp_path))


def py_spy(folder: Path, script: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_py_spy_is_found_on_the_path_or_beside_the_runtime(tmp_path: Path) -> None:
    on_path, beside = py_spy(tmp_path / "bin", "true"), py_spy(tmp_path / "venv", "true")
    vllm = str(tmp_path / "venv" / "vllm")
    assert autopsy.find_py_spy(vllm, str(tmp_path / "bin")) == on_path
    assert autopsy.find_py_spy(vllm, str(tmp_path / "none")) == beside
    assert autopsy.find_py_spy(str(tmp_path / "elsewhere" / "vllm"), str(tmp_path / "none")) is None
    assert autopsy.find_py_spy(None, str(tmp_path / "none")) is None


def test_stacks_are_those_of_each_process_and_a_fault_of_one_is_said(tmp_path: Path) -> None:
    program = py_spy(tmp_path, '[ "$4" = 7 ] && { echo "no permission" >&2; exit 1; }; echo "$@"')
    text = autopsy.stacks(program, [6, 7])
    assert "pid 6\ndump --nonblocking --pid 6\n" in text
    assert "pid 7\n(py-spy ended with 1) no permission\n" in text
    assert "cannot be run: No such file" in autopsy.stacks(str(tmp_path / "none"), [6])
    assert autopsy.stacks(program, []) == "no process is left\n"


def test_a_py_spy_that_may_not_attach_is_said_with_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = tmp_path / "ptrace_scope"
    scope.write_text("1\n")
    monkeypatch.setattr(autopsy, "_PTRACE_SCOPE", str(scope))
    said = "Permission Denied: Try running again with elevated permissions"
    text = autopsy.stacks(py_spy(tmp_path / "bin", f'echo "{said}"; exit 1'), [6])
    assert "it may not attach, root may, and where kernel.yama.ptrace_scope is 0 their user; here it is 1" in text
    assert said in text


def test_a_py_spy_that_hangs_is_waited_for_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopsy, "DUMP_WITHIN", 0.2)
    monkeypatch.setattr(autopsy, "DUMPS_WITHIN", 0.1)
    text = autopsy.stacks(py_spy(tmp_path, "exec sleep 60"), [6, 7])
    assert "pid 6\n(py-spy did not come back within" in text
    assert "pid 7\n(no time was left)" in text
