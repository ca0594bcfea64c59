"""The plan as a program: `python -m arcops.tui.checks.planner INSTANCE PROFILE` prints it on a line.

Where it fails the line is an `ErrorInfo`, and the exit code is its own.
"""

import sys

from arcops import wire
from arcops.client import Client
from arcops.config import Config
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.planning.measured import measured
from arcops.planning.plan import PlanError
from arcops.planning.told import told


def run(instance: str, profile: str) -> wire.PlanInfo:
    """The plan of a profile, as of now. Raises ArcopsError."""
    launch, paths = Config.load(instance=instance).launch(profile), Paths.of(instance)
    decode = measured(Client(paths.socket), profile) if paths.socket.exists() else None
    try:
        return told(launch, paths, decode=decode)
    except PlanError as error:
        raise ArcopsError(error.words, hint=error.hint, exit_code=ExitCode.INVALID) from error


def _print(message: wire.PlanInfo | wire.ErrorInfo) -> None:
    sys.stdout.buffer.write(wire.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        _print(run(sys.argv[1], sys.argv[2]))
    except ArcopsError as fault:
        _print(wire.ErrorInfo(message=fault.message, hint=fault.hint))
        raise SystemExit(int(fault.exit_code)) from None
