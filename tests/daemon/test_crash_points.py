"""The supervisor dies at every point of every transition; the next one reaches what was ordered, with one backend.

In the usual run each point is crashed at in one transition (`TRANSITIONS` says which); with ARCOPS_EVERY_CRASH=1, as
`make soak` sets it, at every point that each transition reaches, each time that it reaches it.
"""

import os
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from arcops import wire
from arcops.core import action
from arcops.core.errors import NoDaemonError
from arcops.core.phase import Phase
from arcops.daemon.checkpoint import Point, after, before, decided, every_point, recorded
from tests.daemon.census import Census
from tests.daemon.crashing import PATIENCE, CrashingRig
from tests.helpers import eventually

EVERY = os.environ.get("ARCOPS_EVERY_CRASH") == "1"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(7200 if EVERY else 900)]

MOST_TIMES = 3
"""Occurrences of one point in one transition that are crashed at: the loop turns as often as the machine has time."""

RESTED = frozenset({"stopped", "serving", "failed"})


@dataclass(frozen=True, slots=True)
class Transition:
    """A way from one rest to another that a crash interrupts."""

    name: str
    begin: tuple[str, str | None]
    """Goal and profile that are in force, and reached, when it begins."""
    order: Callable[[CrashingRig], None]
    """Sets it off; whatever it asks of the daemon may fail, for the daemon may die of it."""
    end: tuple[str, str | None]
    """Goal and profile in force when all is over; the phase is the one that belongs to it."""
    points: tuple[str, ...]
    """Where it is crashed in the usual run."""
    phase: str = ""
    """The phase at the end, where it is not plain from the goal."""
    asks: bool = True
    """It is an order: one that was not acknowledged may as well not have been given."""
    at_start: bool = False
    """The point is reached by a daemon that starts, not by the one that runs."""
    setup: Callable[[CrashingRig], None] = field(default=lambda _: None)
    mend: Callable[[CrashingRig], None] = field(default=lambda _: None)
    """Done before the next supervisor starts."""


# -- what is done ------------------------------------------------------------------------------------------------------
def switch(profile: str, *, drain: float | None = 0.0, rollback: bool = True) -> Callable[[CrashingRig], None]:
    def order(rig: CrashingRig) -> None:
        with rig.client() as client:
            client.switch(wire.SwitchRequest(profile=profile, drain=drain, rollback=rollback))

    return order


def stop(rig: CrashingRig) -> None:
    with rig.client() as client:
        client.stop(wire.StopRequest(drain=0.0))


def restart(rig: CrashingRig) -> None:
    with rig.client() as client:
        client.restart(wire.RestartRequest(drain=0.0))


def kill_backend(rig: CrashingRig) -> None:
    backend = rig.status().backend
    assert backend is not None
    assert backend.pid is not None
    os.kill(backend.pid, signal.SIGKILL)


def hang(rig: CrashingRig) -> None:
    rig.misbehave(hang=True)


def wake_up(rig: CrashingRig) -> None:
    """The next supervisor may find it well: then it is not ended."""
    rig.misbehave(hang=False)


def end_daemon(rig: CrashingRig) -> None:
    assert rig.daemon is not None
    rig.daemon.terminate()


def replace_daemon(rig: CrashingRig) -> None:
    rig.kill_daemon()
    rig.launch_daemon()


def prepared_profile(rig: CrashingRig) -> None:
    script = rig.root / "setup.sh"
    script.write_text("export SET_UP=yes\n")
    rig.profile("prepared", extends="target-only", runtime={"setup": str(script)})


def unreadable_profile(rig: CrashingRig) -> None:
    """A backend with a setup script is adopted, its profile cannot be read any more: the script has to run again."""
    rig.kill_daemon()
    (rig.root / "config" / "profiles" / "prepared.yaml").write_text("broken: [")
    rig.start()
    rig.wait_for("serving")


