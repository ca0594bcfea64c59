"""A machine that exists only in numbers, and a supervisor on it that may die at any instant.

`Machine` has fake time, processes with the locks that they inherited, a port, cards, foreign holders and HTTP. What the
real daemon does with the machine (`arcops/daemon`) `Supervisor` does with this one: render a World, decide, act, write
orders down. Every step is checked against the laws; `Machine.violations` must stay empty.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from arcops.core import restart
from arcops.core.action import (
    Action,
    Ask,
    Forget,
    KillEveryone,
    Look,
    MarkProven,
    ReleaseLocks,
    Settle,
    Spawn,
    TakeLocks,
    Target,
    Terminate,
)
from arcops.core.admit import AlreadySo, Refusal, Request, Verb, admit
from arcops.core.decide import Decision, decide
from arcops.core.launch import Checks, Launch, Limits, RestartPolicy
from arcops.core.phase import MOVES, Phase
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.state import NOTHING_ORDERED, Goal, Order, State
from arcops.core.world import (
    Activity,
    Answer,
    AnswerState,
    Backend,
    Card,
    Ending,
    Holder,
    Lock,
    Port,
    ProcessId,
    Server,
    World,
)

LIMITS = Limits(
    start_stall=60.0, drain=20.0, shutdown_timeout=5.0, stop_grace=20.0, clear=20.0, stall_after=30.0, probe=20.0
)
ALL_MOVES: set[tuple[Phase, Phase]] = set()
"""Every move that any supervisor has made in this process."""


def launch(profile: str = "alpha", **changes: object) -> Launch:
    """A launch on one card and one port, with short limits."""
    base = Launch(
        profile=profile,
        argv=("vllm", "serve", profile),
        environment=(),
        setup=None,
        host="127.0.0.1",
        port=8000,
        served_name=f"{profile}-model",
        api_key_file=None,
        locks=("/card/0",),
        cards=("0000:03:00.0",),
        allow_holders=("Xorg",),
        limits=LIMITS,
        restart=RestartPolicy(),
        checks=Checks(),
    )
    return replace(base, **changes)  # pyright: ignore[reportArgumentType] - names are the launch's own


def holder(what: str = "lock of 0000:03:00.0", command: str = "python3") -> Holder:
    return Holder(pid=4242, command=command, user="guest", what=what)


@dataclass(frozen=True)
class Conduct:
    """How the processes of a launch behave. Times in seconds after the spawn, unless said otherwise."""

    keeper_after: float = 0.1
    never_starts: bool = False
    """The record is written, and no process ever comes."""
    no_record: bool = False
    """Not even the record could be written."""
    main_after: float = 0.2
    ready_after: float = 3.0
    dies_after: float | None = None
    exit_code: int = 1
    deterministic: bool = False
    points_at_draft: bool = False
    ending_after: float = 0.0
    """Seconds after its end until its log has been read."""
    orphans: bool = False
    """The engine outlives the main process."""
    deaf: bool = False
    """SIGTERM does nothing."""
    immortal: bool = False
    """SIGKILL does nothing: a process hangs in the driver."""
    silent: bool = False
    """Neither log lines nor processor time while it starts."""
    models: tuple[str, ...] | None = None
    answer: AnswerState = AnswerState.RIGHT
    lingers: float = 0.2
    """Seconds after the last process until port and card are free."""


@dataclass
class Process:
    role: str
    launch_id: str
    locks: tuple[str, ...]
    hidden: bool = False


@dataclass
class Record:
    """The launch record, as it lies on the disk."""

    launch_id: str
    launch: Launch
    conduct: Conduct
    spawned_at: float
    main: int | None = None
    exit_code: int | None = None
    ended_at: float | None = None
    proven: bool = False


class Machine:
    """Everything that outlives a supervisor."""

    def __init__(self) -> None:
        self.now = 100.0
        self.processes: dict[int, Process] = {}
        self.record: Record | None = None
        self.conduct: dict[str, Conduct] = {}
        self.orders: dict[int, tuple[Order, str]] = {}
        self.foreign_lock: Holder | None = None
        self.foreign_listener: Holder | None = None
        self.foreign_memory: Holder | None = None
        self.clear_at = 0.0
        self.residue = False
        """Port and memory do not come back."""
        self.unreadable: set[str] = set()
        self.requests = 0
        self.hung = False
        self.unhealthy = False
        self.prefilling = False
        self.spawns: list[tuple[float, str, str]] = []
        """When, the launch id, and the profile."""
        self.signals: list[tuple[float, str, str]] = []
        """When, the launch id, and what was sent."""
        self.violations: list[str] = []
        self.counters = 0.0
        self.kv_usage = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._pids = count(1000)

    # -- time ---------------------------------------------------------------------------------------------------------
    def later(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), event))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = end
        if self.requests and not self.hung:
            self.kv_usage += 0.001 * seconds
            self.counters += 0.0 if self.prefilling else seconds

    # -- processes ----------------------------------------------------------------------------------------------------
    def of(self, launch_id: str, *roles: str) -> list[int]:
        return [
            pid
            for pid, process in self.processes.items()
            if process.launch_id == launch_id and (not roles or process.role in roles)
        ]

    def start(self, role: str, launch_id: str, locks: tuple[str, ...], *, hidden: bool = False) -> int:
        pid = next(self._pids)
        self.processes[pid] = Process(role, launch_id, locks, hidden)
        return pid

    def end(self, pid: int) -> None:
        """The process ends; what follows from it follows."""
        process = self.processes.pop(pid, None)
        if process is None:
            return
        record = self.record if self.record is not None and self.record.launch_id == process.launch_id else None
        if process.role == "main" and record is not None:
            record.ended_at = self.now
            if self.of(process.launch_id, "keeper"):
                record.exit_code = record.conduct.exit_code if record.exit_code is None else record.exit_code
            if not record.conduct.orphans:
                for engine in self.of(process.launch_id, "engine"):
                    self.later(0.2, lambda engine=engine: self.end(engine))
        left = self.of(process.launch_id)
        if [self.processes[one].role for one in left] == ["keeper"]:
            self.later(0.01, lambda: self._keeper_done(process.launch_id))
        if not left:
            self.clear_at = self.now + (record.conduct.lingers if record is not None else 0.0)

    def _keeper_done(self, launch_id: str) -> None:
        left = self.of(launch_id)
        if [self.processes[one].role for one in left] == ["keeper"]:
            self.end(left[0])

    def spawn(self, order: Launch, locks: tuple[str, ...]) -> None:
        """The record first; then a starter that has inherited the locks, the keeper, the main process, the engine."""
        conduct = self.conduct.get(order.profile, Conduct())
        launch_id = f"L{len(self.spawns) + 1}"
        self.spawns.append((self.now, launch_id, order.profile))
        if conduct.no_record:
            return
        self.record = Record(launch_id, order, conduct, self.now)
        self.hung = self.prefilling = self.unhealthy = False
        self.requests = 0
        if conduct.never_starts:
            return
        starter = self.start("keeper", launch_id, locks, hidden=True)

        def unhide() -> None:
            if starter in self.processes:
                self.processes[starter].hidden = False

        self.later(conduct.keeper_after, unhide)
        self.later(conduct.main_after, lambda: self._start_main(launch_id, starter, locks, conduct))

    def _start_main(self, launch_id: str, keeper: int, locks: tuple[str, ...], conduct: Conduct) -> None:
        if keeper not in self.processes:
            return
        main = self.start("main", launch_id, locks)
        self.start("engine", launch_id, locks)
        if self.record is not None and self.record.launch_id == launch_id:
            self.record.main = main
        if conduct.dies_after is not None:
            self.later(conduct.dies_after, lambda: self.end(main))

    def terminate(self, record: Record, target: Target) -> None:
        self.signals.append((self.now, record.launch_id, f"TERM {target.value}"))
        roles = ("main",) if target is Target.MAIN else ("main", "engine", "stray")
        for pid in self.of(record.launch_id, *roles):
            if not record.conduct.deaf and not record.conduct.immortal:
                self.later(0.3, lambda pid=pid: self.end(pid))

    def kill(self, record: Record) -> None:
        self.signals.append((self.now, record.launch_id, "KILL"))
        for pid in self.of(record.launch_id):
            if not record.conduct.immortal:
                self.later(0.05, lambda pid=pid: self.end(pid))

    def let_go(self) -> None:
        """What hung in the driver moves at last."""
        for pid in tuple(self.processes):
            self.end(pid)

    # -- what can be seen ---------------------------------------------------------------------------------------------
    def lock_holders(self, path: str) -> list[int]:
        return [pid for pid, process in self.processes.items() if path in process.locks]

    def look_at_port(self, at: float) -> Reading[Port]:
        if "port" in self.unreadable:
            return Unknown("/proc/net/tcp cannot be read", at)
        ours = self.listening
        foreign = (self.foreign_listener,) if self.foreign_listener is not None else ()
        held = self.residue or self.now < self.clear_at
        return Known(Port(listeners=foreign, ours=ours, bindable=ours or not (foreign or held)), at)

    def look_at_card(self, at: float) -> Reading[Card]:
        if "card" in self.unreadable:
            return Unknown("fdinfo cannot be read", at)
        holders = [self.foreign_memory] if self.foreign_memory is not None else []
        known = self.record.launch_id if self.record is not None else None
        strays = [pid for pid, process in self.processes.items() if process.launch_id != known]
        holders += [Holder(pid, "vllm", "me", "memory of 0000:03:00.0") for pid in strays]
        return Known(Card(holders=tuple(holders), unreadable=0), at)

    @property
    def listening(self) -> bool:
        record = self.record
        if record is None or not self.of(record.launch_id, "main"):
            return False
        return self.now >= record.spawned_at + record.conduct.ready_after

    def server(self) -> Reading[Server]:
        record = self.record
        if "server" in self.unreadable:
            return Unknown("no answer within 2 s", self.now)
        if record is not None and self.listening:
            models = record.conduct.models
            names = (record.launch.served_name,) if models is None else models
            return Known(Server(healthy=not self.unhealthy, models=names), self.now)
        if self.foreign_listener is not None:
            return Known(Server(healthy=True, models=("foreign",)), self.now)
        return Unknown("connection refused", self.now)

    def backend(self) -> Backend | None:
        record = self.record
        if record is None:
            return None
        seen = [pid for pid in self.of(record.launch_id) if not self.processes[pid].hidden]
        main = record.main
        return Backend(
            launch_id=record.launch_id,
            launch=record.launch,
            main=ProcessId(main, 1) if main is not None else None,
            main_alive=main in self.processes,
            exit_code=record.exit_code,
            processes=tuple(pid for pid in seen if self.processes[pid].role != "keeper"),
            keeper_alive=any(self.processes[pid].role == "keeper" for pid in seen),
            spawned_at=record.spawned_at,
            proven=record.proven,
        )

    def ending(self) -> Ending | None:
        record = self.record
        if record is None or record.ended_at is None or self.now < record.ended_at + record.conduct.ending_after:
            return None
        conduct = record.conduct
        return Ending(
            launch_id=record.launch_id,
            cause="bad_value" if conduct.deterministic else "engine_died",
            summary=f"{record.launch.profile} ended with exit code {conduct.exit_code}",
            hint="see `arcops logs`",
            deterministic=conduct.deterministic,
            points_at_draft=conduct.points_at_draft,
            evidence="(EngineCore pid=7) ERROR ValueError: no",
        )

    def activity(self) -> Reading[Activity]:
        if "activity" in self.unreadable:
            return Unknown("/metrics did not answer", self.now)
        record = self.record
        silent = record is None or record.conduct.silent or self.listening
        pulse = 0.0 if silent else self.now
        return Known(Activity(int(pulse * 10), 0.0, self.counters, self.kv_usage), self.now)

    def open_requests(self) -> Reading[int]:
        if "requests" in self.unreadable:
            return Unknown("/metrics did not answer", self.now)
        return Known(self.requests, self.now)


@dataclass
class Supervisor:
    """One life of the supervisor. Its State dies with it, the machine and the orders written down do not."""

    machine: Machine
    state: State = field(init=False)
    locks: frozenset[str] = frozenset()
    locked_at: float = 0.0
    answer: Answer | None = None
    dice: float = 0.0
    look_delay: float = 0.05
    answer_delay: float = 0.3
    dead: bool = False
    trail: list[tuple[Phase, str]] = field(default_factory=list[tuple[Phase, str]])
    """Phases gone through, with the reason on entering them."""
    given_up: set[str] = field(default_factory=set[str])
    """Profiles that were judged to fail the same way again, since the last order."""
    launched: list[float] = field(default_factory=list[float])
    """When something was launched, since the last order."""

    def __post_init__(self) -> None:
        never = Unknown("not looked yet", float("-inf"))
        self.port: Reading[Port] = never
        self.card: Reading[Card] = never
        self._looking = False
        now = self.machine.now
        self.state = State(since=now, progress_at=now, order=order_in_force(self.machine))
        self.trail.append((self.state.phase, self.state.reason))

    # -- orders -------------------------------------------------------------------------------------------------------
    def order(
        self,
        verb: Verb,
        launch: Launch | None = None,
        *,
        drain: float | None = None,
        replaces: bool = False,
        rollback: bool = True,
    ) -> int | Refusal | AlreadySo:
        """The order's id once it is accepted and written down, or why not."""
        number = max(self.machine.orders, default=0) + 1
        running = self.machine.record.launch_id if self.machine.record is not None else None
        answer = admit(self.state, Request(verb, launch, drain, replaces, rollback), number, running)
        if not isinstance(answer, Decision):
            return answer
        self.machine.orders[number] = (answer.state.order, "accepted")
        self.state = answer.state
        self.given_up.clear()
        self.launched.clear()
        for action in answer.actions:
            self.perform(action)
        return number

    def switch(
        self, to: Launch, *, drain: float | None = None, replaces: bool = False, rollback: bool = True
    ) -> int | Refusal | AlreadySo:
        return self.order(Verb.SWITCH, to, drain=drain, replaces=replaces, rollback=rollback)

    def stop(self, drain: float | None = None) -> int | Refusal | AlreadySo:
        return self.order(Verb.STOP, drain=drain)

    def restart(self) -> int | Refusal | AlreadySo:
        return self.order(Verb.RESTART, self.state.order.launch)

    # -- the loop -----------------------------------------------------------------------------------------------------
    def world(self) -> World:
        machine = self.machine
        return World(
            now=machine.now,
            dice=self.dice,
            lock=self._lock(),
            port=self.port,
            card=self.card,
            backend=machine.backend(),
            server=machine.server(),
            answer=self.answer,
            activity=machine.activity(),
            requests=machine.open_requests(),
            ending=machine.ending(),
        )

    def step(self, seconds: float = 0.1, *, dies_after: int | None = None) -> Decision:
        """Look, decide, act, and let time pass. `dies_after` actions the supervisor is killed, if it is given."""
        before = self.state
        decision = decide(before, self.world())
        self._judge(before, decision)
        self.state = decision.state
        for number, action in enumerate(decision.actions):
            if number == dies_after:
                break
            self.perform(action)
        if dies_after is not None:
            self.die()
        self.machine.advance(seconds)
        return decision

    def run(self, seconds: float, step: float = 0.1) -> None:
        end = self.machine.now + seconds
        while self.machine.now < end:
            self.step(step)

    def until(self, *phases: Phase, within: float = 300.0, step: float = 0.1) -> None:
        """Go on until one of the phases is reached; an AssertionError with the trail otherwise."""
        end = self.machine.now + within
        while self.state.phase not in phases:
            assert self.machine.now < end, f"not {phases} within {within} s: {self.trail}"
            self.step(step)

    def die(self) -> None:
        """SIGKILL: locks that no process inherited are free, looks and questions under way are lost."""
        self.dead = True
        self.locks = frozenset()

    def _judge(self, before: State, decision: Decision) -> None:
        """Laws 9 and 10, and the legal moves, at every step."""
        after = decision.state
        if not after.reason.strip():
            self.machine.violations.append(f"law 10: no reason in {after.phase}")
        if after.phase is not before.phase:
            ALL_MOVES.add((before.phase, after.phase))
            self.trail.append((after.phase, after.reason))
            if (before.phase, after.phase) not in MOVES:
                self.machine.violations.append(f"illegal move {before.phase} -> {after.phase}")
        if after.order.id != before.order.id and after.outcome_of(before.order.id) is None:
            self.machine.violations.append(f"law 9: order {before.order.id} was dropped without a word")
        failure, record = after.failure, self.machine.record
        if failure is not None and failure.deterministic and record is not None:
            self.given_up.add(record.launch.profile)

    # -- acting -------------------------------------------------------------------------------------------------------
    def perform(self, action: Action) -> None:  # noqa: C901 - one line an action
        record = self.machine.record
        match action:
            case TakeLocks(launch=launch):
                self._take_locks(launch)
            case ReleaseLocks():
                self.locks = frozenset()
            case Look():
                self._look()
            case Spawn(launch=launch):
                self._check_launch(launch)
                self.machine.spawn(launch, tuple(self.locks))
            case Terminate(target=target):
                if record is not None:
                    self.machine.terminate(record, target)
            case KillEveryone():
                if record is not None:
                    self.machine.kill(record)
            case Ask(deadline=deadline):
                if record is not None:
                    self._ask(record, deadline)
            case MarkProven():
                if record is not None:
                    record.proven = True
            case Forget():
                if record is not None and self.machine.of(record.launch_id):
                    self.machine.violations.append(f"{record.launch_id} was forgotten while it lives")
                self.machine.record = None
                self.answer = None
            case Settle(outcome=outcome, stands=stands):
                order, _ = self.machine.orders[outcome.order_id]
                fate = "committed" if stands else "failed"
                self.machine.orders[outcome.order_id] = (order, fate)
            case _:
                assert_never(action)

    def _take_locks(self, launch: Launch) -> None:
        taken = set[str]()
        for path in launch.locks:
            if path not in self.locks and (self.machine.foreign_lock or self.machine.lock_holders(path)):
                return
            taken.add(path)
        if frozenset(taken) != self.locks:
            self.locked_at = self.machine.now
        self.locks = frozenset(taken)

    def _look(self) -> None:
        if self._looking:
            return
        self._looking = True
        at = self.machine.now

        def done() -> None:
            self._looking = False
            self.port, self.card = self.machine.look_at_port(at), self.machine.look_at_card(at)

        self.machine.later(self.look_delay, done)

    def _ask(self, record: Record, deadline: float) -> None:
        self.answer = Answer(record.launch_id, AnswerState.WAITING)
        fate = AnswerState.LATE if self.machine.hung else record.conduct.answer
        delay = deadline if fate is AnswerState.LATE else self.answer_delay

        def answered() -> None:
            now_hung = self.machine.hung or not self.machine.of(record.launch_id, "main")
            self.answer = Answer(record.launch_id, AnswerState.LATE if now_hung else fate, f"it was {fate.value}")

        self.machine.later(delay, answered)

    def _lock(self) -> Reading[Lock]:
        machine, backend = self.machine, self.machine.backend()
        if "lock" in machine.unreadable:
            return Unknown("/proc/locks cannot be read", machine.now)
        wanted = backend.launch if backend is not None else self.state.order.launch
        missing = [path for path in (wanted.locks if wanted is not None else ()) if path not in self.locks]
        if not missing:
            ours = bool(self.locks) or (wanted is not None and not wanted.locks)
            return Known(Lock(ours, (), self.locked_at), machine.now)
        visible = {*backend.processes} if backend is not None else set[int]()
        pids = [pid for path in missing for pid in machine.lock_holders(path)]
        if backend is not None and pids and visible.intersection(pids):
            return Known(Lock(True, (), backend.spawned_at), machine.now)
        holders = [Holder(pid, "vllm", "me", "the lock") for pid in pids]
        if machine.foreign_lock is not None:
            holders.append(machine.foreign_lock)
        return Known(Lock(False, tuple(holders), machine.now), machine.now)

    def _check_launch(self, launch: Launch) -> None:
        """Laws 1 to 4, at the only moment at which they can be broken."""
        machine = self.machine
        self.launched.append(machine.now)
        if launch.profile in self.given_up:
            machine.violations.append(f"law 6: {launch.profile} was launched again, and is bound to fail")
        recent = sum(machine.now - at < restart.HOUR for at in self.launched)
        # The launch, its retries, and the one that a failed switch returns to.
        if recent > launch.restart.per_hour + 2:
            machine.violations.append(f"law 6: {launch.profile} was launched {recent} times within an hour")
        if machine.processes:
            machine.violations.append(f"law 1: {launch.profile} launched beside {machine.processes}")
        if not set(launch.locks) <= self.locks:
            machine.violations.append(f"law 3: {launch.profile} launched without its lock")
        for name, reading in (("port", self.port), ("card", self.card)):
            if not isinstance(reading, Known) or reading.at < self.locked_at:
                machine.violations.append(
                    f"law 3: {launch.profile} launched, and the {name} was not seen since the lock"
                )
        if isinstance(self.port, Known) and (self.port.value.listeners or not self.port.value.bindable):
            machine.violations.append(f"law 2: {launch.profile} launched on a taken port")
        if isinstance(self.card, Known):
            foreign = [one for one in self.card.value.holders if one.command not in launch.allow_holders]
            if foreign:
                machine.violations.append(f"law 3: {launch.profile} launched on a card held by {foreign}")


