"""A daemon with a hook that no production code has: it dies at a named point, and its wall clock can be stepped.

`python -m tests.daemon.crashing FOLDER`. What happens is said by files in FOLDER, so that a running daemon can be told:
`armed` holds the point at which it kills itself (`N` and the point for the N-th time), `steps` the offset of its wall
clock in seconds; while there is `no-forks` no process can be started, and while there is `no-profiles` no profile of an
order that was found is read. It appends each point that it reaches to `trace`,
and renames `armed` to `struck` as it dies.
"""

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, ParamSpec, Self, TypeVar

import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.core.state import Order
from arcops.daemon import wiring
from arcops.daemon.checkpoint import Checkpoints
from arcops.daemon.clock import Clock
from arcops.daemon.main import configure_logging, serve
from arcops.daemon.orders import Orders
from arcops.machine import spawn
from tests.daemon.rig import Rig
from tests.daemon.waiting import until
from tests.helpers import eventually

PATIENCE = 90.0
"""Seconds: a daemon starts in one, where it has a processor."""
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Crashing(Checkpoints):
    """Kills its process at the point that is armed."""

    folder: Path
    _seen: int = field(default=0, init=False)

    def reach(self, point: str) -> None:
        with (self.folder / "trace").open("a") as trace:
            trace.write(f"{point}\n")
        armed = self.folder / "armed"
        if not armed.exists():
            return
        count, _, wanted = armed.read_text().partition(" ")
        if point != wanted:
            return
        self._seen += 1
        if self._seen >= int(count):
            armed.rename(self.folder / "struck")
            os.kill(os.getpid(), signal.SIGKILL)


def stepped(folder: Path) -> Clock:
    """A clock whose wall time is off by what `steps` says."""

    def wall() -> float:
        steps = folder / "steps"
        return time.time() + (float(steps.read_text()) if steps.exists() else 0.0)

    return Clock(wall=wall)


@dataclass(slots=True)
class CrashingRig(Rig):
    """A rig whose daemons can be told to die at a point, and are told the time."""

    @property
    def folder(self) -> Path:
        return self.root / "crashing"

    def start(self) -> Self:
        """As the others do it, with more patience: many daemons are started in a row here, on a busy machine."""
        self.launch_daemon()
        self.until(self.answers, "the daemon answers")
        return self

    def until(self, condition: Callable[[], T | None], wanted: str) -> T:
        """Poll with much patience; what is the case instead is told as it is in the end."""
        try:
            return eventually(condition, within=PATIENCE)
        except pytest.fail.Exception:
            now = "nobody answers"
            with suppress(ArcopsError):
                now = str(self.status())
        raise AssertionError(f"not within {PATIENCE:.0f} s: {wanted}\n{now}\n{self.daemon_log()[-6000:]}")

    def daemon_command(self) -> list[str]:
        self.folder.mkdir(exist_ok=True)
        return [sys.executable, "-m", "tests.daemon.crashing", str(self.folder)]

    def arm(self, point: str, count: int = 1) -> None:
        """The running daemon, or else the next one, dies when it reaches `point` for the `count`-th time."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "struck").unlink(missing_ok=True)
        staged = self.folder / "staged"
        staged.write_text(f"{count} {point}")
        staged.rename(self.folder / "armed")

    def disarm(self) -> None:
        (self.folder / "armed").unlink(missing_ok=True)

    @property
    def struck(self) -> bool:
        return (self.folder / "struck").exists()

    def trace(self) -> list[str]:
        """Every point that was reached, by any daemon of this rig, since the last `forget_trace`."""
        trace = self.folder / "trace"
        return trace.read_text().splitlines() if trace.exists() else []

    def forget_trace(self) -> None:
        (self.folder / "trace").unlink(missing_ok=True)

    def refuse_forks(self, refused: bool) -> None:
        """Whether the machine refuses a new process from now on."""
        self.folder.mkdir(exist_ok=True)
        if refused:
            (self.folder / "no-forks").touch()
        else:
            (self.folder / "no-forks").unlink(missing_ok=True)

    def hold_profiles(self, held: bool) -> None:
        """Whether the next daemon, or the running one, has to wait before it reads the profiles of what is ordered."""
        self.folder.mkdir(exist_ok=True)
        if held:
            (self.folder / "no-profiles").touch()
        else:
            (self.folder / "no-profiles").unlink(missing_ok=True)

    def step_clock(self, seconds: float) -> None:
        """Set the daemon's wall clock off by so much."""
        self.folder.mkdir(exist_ok=True)
        staged = self.folder / "staged-steps"
        staged.write_text(str(seconds))
        staged.rename(self.folder / "steps")


def refusing(folder: Path, start: Callable[P, R]) -> Callable[P, R]:
    """`start`, which fails as fork(2) does where there is no room for one more process."""

    def perhaps(*arguments: P.args, **named: P.kwargs) -> R:
        if (folder / "no-forks").exists():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return start(*arguments, **named)

    return perhaps


class Waiting(Orders):
    """Reads the profiles of an order that was found as a home directory in the network may: late."""

    folder: ClassVar[Path]

    async def restored(self, order: Order) -> Order:
        await until(lambda: not (self.folder / "no-profiles").exists(), PATIENCE)
        return await Orders.restored(self, order)


def main(folder: Path) -> None:
    configure_logging()
    spawn.spawn = refusing(folder, spawn.spawn)
    Waiting.folder = folder
    wiring.Orders = Waiting
    try:
        asyncio.run(serve(Paths.of(os.environ["ARCOPS_INSTANCE"]), stepped(folder), Crashing(folder)))
    except ArcopsError as error:
        sys.stderr.write(f"arcopsd: {error}\n")
        raise SystemExit(int(error.exit_code)) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