TRANSITIONS = (
    Transition(
        "start",
        ("stop", None),
        switch("target-only"),
        ("run", "target-only"),
        (
            Point.ORDER_UNWRITTEN,
            Point.ORDER_WRITTEN,
            Point.ORDER_TAKEN,
            before(action.TakeLocks),
            after(action.TakeLocks),
            before(action.Look),
            after(action.Look),
            decided(Phase.STARTING),
            recorded(Phase.STARTING),
            before(action.Spawn),
            Point.SPAWN_RECORDED,
            Point.SPAWN_SPAWNED,
            Point.KEEPER_NAMED,
            Point.KEEPER_SAVED,
            Point.MAIN_NAMED,
            Point.MAIN_SAVED,
            after(action.Spawn),
            decided(Phase.CHECKING),
            before(action.Ask),
            after(action.Ask),
            decided(Phase.SERVING),
            recorded(Phase.SERVING),
            before(action.MarkProven),
            after(action.MarkProven),
        ),
    ),
    Transition(
        "switch",
        ("run", "target-only"),
        switch("mtp"),
        ("run", "mtp"),
        (
            Point.ORDER_TAKEN,
            recorded(Phase.CHECKING),
            recorded(Phase.STOPPING),
            before(action.Terminate),
            after(action.Terminate),
            decided(Phase.CLEARING),
            recorded(Phase.CLEARING),
            before(action.Forget),
            Point.FORGET_CLEARED,
            Point.FORGET_UNLINKED,
            after(action.Forget),
            Point.SPAWN_RECORDED,
            before(action.Settle),
            Point.SETTLE_UNWRITTEN,
            Point.SETTLE_WRITTEN,
            after(action.Settle),
        ),
    ),
    Transition(
        "a switch that fails and goes back",
        ("run", "target-only"),
        switch("broken"),
        ("run", "target-only"),
        (Point.ORDER_WRITTEN, decided(Phase.CLEARING), Point.SETTLE_UNWRITTEN, Point.SETTLE_WRITTEN, Point.MAIN_SAVED),
        setup=lambda rig: (rig.misbehaving("broken", fail_with="tool_parser"), None)[1],
    ),
    Transition(
        "a switch that fails and stays",
        ("run", "target-only"),
        switch("broken", rollback=False),
        ("run", "broken"),
        (decided(Phase.FAILED), recorded(Phase.FAILED)),
        phase="failed",
        setup=lambda rig: (rig.misbehaving("broken", fail_with="tool_parser"), None)[1],
    ),
    Transition(
        "stop",
        ("run", "target-only"),
        stop,
        ("stop", None),
        (
            decided(Phase.STOPPING),
            Point.FORGET_UNLINKED,
            decided(Phase.STOPPED),
            recorded(Phase.STOPPED),
            before(action.ReleaseLocks),
            after(action.ReleaseLocks),
            Point.SETTLE_UNWRITTEN,
        ),
    ),
    Transition(
        "restart",
        ("run", "target-only"),
        restart,
        ("run", "target-only"),
        (Point.ORDER_TAKEN, recorded(Phase.STOPPING), Point.FORGET_UNLINKED, Point.SPAWN_SPAWNED),
    ),
    Transition(
        "a backend that dies",
        ("run", "target-only"),
        kill_backend,
        ("run", "target-only"),
        (
            decided(Phase.STOPPING),
            before(action.KeepEvidence),
            after(action.KeepEvidence),
            Point.FORGET_UNLINKED,
            decided(Phase.BACKOFF),
            recorded(Phase.BACKOFF),
        ),
        asks=False,
    ),
    Transition(
        "a backend that dies after its setup script was forgotten",
        ("run", "prepared"),
        kill_backend,
        ("run", "prepared"),
        (before(action.Prepare), after(action.Prepare)),
        asks=False,
        mend=prepared_profile,
    ),
    Transition(
        "a backend that is doubted",
        ("run", "watched"),
        hang,
        ("run", "watched"),
        (decided(Phase.SUSPECT), recorded(Phase.SUSPECT), before(action.Ask)),
        asks=False,
        mend=wake_up,
        setup=lambda rig: (
            rig.profile("watched", extends="target-only", limits={"probe": "1s"}, checks={"idle_probe": "1s"}),
            None,
        )[1],
    ),
    Transition(
        "a backend that has to be killed and does not clear in time",
        ("run", "deaf"),
        stop,
        ("stop", None),
        (before(action.KillEveryone), after(action.KillEveryone), decided(Phase.STUCK), recorded(Phase.STUCK)),
        setup=lambda rig: (
            rig.profile(
                "deaf",
                extends="target-only",
                runtime={"env": {"FAKE_VLLM_SIGTERM_DEAF": "1"}},
                limits={"shutdown_timeout": "0s", "stop_grace": "300ms", "clear": "1ms"},
            ),
            None,
        )[1],
    ),
    Transition(
        "the end of the daemon",
        ("run", "target-only"),
        end_daemon,
        ("run", "target-only"),
        (
            Point.LEAVING,
            recorded(Phase.STOPPING),
            after(action.Terminate),
            recorded(Phase.CLEARING),
            Point.FORGET_UNLINKED,
            Point.LEFT,
        ),
        asks=False,
    ),
    Transition(
        "adoption",
        ("run", "target-only"),
        replace_daemon,
        ("run", "target-only"),
        (Point.ADOPT_READ, Point.ADOPT_TAKEN, Point.RESTORED, recorded(Phase.STARTING), decided(Phase.SERVING)),
        asks=False,
        at_start=True,
    ),
)