def order_in_force(machine: Machine) -> Order:
    """What a new supervisor reads back: the newest order that did not fail, and what a failing one returns to."""
    newest = max((number for number, (_, fate) in machine.orders.items() if fate != "failed"), default=None)
    if newest is None:
        return NOTHING_ORDERED
    order, fate = machine.orders[newest]
    if fate == "committed":
        return replace(order, committed=True, previous=None, returns=False)
    before = max((n for n, (_, one) in machine.orders.items() if n < newest and one == "committed"), default=None)
    if order.goal is Goal.STOP:
        return replace(order, previous=None)
    previous = NOTHING_ORDERED
    if before is not None:
        previous = replace(machine.orders[before][0], committed=True, previous=None, returns=False)
    return replace(order, previous=previous)


def supervised(*, conduct: dict[str, Conduct] | None = None) -> tuple[Machine, Supervisor]:
    """A machine on which nothing was ever ordered, and its supervisor."""
    machine = Machine()
    machine.conduct.update(conduct or {})
    return machine, Supervisor(machine)


def serving(profile: str = "alpha", *, conduct: dict[str, Conduct] | None = None) -> tuple[Machine, Supervisor]:
    """A machine on which a profile serves."""
    machine, supervisor = supervised(conduct=conduct)
    assert isinstance(supervisor.switch(launch(profile)), int)
    supervisor.until(Phase.SERVING)
    return machine, supervisor
