"""A supervisor on the simulated machine that may die at any instant.

What the real daemon does with a real machine it does with this one: render a World, decide, act, write orders down.
Every step is checked against the laws; `Machine.violations` must stay empty.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from arcops.core import restart
from arcops.core.action import (
    Action,
    Ask,
    Forget,
    KeepBaseline,
    KeepEvidence,
    KillEveryone,
    Look,
    MarkProven,
    Prepare,
    ReleaseLocks,
    Settle,
    Spawn,
    TakeLocks,
    Terminate,
)
from arcops.core.admit import AlreadySo, Refusal, Request, Verb, admit
from arcops.core.cards import clean
from arcops.core.cards.clean import Occupancy
from arcops.core.cards.health import Health, Verdict
from arcops.core.decide import Decision, decide
from arcops.core.launch import Launch
from arcops.core.phase import MOVES, Phase
from arcops.core.quantity import Known, Reading, T, Unknown
from arcops.core.state import Order, State
from arcops.core.world import (
    NOT_TRIED,
    Answer,
    AnswerState,
    Card,
    Cause,
    Holder,
    Lock,
    Port,
    World,
)
from tests.core.simulated import Conduct, Machine, Record, launch, order_in_force


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
    given_up: set[Launch] = field(default_factory=set[Launch])
    """Launches that were judged to fail the same way again, since the last order."""
    launched: list[tuple[float, Launch]] = field(default_factory=list[tuple[float, Launch]])
    """When something was launched, and what, since the last order."""
    wedged: set[str] = field(default_factory=set[str])
    """Locks of cards that were found wedged, since the last order."""

    def __post_init__(self) -> None:
        never = Unknown("not looked yet", float("-inf"))
        self.port: Reading[Port] = never
        self.card: Reading[Card] = never
        self.examined: Reading[Health] = NOT_TRIED
        self._looking = self._trying = False
        self._answer_by, self._questions = 0.0, 0
        """How many were put; one that was given up, or asked anew, is answered no more."""
        self._unnamed: dict[str, Reading[int]] = {}
        """What nobody was named for at the last look at each card."""
        self.subject: tuple[int, tuple[str, ...]] | None = None
        """Port and cards that the last look was at."""
        self.setups: dict[str, Reading[None]] = {}
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
        answer = admit(self.state, self._request(verb, launch, drain, replaces, rollback), number, running)
        if not isinstance(answer, Decision):
            return answer
        self.machine.orders[number] = (answer.state.order, "accepted")
        self.state = answer.state
        self.given_up.clear()
        self.launched.clear()
        self.wedged.clear()
        for action in answer.actions:
            self.perform(action)
        return number

    def _request(
        self, verb: Verb, launch: Launch | None, drain: float | None, replaces: bool, rollback: bool
    ) -> Request:
        fallback = None if launch is None else self.machine.fallbacks.get(launch.profile)
        return Request(verb, launch, drain, replaces, rollback, fallback)

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
            port=self._seen(self.port),
            card=self._seen(self._with_baselines()),
            setup=self._setup(),
            backend=machine.backend(),
            server=machine.server(),
            answer=self.answer,
            activity=machine.activity(),
            requests=machine.open_requests(),
            ending=machine.ending(),
            examined=self.examined,
            incidents=tuple(one for one in machine.incidents if machine.record and one.at >= machine.record.spawned_at),
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

    def stand_still(self, seconds: float) -> None:
        """The machine runs nothing, its supervisor included; whose question was under way finds its time over then."""
        self.machine.stand_still(seconds)
        asked = self.answer
        if asked is not None and asked.state is AnswerState.WAITING and self.machine.now >= self._answer_by:
            self.answer, self._questions = Answer(asked.launch_id, AnswerState.LATE, "too late"), self._questions + 1

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
            self.trail.append((after.phase, after.reason))
            if (before.phase, after.phase) not in MOVES:
                self.machine.violations.append(f"illegal move {before.phase} -> {after.phase}")
        self._judge_stand_in(before.order, after.order)
        if after.order.id != before.order.id and after.outcome_of(before.order.id) is None:
            self.machine.violations.append(f"law 9: order {before.order.id} was dropped without a word")
        failure, record = after.failure, self.machine.record
        if failure is not None and failure.deterministic and record is not None:
            self.given_up.add(record.launch)
            if failure.cause is Cause.GPU_WEDGED:
                self.wedged.update(record.launch.locks)

    def _judge_stand_in(self, before: Order, after: Order) -> None:
        """Something stands in at most once for an order, and only where its profile names it. It is written down."""
        if after.stand_in is None or before.stand_in == after.stand_in:
            return
        if after.id == before.id:
            if after.id in self.machine.stand_ins:
                self.machine.violations.append(f"a second stand-in for order {after.id}")
            if after.fallback is None or after.fallback.profile != after.stand_in.profile or not after.committed:
                self.machine.violations.append(f"{after.stand_in} was not what was to stand in")
            self.machine.stand_ins[after.id] = after.stand_in

    # -- acting -------------------------------------------------------------------------------------------------------
    def perform(self, action: Action) -> None:  # noqa: C901 - one line an action
        record = self.machine.record
        match action:
            case TakeLocks(launch=launch):
                self._take_locks(launch)
            case ReleaseLocks():
                self.locks = frozenset()
            case Prepare(launch=launch):
                self._prepare(launch)
            case Look(deep=deep):
                if deep:
                    self._try_card()
                else:
                    self._look()
            case Spawn(launch=launch):
                self._check_launch(launch)
                self.machine.spawn(launch, tuple(self.locks))
            case Terminate(target=target):
                if record is not None:
                    record.stopping = record.stopping or self.state.failure is None
                    self.machine.terminate(record, target)
            case KillEveryone():
                if record is not None:
                    record.stopping = record.stopping or self.state.failure is None
                    self.machine.kill(record)
            case Ask(deadline=deadline):
                if record is not None:
                    self._ask(record, deadline)
            case KeepEvidence(what=what):
                self.machine.evidence.append((record.launch_id if record is not None else "", what))
            case MarkProven():
                if record is not None:
                    record.proven = True
            case KeepBaseline(card=card, used=used):
                self._keep_baseline(card, used)
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
        at, subject = self.machine.now, self._wanted()

        def done() -> None:
            self._looking = False
            self.subject = subject
            self.port = self.machine.look_at_port(at)
            seen = self.machine.look_at_card(at, () if subject is None else subject[1])
            self.card = Known(self._compared(seen.value), seen.at) if isinstance(seen, Known) else seen

        self.machine.later(self.look_delay, done)

    def _compared(self, card: Card) -> Card:
        """A look at the cards, with what the one before had seen."""
        never = Unknown("not looked before", float("-inf"))
        memory = tuple(replace(one, earlier=self._unnamed.get(one.address, never)) for one in card.memory)
        self._unnamed.update({one.address: clean.unattributed(one) for one in memory})
        return replace(card, memory=memory)

    def _with_baselines(self) -> Reading[Card]:
        if isinstance(self.card, Unknown):
            return self.card
        card, known = self.card.value, self.machine.baselines
        memory = tuple(replace(one, baseline=known.get(one.address)) for one in card.memory)
        return Known(replace(card, memory=memory), self.card.at)

    def _keep_baseline(self, card: str, used: int) -> None:
        if self.machine.processes:
            self.machine.violations.append(f"what card {card} has when idle was learnt while something of ours lives")
        if used > clean.DRIVERS_MOST:
            self.machine.violations.append(f"{used} bytes were learnt as the driver's own")
        self.machine.baselines[card] = used

    def _try_card(self) -> None:
        """As with the real one, its time is that of its beginning, and one is made at a time."""
        if self._trying:
            return
        self._trying = True
        at = self.machine.now
        self.machine.trials += 1

        def done() -> None:
            self._trying = False
            self.examined = self.machine.trial(at)

        self.machine.later(self.machine.trial_takes, done)

    def _wanted(self) -> tuple[int, tuple[str, ...]] | None:
        launch = self.machine.record.launch if self.machine.record is not None else self.state.order.wanted
        return None if launch is None else (launch.port, launch.cards)

    def _seen(self, reading: Reading[T]) -> Reading[T]:
        """A look at something else says nothing about the launch in question; one that a test has put there does."""
        if self.subject in (None, self._wanted()):
            return reading
        return Unknown("not looked yet", float("-inf"))

    def _prepare(self, launch: Launch) -> None:
        """As with the real one, the time of a failure is that of its beginning."""
        script, at = launch.setup or "", self.machine.now
        if script not in self.machine.preparing:
            self.machine.preparing.add(script)

            def done() -> None:
                self.machine.preparing.discard(script)
                self.setups[script] = self.machine.setup(at)

            self.machine.later(self.machine.setup_takes, done)

    def _setup(self) -> Reading[None]:
        launch = self.state.order.wanted
        if launch is None or launch.setup is None:
            return Known(None, self.machine.now)
        return self.setups.get(launch.setup, Unknown("not run yet", float("-inf")))

    def _ask(self, record: Record, deadline: float) -> None:
        self.answer = Answer(record.launch_id, AnswerState.WAITING)
        self._answer_by, self._questions = self.machine.now + deadline, self._questions + 1
        question = self._questions
        fate = AnswerState.LATE if self.machine.hung else record.conduct.answer
        delay = deadline if fate is AnswerState.LATE else self.answer_delay

        def answered() -> None:
            if question != self._questions:
                return
            now_hung = self.machine.hung or not self.machine.of(record.launch_id, "main")
            self.answer = Answer(record.launch_id, AnswerState.LATE if now_hung else fate, f"it was {fate.value}")

        self.machine.later(delay, answered)

    def _lock(self) -> Reading[Lock]:
        machine, backend = self.machine, self.machine.backend()
        if "lock" in machine.unreadable:
            return Unknown("/proc/locks cannot be read", machine.now)
        wanted = backend.launch if backend is not None else self.state.order.wanted
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
        self.launched.append((machine.now, launch))
        if launch in self.given_up:
            machine.violations.append(f"law 6: {launch.profile} was launched again, and is bound to fail")
        self._check_card(launch)
        recent = sum(machine.now - at < restart.HOUR for at, one in self.launched if one == launch)
        # The launch, its retries, those after a card that was reset, and the one that a failed switch returns to.
        if recent > launch.restart.per_hour + restart.CARD_FAULTS_PER_HOUR + 2:
            machine.violations.append(f"law 6: {launch.profile} was launched {recent} times within an hour")
        if isinstance(self._setup(), Unknown):
            machine.violations.append(f"{launch.profile} launched without the environment of its setup script")
        if machine.processes:
            machine.violations.append(f"law 1: {launch.profile} launched beside {machine.processes}")
        if not set(launch.locks) <= self.locks:
            machine.violations.append(f"law 3: {launch.profile} launched without its lock")
        if self.subject not in (None, (launch.port, launch.cards)):
            machine.violations.append(f"law 3: {launch.profile} launched on a look at {self.subject}")
        for name, reading in (("port", self.port), ("card", self.card)):
            if not isinstance(reading, Known) or reading.at < self.locked_at:
                machine.violations.append(
                    f"law 3: {launch.profile} launched, and the {name} was not seen since the lock"
                )
        if isinstance(self.port, Known) and (self.port.value.listeners or not self.port.value.bindable):
            machine.violations.append(f"law 2: {launch.profile} launched on a taken port")

    def _check_card(self, launch: Launch) -> None:
        """Nobody else's, in order as far as anybody could see, and not found wedged since the last order."""
        if not set(self.state.doubted).isdisjoint(launch.cards):
            found = self.examined
            if found.at < self.state.doubted_since:
                self.machine.violations.append(f"{launch.profile} was launched on a doubted card that nobody has tried")
            if isinstance(found, Known) and found.value.verdict is Verdict.WEDGED:
                self.machine.violations.append(f"{launch.profile} was launched on a card that does not compute")
        if not self.wedged.isdisjoint(launch.locks):
            self.machine.violations.append(f"{launch.profile} was launched on a wedged card")
        if isinstance(self.card, Known):
            for memory in self.card.value.memory:
                self._check_memory(launch, memory)
            if self.card.value.fault:
                self.machine.violations.append(f"law 3: {launch.profile} launched on a card that does not answer")

    def _check_memory(self, launch: Launch, card: Occupancy) -> None:
        """Nobody who is named has much there, and not much is in use that nobody is named for: counted anew, here."""
        strangers, held = 0, 0
        for holding in card.census.holdings:
            size = clean.DRIVERS_MOST if holding.resident is None else holding.resident
            held += holding.resident or 0
            strangers += 0 if holding.users[0].command in launch.allow_holders else size
        if strangers > launch.allow_memory:
            self.machine.violations.append(f"law 3: {launch.profile} launched on a card held by {card.census.holdings}")
        used = card.census.used
        if isinstance(used, Known):
            idle = self.machine.baselines.get(card.address)
            most = clean.DRIVERS_MOST if idle is None else idle + max(clean.NEAR, launch.allow_memory)
            if used.value - held > most:
                self.machine.violations.append(
                    f"law 7: {launch.profile} launched, and {used.value - held} are nobody's"
                )


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