NOT_BY_A_BACKEND = frozenset(
    {decided(Phase.WEDGED), recorded(Phase.WEDGED), before(action.KeepBaseline), after(action.KeepBaseline)}
)
"""Only a card gets there, and no fake of a backend has one."""


def test_every_point_that_there_is_is_crashed_at() -> None:
    crashed = {point for transition in TRANSITIONS for point in transition.points}
    crashed |= {*DRAINED_AT, *ADOPTED_AT, *BLOCKED_AT}
    assert crashed | NOT_BY_A_BACKEND == set(every_point())


# -- the crashes -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_the_next_supervisor_reaches_what_was_ordered(tmp_path: Path, transition: Transition) -> None:
    with CrashingRig(tmp_path) as rig:
        rig.profile("target-only", runtime={"env": {"FAKE_VLLM_START_SECONDS": "0.1"}}, restart={"per_hour": 60})
        transition.setup(rig)
        rig.start()
        census = Census(rig)
        census.start()
        for point, count in crashes(rig, transition):
            crash(rig, transition, point, count)
            where = f"{transition.name}, crashed at {point!r} ({count})"
            assert census.most <= 1, f"{where}: {census.most} backends lived at the same moment"
            assert not census.unlocked, f"{where}: {census.unlocked}"
        census.end()
        assert census.looks > 10


DRAINED_AT = (Point.ORDER_TAKEN, decided(Phase.DRAINING), recorded(Phase.DRAINING))
ADOPTED_AT = (
    Point.ADOPT_READ,
    Point.ADOPT_TAKEN,
    Point.RESTORED,
    decided(Phase.STARTING),
    decided(Phase.CHECKING),
    recorded(Phase.SERVING),
)
BLOCKED_AT = (decided(Phase.BLOCKED), recorded(Phase.BLOCKED))


def test_a_drain_goes_on_under_the_next_supervisor_and_the_open_stream_ends_by_itself(tmp_path: Path) -> None:
    with CrashingRig(tmp_path) as rig:
        rig.start()
        switch("target-only")(rig)
        rig.wait_for("serving")
        for point, profile in zip(DRAINED_AT, ("mtp", "target-only", "mtp"), strict=True):
            stream = Stream(rig, tokens=3000)
            # A request that is younger than the last look at vLLM's metrics is not known to be open.
            rig.until(lambda: (rig.status().rates.running or 0) >= 1, "the stream is seen")
            rig.arm(point)
            with suppress(NoDaemonError):
                switch(profile, drain=60.0)(rig)
            die(rig)
            rig.start()
            rig.until(lambda wanted=profile: rests_as(rig, "run", wanted), f"{profile} serves; crashed at {point}")
            stream.assert_uncut(point)
            assert_nothing_is_left(rig, point)


