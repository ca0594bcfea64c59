"""Which orders are taken, which are refused, and what an accepted one keeps in mind."""

from dataclasses import replace

import pytest

from arcops.core.action import Settle
from arcops.core.admit import UNDER_WAY, AlreadySo, Refusal, Request, Verb, admit
from arcops.core.decide import Decision
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.state import NOTHING_ORDERED, Goal, Order, Outcome, State, Stopping
from arcops.core.world import Cause, Ending
from tests.core.simulated import launch

ALPHA, BETA = launch("alpha"), launch("beta")
RUN_ALPHA = Order(1, Goal.RUN, "alpha", ALPHA)
SWITCHING = Order(2, Goal.RUN, "beta", BETA, committed=False, previous=RUN_ALPHA, returns=True)
STOPPING = Order(2, Goal.STOP, committed=False)
SERVING = State(phase=Phase.SERVING, order=RUN_ALPHA)
DETERMINISTIC = Ending("L1", Cause.BAD_VALUE, "bad", "", deterministic=True)


def accepted(state: State, request: Request, running: str | None = "L1") -> State:
    answer = admit(state, request, 9, running)
    assert isinstance(answer, Decision)
    assert answer.state.order.id == 9
    return answer.state


@pytest.mark.parametrize("verb", [Verb.SWITCH, Verb.RESTART])
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase in UNDER_WAY])
def test_a_second_order_is_refused_by_name_unless_it_replaces(phase: Phase, verb: Verb) -> None:
    state = State(phase=phase, order=SWITCHING, reason="launching beta")
    answer = admit(state, Request(verb, BETA), 9, None)
    assert isinstance(answer, Refusal)
    assert answer.exit_code is ExitCode.BUSY
    assert f"{phase.value} (beta: launching beta)" in answer.reason
    assert accepted(state, Request(verb, BETA, replace=True)).order.launch == BETA


def test_an_order_that_was_just_accepted_is_under_way_in_any_phase() -> None:
    assert isinstance(admit(replace(SERVING, order=SWITCHING), Request(Verb.SWITCH, ALPHA), 9, "L1"), Refusal)


@pytest.mark.parametrize("phase", list(Phase))
def test_a_stop_is_taken_in_every_phase(phase: Phase) -> None:
    for order in (RUN_ALPHA, SWITCHING, STOPPING):
        after = accepted(State(phase=phase, order=order), Request(Verb.STOP, drain=3.0)).order
        assert (after.goal, after.drain, after.committed, after.replaces) == (Goal.STOP, 3.0, False, "L1")


def test_what_is_stopped_is_already_stopped_but_not_while_something_runs() -> None:
    assert isinstance(admit(State(), Request(Verb.STOP), 9, None), AlreadySo)
    assert isinstance(admit(State(), Request(Verb.STOP), 9, "L1"), Decision)


def test_what_serves_already_is_not_switched_to() -> None:
    answer = admit(SERVING, Request(Verb.SWITCH, ALPHA), 9, "L1")
    assert answer == AlreadySo("alpha serves already")
    edited = launch("alpha", argv=("vllm", "serve", "alpha", "--max-num-seqs", "2"))
    assert accepted(SERVING, Request(Verb.SWITCH, edited)).order.replaces == "L1"
    assert isinstance(admit(SERVING, Request(Verb.SWITCH, ALPHA), 9, None), Decision)


def test_a_switch_needs_a_profile_and_a_restart_something_to_restart() -> None:
    switch, restart = (
        admit(SERVING, Request(Verb.SWITCH), 9, None),
        admit(State(), Request(Verb.RESTART, ALPHA), 9, None),
    )
    assert isinstance(switch, Refusal)
    assert isinstance(restart, Refusal)
    assert (switch.exit_code, restart.exit_code) == (ExitCode.USAGE, ExitCode.NOT_RUNNING)
    assert isinstance(admit(SERVING, Request(Verb.RESTART), 9, "L1"), Refusal)


