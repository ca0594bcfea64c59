"""Starts a backend: through its keeper, into a log file, with nothing that ties it to the supervisor."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

KEEPER = "keeper.py"
"""The script that every backend is started through; the launch id is its first argument."""
_KEEPER = Path(__file__).with_name(KEEPER)


def keeper_command(
    launch_id: str, status_path: str, argv: Sequence[str], cgroup: Path | None = None
) -> tuple[str, ...]:
    """The command line that runs `argv` under a keeper, which joins `cgroup` first where there is one.

    Isolated (-I) and without site-packages (-S): it starts in a few hundredths of a second, and the PYTHONPATH of the
    backend means nothing to it.
    """
    place = () if cgroup is None else ("--cgroup", str(cgroup))
    return (sys.executable, "-I", "-S", str(_KEEPER), launch_id, status_path, *place, "--", *argv)


def spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, log_path: str, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Start `argv` with exactly `env`; stdin from nowhere, stdout and stderr appended to the log file (made 0600).

    Never a pipe: a backend that outlives the supervisor would die of it, or block on it. The keeper makes a session of
    its own, so none is made here. Raises OSError when the log, the folder or the program is not there.
    """
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            close_fds=True,
            pass_fds=tuple(pass_fds),
        )
    finally:
        os.close(log)
