"""One cell, from its arrangement to what is right in the end, and how long that took."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from arcops import wire
from arcops.core.errors import ArcopsError
from tests.faults.matrix import FAULTS, Cell, End
from tests.faults.stage import Stage
from tests.faults.strike import STRIKES, Blow
from tests.helpers import eventually

RESULTS = "ARCOPS_MATRIX_RESULTS"
"""Names the file that results are appended to, one JSON object a line; where it is not set they are not kept."""

SWEPT_WITHIN = 30.0
"""Seconds; what no record speaks of any more the supervisor looks for every ten."""
SETTINGS = {"stray": {"escape": True}, "port-child": {"hold_port": True}}
"""What the fake has to be told before it starts, by fault."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a cell came to."""

    backend: str
    """`fake` or `real`."""
    fault: str
    phase: str
    end: str
    noticed: float | None
    """Seconds from the strike to the first event that came of it; for a server that ends by itself, from its end."""
    recovered: float | None
    """Seconds from the strike to the event that says that the right state is there; None if it was never left."""
    death: bool


class Chain:
    """Plays cells on the stage of the last one, as long as that was left well: a daemon and a start less for most."""

    def __init__(self, new: Callable[[], Stage], backend: str) -> None:
        self._new = new
        self._backend = backend
        self._stage: Stage | None = None
        self.results: list[Result] = []

    def play(self, cell: Cell) -> None:
        """Raises AssertionError."""
        if self._stage is None:
            self._stage = self._new().__enter__()
        well = False
        try:
            self.results.append(play(self._stage, cell, self._backend))
            well = True
        finally:
            if not well:
                self.end(AssertionError(cell.id))

    def end(self, fault: BaseException | None = None) -> None:
        """Put the stage away; with `fault`, what its daemon said is shown."""
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.__exit__(None if fault is None else type(fault), fault, None)


def play(stage: Stage, cell: Cell, backend: str = "fake") -> Result:
    """Arrange, strike, release, and see what is right come. Raises AssertionError."""
    fails = {"fail_with": "tool_parser"} if cell.phase == "failed" else {}
    stage.write_profiles(cell.phase, hasty=cell.hasty, **SETTINGS.get(cell.fault, {}), **fails)
    stage.draining_for = 3.0 if cell.hasty else 60.0
    return struck(stage, cell, backend)


def struck(stage: Stage, cell: Cell, backend: str) -> Result:
    """The cell on a stage whose profiles are as it needs them."""
    stage.arrange(cell.phase)
    before, last = stage.status(), stage.newest_event()
    with STRIKES[cell.fault](stage, cell) as blow:
        died = blow.died_at() if before.phase != "stopping" or cell.fault.startswith(("api", "stray", "port")) else None
        if not (cell.hasty and cell.phase == "stopping"):
            stage.release()
        blow.then()
        if blow.until is not None:
            eventually(blow.until, within=stage.within, why="the fault is not even noticed")
        # Where the metrics are what is broken, no scrape will tell that the supervisor has looked since.
        arrive(stage, cell, before, blow.at if blow.until is None else 0.0)
        result = measured(stage, cell, backend, blow, died, last)
    after(stage, cell, before)
    stage.release()
    stage.end_stream()
    stage.end_stranger()
    lawful(stage)
    return keep(result)


def arrive(stage: Stage, cell: Cell, before: wire.Status, since: float) -> None:
    """The right state comes."""
    old = None if before.backend is None else before.backend.launch_id
    match cell.end:
        case End.SAME:
            # Seen by the supervisor, and not only before it looked: a scrape wakes the loop.
            eventually(
                lambda: quietly(lambda: looked_since(stage, since)), within=stage.within, why="it does not serve on"
            )
            assert stage.launch == old, "another launch has taken its place"
            if stage.stream is not None and not cell.fault.startswith("api"):
                uncut(stage)
            stage.works()
            assert stage.launch == old, "another launch has taken its place"
        case End.ANEW:
            serves(stage, stage.profile, old)
        case End.OTHER:
            serves(stage, stage.other, old)
        case End.STOPPED:
            status = stage.wait_for("stopped")
            assert status.order.goal == "stop"
            eventually(lambda: stage.status().order.committed, within=stage.within, why="the stop is not settled")
            assert stage.witness.launches() == set()
        case End.BACKOFF:
            status = stage.wait_for("backoff")
            assert status.retry_at is not None
            assert before.retry_at is not None
            # In wall time, which the clock's slewing moves a little; another attempt would come minutes later.
            assert abs(status.retry_at - before.retry_at) < 30.0, "the next attempt is another one"
        case End.FAILED:
            status = stage.wait_for("failed")
            assert status.failure is not None
            assert before.failure is not None
            assert status.failure.cause == before.failure.cause
        case End.BLOCKED:
            eventually(
                lambda: blocked(stage, before), within=stage.within, why="it is not blocked, or does not say by whom"
            )


