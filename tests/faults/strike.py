"""How each fault is done to a stage. A strike is a context: at its end the cause goes, if it is one that can go."""

import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from arcops.core.errors import ArcopsError
from tests.faults.matrix import Cell, End
from tests.faults.stage import WITHIN, Stage
from tests.helpers import eventually


@dataclass(slots=True)
class Blow:
    """When it fell (seconds since the epoch), and what is left to do about it."""

    at: float = field(default_factory=time.time)
    then: Callable[[], None] = lambda: None
    """To be done once the phase was released."""
    until: Callable[[], object] | None = None
    """What must have shown before the cause may go."""
    pidfd: int | None = None

    def died_at(self) -> float | None:
        """Wait for the end of the process that was struck; when that was."""
        if self.pidfd is None:
            return None
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        died = bool(poll.poll(WITHIN * 1000))
        at = time.time()
        os.close(self.pidfd)
        self.pidfd = None
        assert died, "the process that was struck did not end"
        return at


Strike = Callable[[Stage, Cell], AbstractContextManager[Blow]]


def watched(pid: int) -> Blow:
    """A blow to a process whose end is waited for."""
    return Blow(pidfd=os.pidfd_open(pid))


def kill_main(number: signal.Signals) -> Strike:
    @contextmanager
    def strike(stage: Stage, cell: Cell) -> Generator[Blow]:
        main = stage.main
        blow = Blow() if cell.end is End.SAME else watched(main)
        os.kill(main, number)
        yield blow

    return strike


def exits(code: int) -> Strike:
    @contextmanager
    def strike(stage: Stage, cell: Cell) -> Generator[Blow]:
        blow = watched(stage.main)
        if cell.phase == "starting":
            stage.start_gate.write_text(f"exit {code}")
        else:
            # The server is gone before it could answer.
            with suppress(httpx.HTTPError):
                stage.misbehave(exit_code=code)
        yield blow

    return strike


@contextmanager
def kill_engine(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = watched(stage.main)
    os.kill(stage.engine, signal.SIGKILL)
    yield blow


@contextmanager
def stop_engine(stage: Stage, cell: Cell) -> Generator[Blow]:
    engine, blow = stage.engine, Blow()
    os.kill(engine, signal.SIGSTOP)
    yield blow


@contextmanager
def stop_all(stage: Stage, cell: Cell) -> Generator[Blow]:
    struck, blow = stage.witness.living(), Blow()
    for one in struck:
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGSTOP)
    yield blow


@contextmanager
def be_deaf(stage: Stage, cell: Cell) -> Generator[Blow]:
    if cell.phase not in ("stopping", "draining"):
        stage.misbehave(sigterm_deaf=True)
        blow = Blow()
        stage.restart()
    else:
        blow = Blow()
        if cell.phase == "draining":
            stage.misbehave(sigterm_deaf=True)
    yield blow