def test_a_stream_outlives_one_supervisor_after_the_other(tmp_path: Path) -> None:
    with CrashingRig(tmp_path) as rig:
        rig.start()
        switch("target-only")(rig)
        rig.wait_for("serving")
        stream = Stream(rig, tokens=8000)
        rig.kill_daemon()
        for point in ADOPTED_AT:
            rig.arm(point)
            rig.launch_daemon()
            die(rig)
        assert stream.goes_on, "the stream was over before the last supervisor died"
        rig.start()
        rig.wait_for("serving")
        stream.assert_uncut("adoption")
        assert rig.starts() == 1


def test_a_wait_for_a_stranger_goes_on_under_the_next_supervisor(tmp_path: Path) -> None:
    with CrashingRig(tmp_path) as rig:
        rig.start()
        switch("target-only")(rig)
        rig.wait_for("serving")
        rig.end_daemon()
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind(("127.0.0.1", rig.port))
            stranger.listen()
            for point in BLOCKED_AT:
                rig.arm(point)
                rig.launch_daemon()
                die(rig)
            rig.start()
            rig.wait_for("blocked")
            assert rig.backend_pids() == []
        rig.wait_for("serving")
        assert_nothing_is_left(rig, "blocked")


class Stream:
    """One streamed completion that is read while supervisors come and go."""

    def __init__(self, rig: CrashingRig, tokens: int) -> None:
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(f"{rig.url}/v1/completions", tokens), daemon=True)
        self._reader.start()
        eventually(lambda: len(self._lines) > 3, why="the stream has not begun")

    def _read(self, url: str, tokens: int) -> None:
        body = {"model": "tiny", "prompt": "one two", "max_tokens": tokens, "temperature": 0, "stream": True}
        with suppress(httpx.HTTPError), httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self._lines.append(line)

    @property
    def goes_on(self) -> bool:
        return self._reader.is_alive()

    def assert_uncut(self, where: str) -> None:
        """It came to its own end: all of its tokens, and the word for that."""
        self._reader.join(PATIENCE)
        assert self._lines[-1] == "data: [DONE]", f"{where}: cut after {len(self._lines)} lines: {self._lines[-2:]}"
        assert '"length"' in "".join(self._lines[-3:]), f"{where}: {self._lines[-3:]}"


def die(rig: CrashingRig) -> None:
    """Wait until the daemon has died at the point that is armed."""
    assert rig.daemon is not None
    rig.daemon.wait(PATIENCE)
    assert rig.struck, f"the point was not reached: {rig.trace()[-20:]}\n{rig.daemon_log()[-3000:]}"
    rig.disarm()


def crashes(rig: CrashingRig, transition: Transition) -> tuple[tuple[str, int], ...]:
    """Where to crash: as the table says, or everywhere that one undisturbed run comes along."""
    if not EVERY:
        return tuple((point, 1) for point in transition.points)
    begin(rig, transition)
    rig.forget_trace()
    transition.order(rig)
    if transition.end == transition.begin:
        eventually(lambda: len(rig.trace()) > 1, why="nothing happens")
    if rig.daemon is not None and transition.order is end_daemon:
        rig.daemon.wait(PATIENCE)
    else:
        settle(rig, transition)
    times = Counter(rig.trace())
    return tuple((point, count) for point in times for count in range(1, min(times[point], MOST_TIMES) + 1))


