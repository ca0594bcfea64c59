"""What processes are doing right now: states, waits, threads and, where py-spy is there, Python stacks.

Everything fails softly and into the text itself: a process may go while it is read, and much of /proc is root's alone.
A read may also hang (`cmdline` waits for the lock on the memory of a process that hangs in the kernel): call from a
thread that nobody waits for.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from arcops.machine import proc

MOST_THREADS = 64
"""Threads that are listed one by one; a vLLM engine has some dozens."""
MOST_PROCESSES = 64
_LONGEST = 4096
"""Bytes of a command line or a kernel stack."""
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
DUMP_WITHIN = 5.0
"""Seconds for the stacks of one process; py-spy takes some tenths of one."""
DUMPS_WITHIN = 15.0
"""Seconds for the stacks of all of them."""


def describe_processes(pids: Iterable[int], root: str = proc.ROOT) -> str:
    """A paragraph for each process, in the words of proc(5)."""
    some = list(pids)[:MOST_PROCESSES]
    return "\n\n".join("\n".join(_process(pid, root)) for pid in some) + "\n" if some else "no process is left\n"


def _process(pid: int, root: str) -> Iterator[str]:
    found = proc.stat(pid, root)
    if found is None:
        yield f"pid {pid}: has gone"
        return
    folder = f"{root}/{pid}"
    yield f"pid {pid}: {found.command}"
    yield f"  state {found.state}, parent {found.parent}, session {found.session}, {found.threads} threads"
    yield f"  waits in: {_text(f'{folder}/wchan', 64)}"
    yield f"  command line: {_text(f'{folder}/cmdline', _LONGEST).replace(chr(0), ' ')}"
    yield f"  kernel stack: {_indented(_text(f'{folder}/stack', _LONGEST))}"
    yield from _threads(folder)


def _threads(folder: str) -> Iterator[str]:
    try:
        names = sorted((name for name in os.listdir(f"{folder}/task") if name.isdigit()), key=int)
    except OSError as error:
        yield f"  threads: {error.strerror}"
        return
    for name in names[:MOST_THREADS]:
        one = proc.parse_stat(_text(f"{folder}/task/{name}/stat", _LONGEST))
        if one is not None:
            waits = _text(f"{folder}/task/{name}/wchan", 64)
            yield f"  thread {name}: {one.command}, state {one.state}, {one.ticks} ticks, waits in: {waits}"
    if len(names) > MOST_THREADS:
        yield f"  and {len(names) - MOST_THREADS} threads more"


def _text(path: str, most: int) -> str:
    try:
        with open(path, "rb") as file:
            text = file.read(most).decode("utf-8", "replace").strip("\0\n ")
    except OSError as error:
        return f"({error.strerror})"
    return text or "(nothing)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def find_py_spy(beside: str | None, path: str | None = None) -> str | None:
    """The py-spy that can be run: on PATH (`path`, or this process's own), or in the folder of the program `beside`."""
    found = shutil.which("py-spy", path=path)
    if found is None and beside is not None:
        found = shutil.which("py-spy", path=str(Path(beside).parent))
    return found


def stacks(py_spy: str, pids: Iterable[int]) -> str:
    """The Python stacks of each process. They are read without stopping it: looking must not harm what still works."""
    parts: list[str] = []
    end = time.monotonic() + DUMPS_WITHIN
    for pid in list(pids)[:MOST_PROCESSES]:
        left = min(DUMP_WITHIN, end - time.monotonic())
        said = "(no time was left)" if left <= 0 else _dump(py_spy, pid, left)
        parts.append(f"pid {pid}\n{said}\n")
    return "\n".join(parts) or "no process is left\n"


def _dump(py_spy: str, pid: int, within: float) -> str:
    try:
        done = subprocess.run(
            [py_spy, "dump", "--nonblocking", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"(py-spy did not come back within {within:.0f} s)"
    except OSError as error:
        return f"(py-spy cannot be run: {error.strerror})"
    text = done.stdout.decode("utf-8", "replace").rstrip()
    if done.returncode == 0:
        return text
    return f"(py-spy ended with {done.returncode}{_who_may(text)}) {text}"


def _who_may(said: str) -> str:
    """Where py-spy was not let in: who is. A user's own processes are not enough where Yama says so (ptrace(2))."""
    if "permission denied" not in said.lower():
        return ""
    scope = _text(_PTRACE_SCOPE, 16)
    return f": it may not attach, root may, and where kernel.yama.ptrace_scope is 0 their user; here it is {scope}"
