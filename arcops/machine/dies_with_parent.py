"""Become a command that ends when its parent does. A script of its own: `dies_with_parent.py PARENT COMMAND...`.

The standard library alone, run with `python -I -S`. PARENT is the pid of the process that starts it: one that has died
before the kernel was told is noticed by that.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
"""Number of include/uapi/linux/prctl.h."""
NOT_EXECUTED = 127


def main(parent: int, command: Sequence[str]) -> int:
    """Does not return where the command can be executed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return 0
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - no shell is the point
    except OSError:
        return NOT_EXECUTED


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