def crash(rig: CrashingRig, transition: Transition, point: str, count: int) -> None:
    """One crash: begin, order, die, start again, and see what became of it."""
    where = f"{transition.name}, crashed at {point!r} ({count})"
    begin(rig, transition)
    rig.arm(point, count)
    acknowledged = True
    try:
        transition.order(rig)
    except NoDaemonError:
        acknowledged = False
    daemon = rig.daemon
    assert daemon is not None
    # A point that is met only now and then the second or third time is no fault of the supervisor.
    with ExitStack() as forgiven:
        if count > 1:
            forgiven.enter_context(suppress(subprocess.TimeoutExpired))
        daemon.wait(PATIENCE if count == 1 else 5.0)
    assert rig.struck or count > 1, f"{where}: it was not reached; {rig.trace()[-20:]}\n{rig.daemon_log()[-3000:]}"
    rig.disarm()
    if daemon.poll() is not None:
        transition.mend(rig)
        rig.start()
    state = settle(rig, transition, where)
    wanted = {transition.end}
    if transition.asks and not acknowledged:
        wanted = {transition.begin} if point == Point.ORDER_UNWRITTEN else {transition.begin, transition.end}
    assert state in wanted, f"{where}: {state} is in force, and not one of {wanted}\n{rig.daemon_log()[-4000:]}"
    assert_nothing_is_left(rig, where)


def begin(rig: CrashingRig, transition: Transition) -> None:
    """Bring about what is the case before the transition."""
    rig.disarm()
    if rig.daemon is None or rig.daemon.poll() is not None:
        rig.start()
    goal, profile = transition.begin
    status = rig.status()
    rests = status.phase == ("stopped" if goal == "stop" else "serving")
    there = (status.order.goal, status.order.profile, status.order.committed) == (goal, profile, True) and rests
    if profile == "prepared":
        prepared_profile(rig)
        there = there and status.backend is not None
    if not there:
        (stop if profile is None else switch(profile))(rig)
    rig.until(lambda: rests_as(rig, goal, profile), f"{transition.name} can begin")
    if profile == "prepared":
        unreadable_profile(rig)


def rests_as(rig: CrashingRig, goal: str, profile: str | None) -> bool:
    status = rig.status()
    phase = "stopped" if goal == "stop" else "serving"
    return (status.phase, status.order.goal, status.order.profile, status.order.committed) == (
        phase,
        goal,
        profile,
        True,
    )


def settle(rig: CrashingRig, transition: Transition, where: str = "") -> tuple[str, str | None]:
    """Wait until the state is at rest, and is what it says: the goal and the profile in force."""

    def rested() -> wire.Status | None:
        status = rig.status()
        if not status.order.committed or status.phase not in RESTED:
            return None
        expected = "stopped" if status.order.goal == "stop" else "serving"
        phases = {expected, transition.phase} if transition.end[1] == status.order.profile else {expected}
        if status.phase not in phases or (status.backend is None) == (status.phase == "serving"):
            return None
        if status.phase == "serving" and not serves(rig):
            return None
        return status

    status = rig.until(rested, f"{where}: it comes to rest")
    return status.order.goal, status.order.profile


def serves(rig: CrashingRig) -> bool:
    """The backend itself answers a question, so that one which hangs does not pass."""
    with suppress(httpx.HTTPError):
        return bool(rig.complete(tokens=1, timeout=1.0))
    return False


def assert_nothing_is_left(rig: CrashingRig, where: str) -> None:
    """Every process, file and record belongs to the one backend that there is."""
    backend = rig.status().backend
    launch = "" if backend is None else backend.launch_id
    statuses = sorted(path.stem for path in rig.paths.keeper_dir.glob("*.json") if path.name != "launch.json")
    assert rig.paths.record.exists() == (backend is not None), where
    assert statuses == ([launch] if launch else []), where
    log = f"{rig.paths.log_dir}/{launch}.log"
    strangers = [pid for pid in rig.backend_pids() if log not in open_files(pid)] if launch else rig.backend_pids()
    assert strangers == [], f"{where}: processes of another launch are left"


def open_files(pid: int) -> set[str]:
    found: set[str] = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(descriptor))
    return found
