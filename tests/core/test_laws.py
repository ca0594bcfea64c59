"""The laws of the design, held against a machine to which anything may happen, in any order.

`ARCOPS_SOAK_STEPS=100000 pytest tests/core/test_laws.py` runs that many steps.
"""

import os
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcops.core.action import Spawn
from arcops.core.cards.attribution import MIB
from arcops.core.cards.incidents import Kind, fatal
from arcops.core.decide import decide
from arcops.core.phase import Phase
from arcops.core.state import Goal
from arcops.core.world import AnswerState
from tests.core.simulated import Conduct, Machine, holder, launch, order_in_force
from tests.core.simulated_memory import Memory
from tests.core.supervised import Supervisor

STEPS = 30
SOAK_STEPS = int(os.environ.get("ARCOPS_SOAK_STEPS", "0"))
PROFILES = {
    "alpha": launch("alpha"),
    "beta": launch("beta"),
    "other-card": launch("other-card", port=8001, locks=("/card/1",), cards=("0000:04:00.0",), setup="/opt/setvars.sh"),
    "other-port": launch("other-port", port=8001),
    "no-card": launch("no-card", locks=("/run/cpu.lock",), cards=()),
    "guarded": launch("guarded", on_failure="beta"),
}
FALLBACKS = {"guarded": PROFILES["beta"], "other-port": PROFILES["other-card"]}
"""What takes a profile's place when it has failed for good: on the same card, or on another."""
profiles = st.sampled_from(sorted(PROFILES))
FAULTS = (
    Conduct(never_starts=True),
    Conduct(no_record=True),
    Conduct(keeper_after=2.0, main_after=3.0),
    Conduct(ready_after=8.0),
    Conduct(ready_after=1e9),
    Conduct(ready_after=1e9, silent=True),
    Conduct(dies_after=0.5),
    Conduct(dies_after=0.5, deterministic=True),
    Conduct(dies_after=1.0, deterministic=True, ending_after=2.0, lingers=0.0),
    Conduct(dies_after=5.0),
    Conduct(dies_after=60.0, orphans=True),
    Conduct(dies_after=60.0, deterministic=True),
    Conduct(dies_after=0.5, points_at_draft=True),
    Conduct(dies_after=1.0, wedges=True),
    Conduct(dies_after=0.5, loses_device=True),
    Conduct(dies_after=60.0, loses_device=True),
    Conduct(dies_after=2.0, resets=True),
    Conduct(dies_after=60.0, resets=True),
    Conduct(deaf=True),
    Conduct(deaf=True, orphans=True),
    Conduct(clings=True),
    Conduct(clings=True, immortal=True),
    Conduct(immortal=True),
    Conduct(models=()),
    Conduct(models=("another",)),
    Conduct(answer=AnswerState.WRONG),
    Conduct(answer=AnswerState.LATE),
    Conduct(lingers=10.0),
)
conducts = st.one_of(st.just(Conduct()), st.sampled_from(FAULTS))
drains = st.sampled_from([None, 0.0, 30.0])
pauses = st.sampled_from([0.0, 0.3, 4.0, 40.0, 900.0])
READINGS = ("lock", "port", "card", "server", "activity", "requests", "trial")
DARK = tuple(f"dark {one}" for one in READINGS)
OF_MEMORY = ("memory", "desktop", "idle context", "hidden", "half hidden", "kept", "growth", "unreadable", "dim")
TROUBLES = ("lock", "port", "residue", "unwell", "hang", "mute", "sick", *DARK)
LASTING = (Phase.STOPPED, Phase.BLOCKED, Phase.SERVING, Phase.BACKOFF, Phase.FAILED, Phase.STUCK, Phase.WEDGED)


FALLING = (Phase.STOPPING, Phase.CLEARING)