def looked_since(stage: Stage, since: float) -> bool:
    """It serves, and its metrics were read since then."""
    status = stage.status()
    return status.phase == "serving" and status.rates.at is not None and status.rates.at > since


def serves(stage: Stage, profile: str, old: str | None) -> None:
    """A new launch of this profile serves, as the order that is committed."""

    def there() -> bool:
        status = stage.status()
        backend = status.backend
        new = backend is not None and backend.profile == profile and backend.launch_id != old
        return status.phase == "serving" and new and status.order.profile == profile and status.order.committed

    eventually(
        lambda: quietly(there),
        within=stage.within,
        why=f"{profile} does not serve anew: {stage.rig.daemon_log()[-1500:]}",
    )
    stage.works()


def quietly(condition: Callable[[], bool]) -> bool:
    """A daemon that is being replaced does not answer for a moment."""
    with suppress(ArcopsError):
        return condition()
    return False


def uncut(stage: Stage) -> None:
    """The stream that was open goes on, or has come to its own end."""
    stream = stage.stream
    assert stream is not None
    seen = stream.events
    goes_on = "the stream does not go on"
    eventually(lambda: stream.events > seen or stream.ended.is_set(), within=stage.within, why=goes_on)
    assert stream.done or not stream.ended.is_set(), "the stream was cut"


def blocked(stage: Stage, before: wire.Status) -> bool:
    """Blocked, and it names the stranger, or the orphan that holds the lock."""
    status = stage.status()
    pids = [os.getpid(), *(one.pid for one in stage.witness.living())]
    return status.phase == "blocked" and any(f"pid {pid} " in status.reason for pid in pids)


def after(stage: Stage, cell: Cell, before: wire.Status) -> None:
    """What was ordered comes once nothing is in its way."""
    match cell.end:
        case End.BACKOFF | End.FAILED:
            stage.mend()
            order = stage.restart()
            assert order is not None
            assert stage.outcome(order).exit_code == 0
            serves(stage, stage.profile, None)
        case End.BLOCKED:
            stage.end_stranger()
            if cell.fault == "record-torn":
                stage.rig.end_strays()
            stage.mend()
            serves(stage, stage.profile, None)
        case _:
            pass


def measured(stage: Stage, cell: Cell, backend: str, blow: Blow, died: float | None, last: int) -> Result:
    """From the history: when it was noticed, and when the right state was there."""
    events = [event for event in stage.events(last) if event.at >= blow.at]
    told = [event for event in events if event.kind in ("phase", "daemon", "order")]
    goal = "serving" if cell.end in (End.SAME, End.ANEW, End.OTHER) else cell.end.value
    there = [event.at for event in told if event.phase == goal and event.kind == "phase"]
    # What the history tells may be the end of the phase that was held, and not of the fault: where the same launch
    # serves on and was not doubted, and where it was being stopped already, and went on with that.
    held = cell.end is End.SAME and blow.until is None
    going_down = cell.phase == "stopping" and not cell.fault.startswith(("order", "supervisor"))
    harmless = cell.phase == "draining" and cell.rule == "order" and died is None
    noticed = None
    if told and not (held or going_down or harmless):
        noticed = told[0].at - (blow.at if died is None or FAULTS[cell.fault].death else died)
    return Result(
        backend=backend,
        fault=cell.fault,
        phase=cell.phase,
        end=cell.end.value,
        noticed=None if noticed is None else max(0.0, noticed),
        recovered=max(0.0, there[-1] - blow.at) if there else None,
        death=FAULTS[cell.fault].death and cell.phase != "stopping",
    )


def lawful(stage: Stage) -> None:
    """The laws, by the witness; and of older launches nothing is left."""
    witness = stage.witness
    assert witness.is_alive(), "the witness has fallen asleep"
    assert witness.breaches == [], witness.breaches
    strangers = witness.foreign_listeners - {os.getpid()}
    assert strangers == set(), f"somebody who is of no launch listened on the port: {strangers}"
    current = stage.launch
    left = witness.launches() - {current}
    assert left == set(), f"processes of {left} are left"
    # At once, or by the next sweep where the record had gone that spoke of the launch.
    eventually(lambda: folders(stage) <= {stage.launch}, within=SWEPT_WITHIN, why=f"left on the disk: {folders(stage)}")


def folders(stage: Stage) -> set[str]:
    """The launches that have sockets and temporary files."""
    return {path.name for path in stage.rig.paths.keeper_dir.iterdir() if path.is_dir()}


def keep(result: Result) -> Result:
    path = os.environ.get(RESULTS)
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
    return result
