"""The laws of the design, held against a machine to which anything may happen, in any order.

`ARCOPS_SOAK_STEPS=100000 pytest tests/core/test_laws.py` runs that many steps.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcops.core.phase import Phase
from arcops.core.state import Goal
from arcops.core.world import AnswerState
from tests.core.simulated import Conduct, Machine, Supervisor, holder, launch, order_in_force

STEPS = 40
SOAK_STEPS = int(os.environ.get("ARCOPS_SOAK_STEPS", "0"))
PROFILES = {
    "alpha": launch("alpha"),
    "beta": launch("beta"),
    "other-card": launch("other-card", port=8001, locks=("/card/1",), cards=("0000:04:00.0",)),
    "no-card": launch("no-card", locks=("/run/cpu.lock",), cards=()),
}
profiles = st.sampled_from(sorted(PROFILES))
conducts = st.builds(
    Conduct,
    keeper_after=st.sampled_from([0.05, 2.0]),
    never_starts=st.sampled_from([False] * 9 + [True]),
    no_record=st.sampled_from([False] * 9 + [True]),
    main_after=st.sampled_from([0.1, 3.0]),
    ready_after=st.sampled_from([1.0, 8.0, 1e9]),
    dies_after=st.sampled_from([None, None, None, 0.5, 5.0, 60.0]),
    deterministic=st.booleans(),
    points_at_draft=st.booleans(),
    ending_after=st.sampled_from([0.0, 2.0]),
    orphans=st.booleans(),
    deaf=st.sampled_from([False, False, False, True]),
    immortal=st.sampled_from([False] * 9 + [True]),
    silent=st.booleans(),
    models=st.sampled_from([None, None, None, (), ("another",)]),
    answer=st.sampled_from([AnswerState.RIGHT] * 4 + [AnswerState.WRONG, AnswerState.LATE]),
    lingers=st.sampled_from([0.0, 1.0, 30.0]),
)
drains = st.sampled_from([None, 0.0, 30.0])
READINGS = ["lock", "port", "card", "server", "activity", "requests"]


class Laws(RuleBasedStateMachine):
    """Operators, faults and the deaths of supervisors, in any order; the laws after each."""

    @initialize()
    def begin(self) -> None:
        self.machine = Machine()
        self.supervisor = Supervisor(self.machine)

    # -- time ---------------------------------------------------------------------------------------------------------
    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0]))
    def a_moment_passes(self, seconds: float) -> None:
        self.supervisor.run(seconds)

    @rule(seconds=st.sampled_from([30.0, 120.0, 600.0]))
    def minutes_pass(self, seconds: float) -> None:
        self.supervisor.run(seconds, step=seconds / 100)

    @rule(dice=st.floats(min_value=0.0, max_value=0.99), delay=st.sampled_from([0.01, 0.5, 2.5]))
    def looks_take_longer_or_shorter(self, dice: float, delay: float) -> None:
        self.supervisor.dice, self.supervisor.look_delay = dice, delay

    # -- the operator -------------------------------------------------------------------------------------------------
    @rule(name=profiles, drain=drains, replaces=st.booleans(), rollback=st.booleans())
    def an_operator_switches(self, name: str, drain: float | None, replaces: bool, rollback: bool) -> None:
        self.supervisor.switch(PROFILES[name], drain=drain, replaces=replaces, rollback=rollback)

    @rule(drain=drains)
    def an_operator_stops(self, drain: float | None) -> None:
        self.supervisor.stop(drain)

    @rule()
    def an_operator_restarts(self) -> None:
        self.supervisor.restart()

    # -- faults -------------------------------------------------------------------------------------------------------
    @rule(name=profiles, conduct=conducts)
    def the_next_launch_behaves_so(self, name: str, conduct: Conduct) -> None:
        self.machine.conduct[name] = conduct

    @rule(role=st.sampled_from(["main", "engine", "keeper"]))
    def a_process_is_killed(self, role: str) -> None:
        for pid in [pid for pid, process in self.machine.processes.items() if process.role == role][:1]:
            self.machine.end(pid)

    @rule()
    def the_engine_hangs(self) -> None:
        self.machine.hung, self.machine.requests = True, 1

    @rule(number=st.integers(0, 3))
    def clients_come_and_go(self, number: int) -> None:
        self.machine.requests = number

    @rule()
    def the_server_is_unwell(self) -> None:
        self.machine.unhealthy = not self.machine.unhealthy

    @rule()
    def a_foreigner_takes_or_leaves_the_lock(self) -> None:
        free = not any(process.locks for process in self.machine.processes.values()) and not self.supervisor.locks
        self.machine.foreign_lock = holder() if self.machine.foreign_lock is None and free else None

    @rule()
    def a_foreigner_comes_to_the_port_or_leaves(self) -> None:
        self.machine.foreign_listener = holder("port 8000") if self.machine.foreign_listener is None else None

    @rule(command=st.sampled_from(["python3", "Xorg"]))
    def a_foreigner_takes_memory_or_leaves(self, command: str) -> None:
        foreign = holder("900 MiB of card 0000:03:00.0", command)
        self.machine.foreign_memory = foreign if self.machine.foreign_memory is None else None

    @rule(reading=st.sampled_from(READINGS))
    def something_cannot_be_read(self, reading: str) -> None:
        self.machine.unreadable ^= {reading}

    @rule()
    def port_and_memory_do_not_come_back(self) -> None:
        self.machine.residue = not self.machine.residue

    # -- the supervisor's own death -----------------------------------------------------------------------------------
    @rule(actions=st.integers(0, 2), absent=st.sampled_from([0.0, 1.0, 40.0]))
    def the_supervisor_dies(self, actions: int, absent: float) -> None:
        self.supervisor.step(dies_after=actions)
        self.machine.advance(absent)
        self.supervisor = Supervisor(self.machine)

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

    @rule()
    def a_stop_always_ends(self) -> None:
        """Law 5: with no more faults it ends in `stopped`, or in a `stuck` that names what will not go."""
        machine, supervisor = self.machine, self.supervisor
        machine.unreadable.clear()
        machine.residue = False
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
            and len(machine.of(record.launch_id)) == 3
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


Laws.TestCase.settings = settings(
    max_examples=max(1, SOAK_STEPS // STEPS) if SOAK_STEPS else 100,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLaws = Laws.TestCase