@contextmanager
def take_port(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.listen()
    if cell.phase in ("backoff", "failed"):
        refused(stage, stage.restart)
    elif cell.phase == "stopped":
        refused(stage, lambda: stage.switch(stage.profile))
    yield blow
    stage.end_stranger()


def refused(stage: Stage, order: Callable[[], int | None], code: int = 5, named: int | None = None) -> None:
    """The order comes back with this exit code, at once or as its outcome, and names who is in the way."""
    try:
        number = order()
    except ArcopsError as error:
        found, words = int(error.exit_code), str(error)
    else:
        assert number is not None
        outcome = stage.outcome(number)
        found, words = outcome.exit_code, outcome.summary
    assert found == code, words
    if code == 5:
        assert f"pid {named or os.getpid()} " in words, words


def misbehaves(**settings: object) -> Strike:
    """The fake misbehaves until the supervisor has had its say."""

    @contextmanager
    def strike(stage: Stage, cell: Cell) -> Generator[Blow]:
        before = stage.newest_event()
        blow = Blow()
        stage.misbehave(**settings)

        def undo() -> None:
            with suppress(httpx.HTTPError):
                stage.misbehave(**dict.fromkeys(settings, 0))

        if cell.phase == "checking" and cell.rule == "doubt":
            eventually(lambda: "unhealthy" in stage.status().reason, within=stage.within, why="the 503 is not noticed")
            undo()
        elif cell.rule == "ask":
            asked = questions(stage)
            blow.until = lambda: questions(stage) > asked
        elif cell.rule == "doubt":
            blow.until = lambda: [one for one in stage.events(before) if (one.phase, one.kind) == ("serving", "phase")]
        yield blow
        undo()

    return strike


def questions(stage: Stage) -> int:
    """How many completions the backend has begun to answer, by its own log."""
    backend = stage.status().backend
    assert backend is not None
    return Path(backend.log_path).read_text().count("POST /v1/completions")


@contextmanager
def delete_log(stage: Stage, cell: Cell) -> Generator[Blow]:
    backend = stage.status().backend
    assert backend is not None
    blow = Blow()
    os.unlink(backend.log_path)
    yield blow


@contextmanager
def kill_supervisor(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.rig.kill_daemon()
    stage.start_daemon()
    yield blow


@contextmanager
def end_supervisor(stage: Stage, cell: Cell) -> Generator[Blow]:
    daemon = stage.rig.daemon
    assert daemon is not None
    blow = Blow()
    daemon.terminate()

    def then() -> None:
        assert daemon.wait(stage.within) == 0
        assert stage.witness.launches() == set(), "an orderly end leaves nothing"
        stage.start_daemon()

    blow.then = then
    yield blow


@contextmanager
def kill_keeper(stage: Stage, cell: Cell) -> Generator[Blow]:
    keeper, blow = stage.keeper, Blow()
    os.kill(keeper, signal.SIGKILL)
    yield blow


@contextmanager
def remove_record(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.record.unlink()
    yield blow


@contextmanager
def tear_record(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.rig.kill_daemon()
    text = stage.record.read_text() if stage.record.exists() else '{"launch_id": "20260101000000-abcd", "boot_id": "x"}'
    stage.record.write_text(text[: len(text) // 2])
    stage.start_daemon()
    yield blow


@contextmanager
def lock_database(stage: Stage, cell: Cell) -> Generator[Blow]:
    before = set(stage.status().trouble)
    database = sqlite3.connect(stage.rig.paths.database, isolation_level=None, timeout=stage.within)
    try:
        database.execute("BEGIN EXCLUSIVE")
        yield Blow()
    finally:
        database.rollback()
        database.close()
    # What an earlier cell left to be told (a log that was deleted) is not of this one.
    eventually(lambda: set(stage.status().trouble) <= before, within=stage.within, why="the trouble outlives its cause")


@contextmanager
def start_second(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    second = subprocess.run(
        [sys.executable, "-m", "arcops.daemon.main"],
        env=stage.rig.env(),
        capture_output=True,
        text=True,
        timeout=stage.within,
        check=False,
    )
    assert second.returncode == 4, second.stderr
    assert stage.rig.daemon is not None
    assert str(stage.rig.daemon.pid) in second.stderr
    yield blow


@contextmanager
def order_switch(stage: Stage, cell: Cell) -> Generator[Blow]:
    wanted = stage.profile if cell.phase in ("draining", "stopping", "clearing") else stage.other
    blow = Blow()
    if cell.rule == "refuse":
        refused(stage, lambda: stage.switch(wanted))
    elif cell.rule == "overtake":
        refused(stage, lambda: stage.switch(wanted), code=4)
        blow.at = time.time()
        stage.switch(wanted, replace=True)
    else:
        stage.switch(wanted)
    yield blow


@contextmanager
def order_stop(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.stop()
    yield blow


@contextmanager
def client_leaves(stage: Stage, cell: Cell) -> Generator[Blow]:
    blow = Blow()
    stage.end_stream()
    yield blow


STRIKES: Mapping[str, Strike] = {
    "api-sigkill": kill_main(signal.SIGKILL),
    "api-sigterm": kill_main(signal.SIGTERM),
    "api-exit-0": exits(0),
    "api-exit-3": exits(3),
    "api-sigsegv": kill_main(signal.SIGSEGV),
    "engine-sigkill": kill_engine,
    "engine-sigstop": stop_engine,
    "all-sigstop": stop_all,
    "term-deaf": be_deaf,
    "stray": kill_main(signal.SIGKILL),
    "port-child": kill_main(signal.SIGKILL),
    "stranger": take_port,
    "metrics-garbage": misbehaves(metrics_garbage=True),
    "metrics-500": misbehaves(metrics_status=500),
    "health-503": misbehaves(health_status=503),
    "log-flood": misbehaves(log_bytes_per_second=5_000_000),
    "log-deleted": delete_log,
    "supervisor-sigkill": kill_supervisor,
    "supervisor-sigterm": end_supervisor,
    "keeper-sigkill": kill_keeper,
    "record-removed": remove_record,
    "record-torn": tear_record,
    "database-locked": lock_database,
    "second-daemon": start_second,
    "order-switch": order_switch,
    "order-stop": order_stop,
    "client-leaves": client_leaves,
}