class Laws(RuleBasedStateMachine):
    """Operators, faults and the deaths of supervisors, in any order; the laws after each."""

    @initialize()
    def begin(self) -> None:
        self.machine = Machine()
        self.machine.fallbacks.update(FALLBACKS)
        self.supervisor = Supervisor(self.machine)

    # -- time ---------------------------------------------------------------------------------------------------------
    @rule(pause=pauses)
    def time_passes(self, pause: float) -> None:
        self.go_on(pause)

    @rule()
    def things_settle(self) -> None:
        end = self.machine.now + 120.0
        self.supervisor.step()
        while self.supervisor.state.phase not in LASTING and self.machine.now < end:
            self.supervisor.step(0.2)

    @rule(seconds=st.sampled_from([6.0, 40.0, 900.0]), pause=pauses)
    def the_machine_stands_still(self, seconds: float, pause: float) -> None:
        self.supervisor.stand_still(seconds)
        self.go_on(pause)

    def go_on(self, seconds: float) -> None:
        self.supervisor.run(seconds, step=max(0.1, seconds / 300.0))

    @rule(dice=st.floats(min_value=0.0, max_value=0.99), delay=st.sampled_from([0.01, 0.5, 2.5]))
    def looks_take_longer_or_shorter(self, dice: float, delay: float) -> None:
        self.supervisor.dice, self.supervisor.look_delay = dice, delay

    # -- the operator -------------------------------------------------------------------------------------------------
    @rule(name=profiles, drain=drains, replaces=st.booleans(), rollback=st.booleans(), conduct=conducts, pause=pauses)
    def an_operator_switches(
        self, name: str, drain: float | None, replaces: bool, rollback: bool, conduct: Conduct, pause: float
    ) -> None:
        self.machine.conduct[name] = conduct
        self.supervisor.switch(PROFILES[name], drain=drain, replaces=replaces, rollback=rollback)
        self.go_on(pause)

    @rule(drain=drains)
    def an_operator_stops(self, drain: float | None) -> None:
        self.supervisor.stop(drain)

    @rule(conduct=conducts, pause=pauses)
    def an_operator_restarts(self, conduct: Conduct, pause: float) -> None:
        self.machine.conduct[self.supervisor.state.order.profile or ""] = conduct
        self.supervisor.restart()
        self.go_on(pause)

    # -- faults -------------------------------------------------------------------------------------------------------
    @rule(name=profiles, conduct=conducts)
    def a_profile_turns_bad_or_good(self, name: str, conduct: Conduct) -> None:
        self.machine.conduct[name] = conduct

    @rule(kind=st.sampled_from([Kind.WEDGED, Kind.GONE, Kind.RESET, Kind.RECOVERY]), pause=pauses)
    def the_kernel_tells_of_the_card(self, kind: Kind, pause: float) -> None:
        self.machine.befalls(kind)
        self.go_on(pause)

    @rule(role=st.sampled_from(["main", "engine", "keeper"]), pause=pauses)
    def a_process_is_killed(self, role: str, pause: float) -> None:
        for pid in [pid for pid, process in self.machine.processes.items() if process.role == role][:1]:
            self.machine.end(pid)
        self.go_on(pause)

    @rule(name=profiles, back=st.booleans(), fault=st.sampled_from(["wedges", "deterministic", "points_at_draft"]))
    def a_switch_fails_for_good(self, name: str, back: bool, fault: str) -> None:
        """For one of the reasons that decide what runs afterwards."""
        if isinstance(self.supervisor.switch(PROFILES[name], drain=0.0, replaces=True, rollback=back), int):
            self.machine.conduct[name] = replace(Conduct(dies_after=0.5), **{fault: True})
            self.go_on(40.0)

    @rule()
    def a_late_process_turns_up(self) -> None:
        """A stray of the launch that nobody has seen so far; it has inherited the lock."""
        record = self.machine.record
        if record is None:
            return
        locked = set(record.launch.locks) <= self.supervisor.locks
        if self.machine.of(record.launch_id, "main", "engine") or (locked and self.supervisor.state.phase in FALLING):
            self.machine.start("stray", record.launch_id, record.launch.locks)

    @rule(number=st.integers(0, 3), prefilling=st.booleans())
    def clients_come_and_go(self, number: int, prefilling: bool) -> None:
        self.machine.requests, self.machine.prefilling = number, prefilling

    @rule(trouble=st.sampled_from(TROUBLES), pause=pauses)
    def trouble_comes(self, trouble: str, pause: float) -> None:
        machine = self.machine
        match trouble:
            case "lock":
                held = {path for process in machine.processes.values() for path in process.locks}
                machine.foreign_lock = None if held | self.supervisor.locks else holder()
            case "port":
                machine.foreign_listener = holder("port 8000")
            case "residue":
                machine.residue = True
            case "mute":
                machine.silent_card = "the card does not answer"
            case "sick":
                machine.sick_card = "the card took a small product and did not finish it"
            case "unwell":
                machine.unhealthy = True
            case "hang":
                machine.hung, machine.requests = True, 1
            case _:
                machine.unreadable.add(trouble.removeprefix("dark "))
        self.go_on(pause)

    @rule(trouble=st.sampled_from(OF_MEMORY), name=st.one_of(st.none(), profiles), pause=pauses)
    def trouble_comes_to_the_cards_memory(self, trouble: str, name: str | None, pause: float) -> None:
        """And, perhaps, an order with it."""
        trouble_of_memory(self.machine, trouble)
        if name is not None:
            self.supervisor.switch(PROFILES[name], replaces=True, drain=0.0)
        self.go_on(pause)

    @rule()
    def trouble_goes(self) -> None:
        machine = self.machine
        machine.foreign_lock = machine.foreign_listener = machine.foreign_memory = None
        machine.residue = machine.unhealthy = machine.hung = False
        machine.unreadable.clear()
        machine.memory = Memory(drivers=machine.memory.drivers)
        machine.silent_card = machine.sick_card = ""
        machine.conduct.clear()

    # -- the supervisor's own death -----------------------------------------------------------------------------------
    @rule(actions=st.integers(0, 2), absent=st.sampled_from([0.0, 0.5, 40.0]))
    def the_supervisor_dies(self, actions: int, absent: float) -> None:
        self.supervisor.step(dies_after=actions)
        self.machine.advance(absent)
        self.supervisor = Supervisor(self.machine)

    @rule(absent=st.sampled_from([0.0, 40.0]), pause=pauses)
    def the_supervisor_dies_and_the_next_one_reads_profiles_late(self, absent: float, pause: float) -> None:
        """What could stand in is not known yet when it begins, and perhaps not when the latch falls."""
        self.supervisor.die()
        self.machine.advance(absent)
        self.supervisor = Supervisor(self.machine)
        order = self.supervisor.state.order
        if order.stand_in is None:
            self.supervisor.state = replace(self.supervisor.state, order=replace(order, fallback=None))
        self.go_on(pause)

    @rule()
    def profiles_are_read(self) -> None:
        order = self.supervisor.state.order
        fallback = self.machine.fallbacks.get(order.profile or "")
        if order.goal is Goal.RUN and order.fallback is None:
            self.supervisor.state = replace(self.supervisor.state, order=replace(order, fallback=fallback))

    @rule(name=profiles, actions=st.integers(0, 1))
    def the_supervisor_dies_as_it_launches(self, name: str, actions: int) -> None:
        """Just before, or just after, the process was started."""
        if not isinstance(self.supervisor.switch(PROFILES[name], replaces=True, drain=0.0), int):
            return
        for _ in range(200):
            before = len(self.machine.spawns)
            decision = decide(self.supervisor.state, self.supervisor.world())
            spawns = [place for place, action in enumerate(decision.actions) if isinstance(action, Spawn)]
            self.supervisor.step(0.05, dies_after=spawns[0] + actions if spawns else None)
            if spawns:
                assert len(self.machine.spawns) == before + actions
                self.supervisor = Supervisor(self.machine)
                return

    @precondition(lambda self: self.is_well())
    @rule()
    def a_new_supervisor_leaves_a_healthy_backend_alone(self) -> None:
        """Law 8: adopted, never signalled."""
        record = self.machine.record
        assert record is not None
        signals = len(self.machine.signals)
        self.supervisor.die()
        self.supervisor = Supervisor(self.machine)
        self.supervisor.until(Phase.SERVING, within=30.0)
        assert self.machine.record is record
        assert len(self.machine.signals) == signals

    @precondition(lambda self: self.is_well())
    @rule(seconds=st.sampled_from([6.0, 40.0, 900.0]), times=st.integers(1, 3), requests=st.integers(0, 2))
    def a_standstill_is_not_held_against_a_healthy_backend(self, seconds: float, times: int, requests: int) -> None:
        machine, record = self.machine, self.machine.record
        signals = len(machine.signals)
        machine.requests = requests
        for _ in range(times):
            self.supervisor.stand_still(seconds)
            self.supervisor.run(2.0)
        assert self.supervisor.state.phase is Phase.SERVING
        assert machine.record is record
        assert len(machine.signals) == signals

    @precondition(lambda self: self.is_well())
    @rule(requests=st.integers(0, 2))
    def a_hang_is_found_whether_anybody_waits_or_not(self, requests: int) -> None:
        """The processes live, HTTP answers, nothing moves: it does not go on like that."""
        machine, record = self.machine, self.machine.record
        assert record is not None
        machine.hung, machine.requests = True, requests
        limits, checks = record.launch.limits, record.launch.checks
        end = machine.now + checks.idle_probe + limits.stall_after + 2 * limits.probe + 10.0
        while self.supervisor.state.phase in (Phase.SERVING, Phase.SUSPECT):
            assert machine.now < end, self.supervisor.trail[-8:]
            self.supervisor.step(0.5)
        assert machine.record is record
        # On a card that was given up since the launch it is the card's.
        kept = {what for launch_id, what in machine.evidence if launch_id == record.launch_id}
        assert kept & ({"hang"} if fatal(tuple(machine.incidents), record.spawned_at) is None else {"gpu_wedged"})

    # -- what must come about -----------------------------------------------------------------------------------------
    @precondition(lambda self: self.supervisor.state.order.goal is Goal.RUN)
    @rule(dies=st.booleans())
    def what_is_ordered_serves_once_all_is_well(self, dies: bool) -> None:
        """Laws 8 and 9: with no more faults the order in force comes about, whoever was there to hear it."""
        self.trouble_goes()
        machine, standing = self.machine, self.supervisor.state.order.launch
        assert standing is not None
        if machine.record is not None:
            machine.record.conduct = Conduct()
        ordered = replace(standing, argv=(f"vllm, edition {len(machine.orders)}",))
        number = self.supervisor.switch(ordered, replaces=True, drain=0.0)
        assert isinstance(number, int)
        if dies:
            self.supervisor.run(0.3)
            self.supervisor.die()
            self.supervisor = Supervisor(machine)
        end = machine.now + 200.0
        while self.supervisor.state.phase is not Phase.SERVING or not self.supervisor.state.order.committed:
            assert machine.now < end, self.supervisor.trail[-8:]
            self.supervisor.step(0.2)
        order = self.supervisor.state.order
        assert (order.id, order.launch, order.stand_in) == (number, ordered, None)

    @rule()
    def a_stop_always_ends(self) -> None:
        """Law 5: with no more faults it ends in `stopped`, or in a `stuck` that names what will not go."""
        machine, supervisor = self.machine, self.supervisor
        machine.unreadable.clear()
        machine.residue = False
        machine.memory = replace(machine.memory, hidden=0, kept=0)
        supervisor.stop()
        self.come_to_an_end()
        if machine.processes:
            reason = supervisor.state.reason
            assert any(str(pid) in reason for pid in machine.processes) or "keeper" in reason
            assert supervisor.state.order.committed, "who ordered the stop was told"
            machine.let_go()
            self.come_to_an_end()
        assert not machine.processes
        assert not supervisor.locks
        assert supervisor.state.order.committed

    def come_to_an_end(self) -> None:
        """Stopped with nothing left, or stuck with processes left; an AssertionError if neither comes in time."""
        machine, supervisor = self.machine, self.supervisor
        limits = launch().limits
        end = machine.now + limits.drain + limits.shutdown_timeout + limits.stop_grace + limits.clear + 60.0
        supervisor.step()
        while True:
            state = supervisor.state
            if (
                state.phase is Phase.STOPPED
                and machine.record is None
                and state.order.committed
                and not supervisor.locks
            ):
                return
            if state.phase is Phase.STUCK and machine.processes:
                return
            assert machine.now < end, supervisor.trail[-8:]
            supervisor.step(0.2)

    def is_well(self) -> bool:
        machine, state, record = self.machine, self.supervisor.state, self.machine.record
        return (
            state.phase is Phase.SERVING
            and state.order.committed
            and record is not None
            and all(machine.of(record.launch_id, role) for role in ("keeper", "main", "engine"))
            and record.conduct.dies_after is None
            and record.conduct.models is None
            and machine.foreign_listener is None
            and not (machine.hung or machine.unhealthy or machine.unreadable)
        )

    # -- the laws -----------------------------------------------------------------------------------------------------
    @invariant()
    def no_law_was_broken_on_the_way(self) -> None:
        assert self.machine.violations == [], self.supervisor.trail[-12:]

    @invariant()
    def one_launch_at_a_time(self) -> None:
        assert len({process.launch_id for process in self.machine.processes.values()}) <= 1

    @invariant()
    def the_lock_is_never_free_while_a_process_of_ours_lives(self) -> None:
        if self.machine.processes:
            assert self.machine.foreign_lock is None
            assert all(process.locks for process in self.machine.processes.values())

    @invariant()
    def the_order_in_force_is_the_one_written_down(self) -> None:
        order, written = self.supervisor.state.order, order_in_force(self.machine)
        assert (order.id, order.goal, order.profile) == (written.id, written.goal, written.profile)
        assert order.committed == written.committed

    @invariant()
    def every_accepted_order_is_in_force_or_settled(self) -> None:
        open_orders = [number for number, (_, fate) in self.machine.orders.items() if fate == "accepted"]
        assert open_orders in ([], [self.supervisor.state.order.id])

    @invariant()
    def memory_is_bounded(self) -> None:
        state = self.supervisor.state
        assert len(state.settled) <= 16
        assert len(state.failures) <= launch().restart.per_hour + 1
        assert state.order.previous is None or state.order.previous.previous is None
        assert len(state.reason) < 1000

    @invariant()
    def a_failure_does_not_linger(self) -> None:
        state = self.supervisor.state
        if state.phase in (Phase.STARTING, Phase.SERVING, Phase.STOPPED):
            assert state.failure is None
        if state.phase is Phase.STOPPED and state.order.goal is Goal.STOP:
            assert state.failures == ()

    def teardown(self) -> None:
        self.a_stop_always_ends()
        self.no_law_was_broken_on_the_way()


def trouble_of_memory(machine: Machine, trouble: str) -> None:
    """Who has memory of the cards, and what can be seen of it."""
    memory = machine.memory
    match trouble:
        case "memory":
            machine.foreign_memory = holder("900 MiB of card 0000:03:00.0")
        case "desktop":
            machine.foreign_memory = holder("90 MiB of card 0000:03:00.0", "Xorg")
        case "idle context":
            machine.foreign_memory = holder("4 MiB of card 0000:03:00.0")
        case "hidden":
            memory.hidden, memory.unreadable = 6_000 * MIB, 3
        case "half hidden":
            memory.hidden, memory.unreadable = 900 * MIB, 3
        case "kept":
            memory.kept = 2_500 * MIB
        case "growth":
            memory.drivers = min(memory.drivers + 400 * MIB, 1_900 * MIB)
        case "unreadable":
            memory.unreadable = 5
        case _:
            memory.dark = True


Laws.TestCase.settings = settings(
    max_examples=max(1, SOAK_STEPS // STEPS) if SOAK_STEPS else 600,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLaws = Laws.TestCase
