"""The doctor as a program: `python -m arcops.tui.checks.examiner INSTANCE [CHECK]...` prints a finding a line.

Where it fails the last line is an `ErrorInfo`, and the exit code is its own.

What checks load (the profiles' reader, the clients of systemd) is a third of the screen's memory, and one of them may
hang in the kernel: with this process both end.
"""

import os
import sys
from collections.abc import Callable, Sequence

import msgspec

from arcops import wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.doctor import Sight, examine
from arcops.doctor.checks import CHECKS


def run(instance: str, names: Sequence[str], tell: Callable[[bytes], None]) -> None:
    """Give `tell` each finding as JSON when it is there; no names: of all checks. Raises ArcopsError."""
    chosen = [check for check in CHECKS if not names or check.name in names]
    strange = set(names).difference(check.name for check in chosen)
    if strange:
        raise ArcopsError(f"there is no check {', '.join(sorted(strange))}", exit_code=ExitCode.USAGE)
    examine(Sight.of(instance, os.environ), chosen, lambda finding: tell(msgspec.json.encode(finding)))


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        run(sys.argv[1], sys.argv[2:], _print)
    except ArcopsError as fault:
        _print(wire.encode(wire.ErrorInfo(message=fault.message, hint=fault.hint)))
        raise SystemExit(int(fault.exit_code)) from None