def test_a_switch_remembers_where_to_go_back_to() -> None:
    order = accepted(SERVING, Request(Verb.SWITCH, BETA)).order
    assert (order.previous, order.returns, order.committed) == (RUN_ALPHA, True, False)
    assert not accepted(SERVING, Request(Verb.SWITCH, BETA, rollback=False)).order.returns


@pytest.mark.parametrize(
    ("state", "previous", "returns"),
    [
        (SERVING, RUN_ALPHA, True),
        (replace(SERVING, phase=Phase.BACKOFF), RUN_ALPHA, True),
        (replace(SERVING, phase=Phase.BLOCKED), RUN_ALPHA, True),
        (replace(SERVING, phase=Phase.FAILED), RUN_ALPHA, False),
        (replace(SERVING, phase=Phase.WEDGED), RUN_ALPHA, False),
        (replace(SERVING, phase=Phase.STOPPING, failure=DETERMINISTIC), RUN_ALPHA, False),
        (State(), replace(NOTHING_ORDERED), False),
        (replace(SERVING, order=SWITCHING), RUN_ALPHA, True),
        (replace(SERVING, order=replace(SWITCHING, returns=False)), RUN_ALPHA, False),
        (replace(SERVING, order=replace(SWITCHING, previous=None)), NOTHING_ORDERED, True),
        (replace(SERVING, order=STOPPING), replace(STOPPING, committed=True), False),
    ],
)
def test_only_what_would_run_again_is_gone_back_to(state: State, previous: Order, returns: bool) -> None:
    order = accepted(state, Request(Verb.SWITCH, launch("gamma"), replace=True)).order
    assert (order.previous, order.returns) == (previous, returns)


def test_what_is_overtaken_is_told_so_once() -> None:
    answer = admit(replace(SERVING, order=SWITCHING), Request(Verb.STOP), 9, "L1")
    assert isinstance(answer, Decision)
    told = Outcome(2, ExitCode.FAILED, "overtaken by the order to stop", superseded=True)
    assert answer.actions == (Settle(told, stands=False),)
    again = admit(replace(SERVING, order=SWITCHING, settled=(told,)), Request(Verb.STOP), 9, "L1")
    assert isinstance(again, Decision)
    assert again.actions == ()


def test_a_stop_that_is_overtaken_stays_written_down_as_what_to_fall_back_to() -> None:
    answer = admit(State(phase=Phase.STOPPING, order=STOPPING), Request(Verb.SWITCH, BETA, replace=True), 9, "L1")
    assert isinstance(answer, Decision)
    assert [action.stands for action in answer.actions if isinstance(action, Settle)] == [True]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_failure_is_not_held_against_a_new_order_but_stays_on_record_where_it_may_be_refused(phase: Phase) -> None:
    state = State(phase=phase, order=RUN_ALPHA, failure=DETERMINISTIC, failures=(1.0,), retry_at=7.0)
    after = accepted(state, Request(Verb.STOP))
    assert (after.failure is not None) == (phase in (Phase.FAILED, Phase.WEDGED, Phase.BACKOFF))
    assert (after.failures, after.retry_at, after.phase) == ((1.0,), 7.0, phase)


def test_a_new_order_asks_for_another_try_where_something_is_stuck() -> None:
    stopping = Stopping(began=1.0)
    assert accepted(State(phase=Phase.STUCK, stopping=stopping), Request(Verb.STOP)).stopping is None
    assert accepted(State(phase=Phase.STOPPING, stopping=stopping), Request(Verb.STOP)).stopping == stopping


def test_fresh_caches_are_of_the_order_that_asks_for_them_and_of_no_standing_one() -> None:
    fresh = accepted(SERVING, Request(Verb.RESTART, ALPHA, fresh_caches=True))
    assert fresh.order.fresh_caches
    assert not fresh.order.committed
    assert fresh.order.previous == RUN_ALPHA
    assert not accepted(SERVING, Request(Verb.RESTART, ALPHA)).order.fresh_caches
