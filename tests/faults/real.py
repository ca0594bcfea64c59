"""The same matrix on real vLLM: which cells, and how the phases are arranged where nothing can be told to wait."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.e2e.real import START_WITHIN, real_rig
from tests.faults.matrix import CELLS, Cell
from tests.faults.stage import Stage
from tests.helpers import eventually

CHAIN: Sequence[str] = (
    "record-removed-in-idle",
    "database-locked-in-idle",
    "second-daemon-in-idle",
    "keeper-sigkill-in-idle",
    "log-deleted-in-idle",
    "client-leaves-in-busy",
    "supervisor-sigkill-in-busy",
    "api-sigkill-in-idle",
    "api-sigkill-in-busy",
    "engine-sigkill-in-idle",
    "engine-sigkill-in-starting",
    "api-sigkill-in-starting",
    "supervisor-sigkill-in-starting",
    "supervisor-sigterm-in-idle",
    "order-stop-in-starting",
    "engine-sigstop-in-busy",
)
"""The recovery of one is the start of the next, so those that leave the backend alone come first."""

REAL: Sequence[Cell] = tuple(next(cell for cell in CELLS if cell.id == name) for name in CHAIN)


class RealStage(Stage):
    """A rig with real vLLM and the tiny models. Phases that pass in a second are struck as soon as they are seen."""

    model = "demo"
    within = START_WITHIN
    stream_tokens = 6_000
    """Some three seconds: while real vLLM decodes without a pause, everybody else on two cores may stand still."""

    def __init__(self, root: Path) -> None:
        super().__init__(real_rig(root))

    def write_profiles(self, phase: str, *, hasty: bool, **fake: object) -> None:
        """Two profiles of the shipped ones; a hang is found within seconds where that is the point."""
        assert not fake, "real vLLM takes no wishes"
        always = {"drain": "2s", "shutdown_timeout": "1s", "stop_grace": "20s", "stall_after": "10m", "probe": "2m"}
        limits = {**always, "stop_grace": "5s", "stall_after": "3s", "probe": "5s"} if hasty else always
        checks = {"idle_probe": "2s"} if hasty else {}
        own = {"limits": limits, "checks": checks, "restart": {"first_delay": "0.05s", "factor": 1, "per_hour": 60}}
        for name, extends in ((self.profile, "demo-target-only"), (self.other, "demo-dflash2")):
            self.rig.profile(name, extends=extends, server={"port": self.rig.port}, **own)

    def works(self) -> None:
        body = {"model": self.model, "prompt": "one two", "max_tokens": 2, "temperature": 0}
        answer = httpx.post(f"{self.rig.url}/v1/completions", json=body, timeout=self.within, trust_env=False)
        answer.raise_for_status()

    def _arrange_starting(self) -> None:
        before = self.launch
        os.kill(self.main, signal.SIGKILL)
        eventually(lambda: self.launch not in (None, before), within=self.within, why="no new launch")
        self.wait_for("starting")
        assert self.engine
