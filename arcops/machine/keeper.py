"""The keeper: parent of one backend, and the last of its processes to go.

Run as `python -I -S keeper.py LAUNCH_ID STATUS_FILE [--cgroup PATH] -- ARGV...`; needs only the standard library. It
outlives the supervisor, so three things stay true whoever dies: the locks whose descriptors it inherited are held until
the last descendant has ended (it is a child subreaper, so strays come to it), the exit code of the main process is
written down for a later supervisor, and nothing is left as a zombie. It ends nobody: that is the supervisor's decision,
and a parent-death signal would break the promise that a dying supervisor leaves a healthy backend alone.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from typing import NoReturn

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
"""Numbers of include/uapi/linux/prctl.h."""
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_RESTORED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""What the backend gets back: the keeper's own choices, the two that Python ignores for itself, and what arcopsd was
started with (a shell ignores SIGQUIT for what runs in its background)."""
_CANNOT_RUN = 127
"""The shell's word for a command that could not be started."""

Status = dict[str, object]


def main(arguments: list[str]) -> int:
    launch, path, cgroup, argv = parse(arguments)
    become_keeper()
    status: Status = {
        "launch": launch,
        "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
        "keeper": identity(os.getpid()),
        "main": None,
    }
    try:
        if cgroup is not None:
            enter(cgroup)
        pid, error = start(argv, path, status)
    except OSError as problem:
        pid, error = None, in_words(problem, argv[0])
    if error is not None:
        if pid is not None:
            os.waitpid(pid, 0)
        number, _, words = error.partition(" ")
        note(path, {**status, "exit": _CANNOT_RUN, "error": words, "errno": int(number)})
        return 0
    stay(pid, path, status)
    return 0


def parse(arguments: list[str]) -> tuple[str, str, str | None, list[str]]:
    """Launch id, status file, cgroup or None, and the command line. Ends with 2 when they make no sense."""
    if "--" in arguments:
        at = arguments.index("--")
        mine, argv = arguments[:at], arguments[at + 1 :]
        if argv and len(mine) == 2:
            return mine[0], mine[1], None, argv
        if argv and len(mine) == 4 and mine[2] == "--cgroup":
            return mine[0], mine[1], mine[3], argv
    print("usage: keeper.py LAUNCH_ID STATUS_FILE [--cgroup PATH] -- ARGV...", file=sys.stderr)
    sys.exit(2)


def become_keeper() -> None:
    """A session of its own, deaf to the signals that are meant for the backend, and parent of all strays."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if os.getsid(0) != os.getpid():
        os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")
    libc.prctl(_PR_SET_NAME, b"arcops-keeper", 0, 0, 0)


def enter(cgroup: str) -> None:
    """Move into a cgroup2 directory that is there already. Raises OSError."""
    with open(os.path.join(cgroup, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write("0")


def start(argv: list[str], path: str, status: Status) -> tuple[int, str | None]:
    """Start the main process; its pid, and why it could not be executed, if so (see `in_words`).

    The child waits until its pid is written down, so that no backend ever runs that a later supervisor cannot find.
    """
    go_read, go_write = os.pipe()
    failed_read, failed_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.close(failed_read)
        run(argv, go_read, failed_write)
    os.close(go_read)
    os.close(failed_write)
    status["main"] = identity(pid)
    write(path, status)
    # A child that was killed before it ran is no error here: its end is seen like any other.
    with contextlib.suppress(BrokenPipeError):
        os.write(go_write, b"1")
    os.close(go_write)
    with os.fdopen(failed_read, "rb") as file:
        error = file.read().decode("utf-8", "replace")
    return pid, error or None


def run(argv: list[str], go: int, failed: int) -> NoReturn:
    """In the child: wait for the word, restore the signals and become the backend."""
    try:
        if os.read(go, 1):
            for number in _RESTORED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            # A list of arguments, no shell: becoming the backend is what this process is for.
            os.execvp(argv[0], argv)  # noqa: S606
    except OSError as problem:
        os.write(failed, in_words(problem, argv[0]).encode())
    os._exit(_CANNOT_RUN)


def in_words(problem: OSError, what: str) -> str:
    """The number of the error (0 where it has none), a space, and what a person needs."""
    return f"{problem.errno or 0} {problem.strerror}: {problem.filename or what}"


def stay(main_pid: int | None, path: str, status: Status) -> None:
    """Reap until no descendant is left, and write down how the main process ended."""
    while True:
        try:
            pid, raw = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == main_pid:
            main_pid = None
            status["exit"] = os.waitstatus_to_exitcode(raw)
            note(path, status)


def identity(pid: int) -> dict[str, int]:
    """Pid and start time (clock ticks since boot, field 22 of /proc/PID/stat)."""
    after = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return {"pid": pid, "start": int(after[19])}


def read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def write(path: str, status: Status) -> None:
    """Replace the status file in one step: a reader sees the old one or the new one. Raises OSError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(status, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def note(path: str, status: Status) -> None:
    """Write the status where nothing else can be done about a failure: by now the locks matter more than the note."""
    try:
        write(path, status)
    except OSError as problem:
        print(f"arcops keeper: cannot write {path}: {problem}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
