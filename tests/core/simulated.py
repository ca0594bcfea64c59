"""A machine that exists only in numbers: fake time, processes with the locks that they inherited, port, cards, HTTP.

It goes on whatever becomes of its supervisor (`supervised.py`). Breaches of the laws are gathered in `violations`.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from arcops.core.action import (
    Target,
)
from arcops.core.cards.health import Health, Verdict
from arcops.core.cards.incidents import Incident, Kind, Source
from arcops.core.launch import Checks, Launch, Limits, RestartPolicy
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.state import NOTHING_ORDERED, Goal, Order, StandIn
from arcops.core.world import (
    Activity,
    AnswerState,
    Backend,
    Card,
    Cause,
    Ending,
    Holder,
    Port,
    ProcessId,
    Server,
)
from tests.core.simulated_memory import ENGINE, Memory, named, occupancy, of_holder

LIMITS = Limits(
    start_stall=60.0, drain=20.0, shutdown_timeout=5.0, stop_grace=20.0, clear=20.0, stall_after=30.0, probe=20.0
)


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
    wedges: bool = False
    """It takes the card down with it: nothing runs there until it was reset."""
    ending_after: float = 0.0
    """Seconds after its end until its log has been read."""
    orphans: bool = False
    """The engine outlives the main process."""
    deaf: bool = False
    """SIGTERM does nothing."""
    clings: bool = False
    """SIGTERM ends the engine alone: the main process waits for its clients."""
    immortal: bool = False
    """SIGKILL does nothing: a process hangs in the driver."""
    loses_device: bool = False
    """It ends because the driver lost the card under it."""
    resets: bool = False
    """The same, and the kernel tells of a reset of the card."""
    silent: bool = False
    """Neither log lines nor processor time while it starts."""
    models: tuple[str, ...] | None = None
    answer: AnswerState = AnswerState.RIGHT
    lingers: float = 0.2
    """Seconds after the last process until port and card are free."""


def cause_of(conduct: Conduct) -> Cause:
    """What a diagnosis would say of an end like this."""
    if conduct.wedges:
        return Cause.GPU_WEDGED
    if conduct.loses_device or conduct.resets:
        return Cause.DEVICE_LOST
    return Cause.BAD_VALUE if conduct.deterministic else Cause.ENGINE_DIED


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
    stopping: bool = False
    """Its end was asked for."""
    stood_still: float = 0.0
    """Seconds since its spawn in which the machine ran nothing."""


class Machine:
    """Everything that outlives a supervisor."""

    def __init__(self) -> None:
        self.now = 100.0
        self.processes: dict[int, Process] = {}
        self.record: Record | None = None
        self.conduct: dict[str, Conduct] = {}
        self.orders: dict[int, tuple[Order, str]] = {}
        self.stand_ins: dict[int, StandIn] = {}
        """What stands in for an order, by its id, as it is written down."""
        self.fallbacks: dict[str, Launch] = {}
        """What a profile's `on_failure` names, by the profile."""
        self.silent_card = ""
        """Why the card does not answer."""
        self.sick_card = ""
        """What a trial of the card says against it; empty while it computes."""
        self.untriable = ""
        """Why nothing is learnt from a trial."""
        self.trial_takes = 8.0
        self.trials = 0
        self.foreign_lock: Holder | None = None
        self.foreign_listener: Holder | None = None
        self.foreign_memory: Holder | None = None
        self.memory = Memory()
        self.baselines: dict[str, int] = {}
        """What each card has in use when idle, as it is written down."""
        self.incidents: list[Incident] = []
        """What the kernel says of the card."""
        self.clear_at = 0.0
        self.residue = False
        """Port and memory do not come back."""
        self.unreadable: set[str] = set()
        self.requests = 0
        self.hung = False
        self.unhealthy = False
        self.unlisted = False
        """/v1/models refuses our key."""
        self.prefilling = False
        self.setup_takes = 0.3
        self.setup_fails = ""
        """What the setup script says when it fails."""
        self.preparing: set[str] = set()
        self.spawns: list[tuple[float, str, str]] = []
        """When, the launch id, and the profile."""
        self.signals: list[tuple[float, str, str]] = []
        """When, the launch id, and what was sent."""
        self.evidence: list[tuple[str, str]] = []
        """Launch id and what had happened, of all that was put aside."""
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

    def stand_still(self, seconds: float) -> None:
        """The clock goes on, and nothing runs: what was under way takes as much longer."""
        self.now += seconds
        self.clear_at += seconds
        self._events = [(at + seconds, number, event) for at, number, event in self._events]
        if self.record is not None:
            self.record.stood_still += seconds

    def befalls(self, kind: Kind) -> None:
        """The kernel says so of the card now."""
        text = f"the line about {kind.label}"
        self.incidents.append(Incident(self.now, "0000:03:00.0", kind, text, Source.KERNEL_LOG, driver="xe"))

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
        if record.conduct.clings:
            roles = ("engine",)
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

    def setup(self, at: float) -> Reading[None]:
        return Unknown(self.setup_fails, at) if self.setup_fails else Known(None, at)

    def look_at_card(self, at: float, cards: tuple[str, ...]) -> Reading[Card]:
        """These cards, which all have the same in them."""
        if "card" in self.unreadable:
            return Unknown("fdinfo cannot be read", at)
        holdings = [] if self.foreign_memory is None else [of_holder(self.foreign_memory)]
        known = self.record.launch_id if self.record is not None else None
        for pid, process in self.processes.items():
            if process.launch_id != known or process.role == "engine":
                holdings.append(named(pid, ENGINE, "vllm", "me", ours=process.launch_id == known))
        lingering = ENGINE if self.now < self.clear_at else 0
        living = known is not None and bool(self.of(known))
        memory = tuple(occupancy(card, at, self.memory, holdings, lingering, living=living) for card in cards)
        return Known(Card(memory, fault=self.silent_card, wedged=bool(self.silent_card)), at)

    def trial(self, at: float) -> Reading[Health]:
        """What a trial of the card that began `at` comes to now."""
        if "trial" in self.unreadable:
            return Unknown("no thread can be started", at)
        if self.sick_card:
            return Known(Health(Verdict.WEDGED, self.sick_card, "reboot"), at)
        if self.untriable:
            return Known(Health(Verdict.INCONCLUSIVE, self.untriable), at)
        return Known(Health(Verdict.HEALTHY, "card 0000:03:00.0 computes"), at)

    @property
    def listening(self) -> bool:
        record = self.record
        if record is None or not self.of(record.launch_id, "main"):
            return False
        return self.now >= record.spawned_at + record.stood_still + record.conduct.ready_after

    def server(self) -> Reading[Server]:
        record = self.record
        if "server" in self.unreadable:
            return Unknown("no answer within 2 s", self.now)
        if record is not None and self.listening:
            models = record.conduct.models
            names = (record.launch.served_name,) if models is None else models
            if self.unlisted:
                return Known(Server(healthy=not self.unhealthy, models=(), unread="it refuses our API key"), self.now)
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
            stopping=record.stopping,
            engines=sum(self.processes[pid].role == "engine" for pid in seen) if record.proven else None,
        )

    def ending(self) -> Ending | None:
        record = self.record
        if record is None or record.ended_at is None or self.now < record.ended_at + record.conduct.ending_after:
            return None
        conduct = record.conduct
        return Ending(
            launch_id=record.launch_id,
            cause=cause_of(conduct),
            summary=f"{record.launch.profile} ended with exit code {conduct.exit_code}",
            hint="see `arcops logs`",
            deterministic=conduct.deterministic or conduct.wedges,
            points_at_draft=conduct.points_at_draft,
            evidence="(EngineCore pid=7) ERROR ValueError: no",
            card_fault=conduct.resets,
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


def order_in_force(machine: Machine) -> Order:
    """What a new supervisor reads back: the newest order that did not fail, and what a failing one returns to."""
    newest = max((number for number, (_, fate) in machine.orders.items() if fate != "failed"), default=None)
    if newest is None:
        return NOTHING_ORDERED
    order, fate = machine.orders[newest]
    if fate == "committed":
        return standing(machine, order)
    before = max((n for n, (_, one) in machine.orders.items() if n < newest and one == "committed"), default=None)
    if order.goal is Goal.STOP:
        return replace(order, previous=None)
    previous = NOTHING_ORDERED
    if before is not None:
        previous = standing(machine, machine.orders[before][0])
    return replace(order, previous=previous)


def standing(machine: Machine, order: Order) -> Order:
    """A committed order as it is read back, with what stands in for it."""
    return replace(order, committed=True, previous=None, returns=False, stand_in=machine.stand_ins.get(order.id))
