"""When a launch has failed for good: what `on_failure` names takes its place, once; and a card that is wedged."""

from dataclasses import replace

import pytest

from arcops.core.action import Look, Spawn
from arcops.core.admit import AlreadySo, Request, Verb, admit
from arcops.core.decide import Decision, decide
from arcops.core.decide.lasting import for_good, may_return
from arcops.core.decide.moves import back_from, failed_outcome, with_offer
from arcops.core.errors import ExitCode
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order, Outcome, StandIn, State
from arcops.core.world import Cause, Ending
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor, serving, supervised

SAFE = launch("safe")
GUARDED = launch("guarded", on_failure="safe", speculates=True, without_draft="plain")
BROKEN = Conduct(dies_after=1.0, deterministic=True)
ENDING = Ending("L1", Cause.BAD_VALUE, "bad value", "look at it", deterministic=True)


def guarded(
    conduct: Conduct, *, fallback: Launch = SAFE, also: dict[str, Conduct] | None = None
) -> tuple[Machine, Supervisor]:
    """A standing order to run `guarded`, as it is read after a boot."""
    machine = Machine()
    machine.conduct.update({"guarded": conduct, **(also or {})})
    machine.fallbacks["guarded"] = fallback
    machine.orders[1] = (Order(1, Goal.RUN, "guarded", GUARDED, fallback=fallback), "committed")
    return machine, Supervisor(machine)


def launched(machine: Machine) -> list[str]:
    return [profile for _, _, profile in machine.spawns]


def outcome(supervisor: Supervisor, number: int) -> Outcome:
    found = supervisor.state.outcome_of(number)
    assert found is not None
    return found


def dies(machine: Machine) -> None:
    """The main process of what runs ends."""
    machine.end(machine.of(machine.spawns[-1][1], "main")[0])


# -- standing in ------------------------------------------------------------------------------------------------------
def test_a_launch_that_is_bound_to_fail_is_replaced_by_what_its_profile_names() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    order = supervisor.state.order
    assert launched(machine) == ["guarded", "safe"]
    assert (order.id, order.profile, order.launch, order.committed) == (1, "guarded", GUARDED, True)
    assert order.wanted == SAFE
    assert order.stand_in is not None
    assert order.stand_in.profile == "safe"
    assert "the same launch would fail again" in order.stand_in.because
    assert ", in place of guarded (guarded ended with exit code 1" in supervisor.state.reason
    assert (supervisor.state.failures, supervisor.state.failure) == ((), None)
    assert machine.violations == []


def test_a_launch_that_fails_too_often_is_replaced_and_what_failed_is_not_held_against_its_stand_in() -> None:
    machine, supervisor = guarded(Conduct(dies_after=5.0))
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    while launched(machine)[-1] == "guarded":
        supervisor.step()
    assert launched(machine) == ["guarded"] * (GUARDED.restart.per_hour + 1) + ["safe"]
    supervisor.until(Phase.SERVING)
    dies(machine)
    supervisor.until(Phase.BACKOFF)
    assert "attempt 2" in supervisor.state.reason
    assert ", in place of guarded" in supervisor.state.reason
    supervisor.until(Phase.SERVING)
    assert launched(machine)[-2:] == ["safe", "safe"]
    assert machine.violations == []


def test_a_draft_that_is_to_blame_gets_no_second_try_where_something_can_stand_in() -> None:
    machine, supervisor = guarded(Conduct(dies_after=1.0, points_at_draft=True))
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "safe"]


def test_a_draft_that_is_to_blame_is_tried_again_where_nothing_can_stand_in_and_the_way_out_is_offered() -> None:
    machine, supervisor = supervised(conduct={"guarded": Conduct(dies_after=1.0, points_at_draft=True)})
    machine.orders[1] = (Order(1, Goal.RUN, "guarded", GUARDED), "committed")
    supervisor = Supervisor(machine)
    offer = "`arcops switch plain` is the same launch without the draft"
    for phase in (Phase.BACKOFF, Phase.FAILED):
        supervisor.until(phase, within=3600.0)
        failure = supervisor.state.failure
        assert failure is not None
        assert failure.hint == f"see `arcops logs`; {offer}"
        assert offer in supervisor.state.reason


def test_one_failure_by_chance_calls_nobody_in() -> None:
    machine, supervisor = guarded(Conduct())
    supervisor.until(Phase.SERVING)
    dies(machine)
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "guarded"]


def test_what_stands_in_and_fails_too_leaves_both_reasons_and_the_latch() -> None:
    machine, supervisor = guarded(BROKEN, also={"safe": BROKEN})
    supervisor.until(Phase.FAILED)
    supervisor.run(3600.0, step=10.0)
    assert launched(machine) == ["guarded", "safe"]
    reason = supervisor.state.reason
    assert reason.startswith("safe ended with exit code 1")
    assert "it stood in for guarded, which had failed before: guarded ended with exit code 1" in reason
    assert reason.count("guarded ended") == 1
    assert machine.violations == []


def test_a_setup_script_that_fails_calls_the_stand_in_too() -> None:
    machine = Machine()
    scripted = launch("guarded", setup="/opt/setvars.sh")
    machine.setup_fails = "no oneAPI here"
    machine.orders[1] = (Order(1, Goal.RUN, "guarded", scripted, fallback=SAFE), "committed")
    supervisor = Supervisor(machine)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["safe"]
    assert supervisor.state.order.stand_in == StandIn("safe", "no oneAPI here")
    assert machine.violations == []


def test_a_switch_whose_setup_script_fails_on_the_way_is_told_that_its_stand_in_is_started() -> None:
    machine, supervisor = serving()
    machine.fallbacks["guarded"] = SAFE
    machine.setup_fails = "no oneAPI here"
    number = supervisor.switch(launch("guarded", setup="/opt/setvars.sh"), rollback=False)
    assert isinstance(number, int)
    supervisor.until(Phase.CLEARING)
    supervisor.until(Phase.SERVING)
    told = outcome(supervisor, number)
    assert told.exit_code is ExitCode.INVALID
    assert told.hint == "see `arcops profile check`; safe is started in its place (on_failure)"
    assert (launched(machine), machine.violations) == (["alpha", "safe"], [])


@pytest.mark.parametrize("phase", [Phase.BLOCKED, Phase.BACKOFF])
def test_a_setup_script_that_fails_later_calls_the_stand_in_from_wherever_it_waits(phase: Phase) -> None:
    machine = Machine()
    scripted = launch("guarded", setup="/opt/setvars.sh")
    machine.orders[1] = (Order(1, Goal.RUN, "guarded", scripted, fallback=SAFE), "committed")
    supervisor = Supervisor(machine)
    if phase is Phase.BACKOFF:
        supervisor.until(Phase.SERVING)
        dies(machine)
    else:
        machine.residue = True
    supervisor.until(phase)
    supervisor.setups.clear()
    machine.residue, machine.setup_fails = False, "no oneAPI here"
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    assert (launched(machine)[-1], machine.violations) == ("safe", [])


# -- orders -----------------------------------------------------------------------------------------------------------
def test_a_restart_tries_what_was_ordered_and_keeps_it_if_it_serves() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    machine.conduct.clear()
    assert supervisor.restart() == 2
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "safe", "guarded"]
    assert (supervisor.state.order.stand_in, outcome(supervisor, 2).exit_code) == (None, ExitCode.DONE)


@pytest.mark.parametrize("dies_meanwhile", [False, True])
def test_a_restart_that_fails_goes_back_to_what_stood_in(dies_meanwhile: bool) -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    supervisor.restart()
    supervisor.until(Phase.STARTING)
    if dies_meanwhile:
        supervisor.die()
        supervisor = Supervisor(machine)
    supervisor.until(Phase.CLEARING)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "safe", "guarded", "safe"]
    told = outcome(supervisor, 2)
    assert (told.exit_code, told.returned_to) == (ExitCode.BACKEND_FAILED, "safe")
    assert (supervisor.state.order.id, supervisor.state.order.wanted) == (1, SAFE)
    assert "(back after order 2: guarded: " in supervisor.state.reason
    assert machine.violations == []


def test_a_restart_after_both_have_failed_tries_both_again() -> None:
    machine, supervisor = guarded(BROKEN, also={"safe": BROKEN})
    supervisor.until(Phase.FAILED)
    assert supervisor.restart() == 2
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.FAILED)
    assert launched(machine) == ["guarded", "safe"] * 2
    told = outcome(supervisor, 2)
    assert (told.exit_code, told.returned_to) == (ExitCode.BACKEND_FAILED, None)
    assert told.hint == "see `arcops logs`; safe is started in its place (on_failure)"


def test_a_switch_with_a_way_back_takes_it_and_nobody_stands_in() -> None:
    machine, supervisor = serving(conduct={"guarded": BROKEN})
    machine.fallbacks["guarded"] = SAFE
    supervisor.switch(GUARDED)
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["alpha", "guarded", "alpha"]
    assert "in its place" not in outcome(supervisor, 2).hint


@pytest.mark.parametrize("first", [False, True])
def test_a_switch_without_a_way_back_is_told_that_its_stand_in_is_started(first: bool) -> None:
    machine, supervisor = supervised() if first else serving()
    machine.conduct["guarded"] = Conduct(dies_after=1.0)
    machine.fallbacks["guarded"] = SAFE
    number = supervisor.switch(GUARDED, rollback=False)
    assert isinstance(number, int)
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    told = outcome(supervisor, number)
    assert (told.exit_code, told.returned_to) == (ExitCode.BACKEND_FAILED, None)
    assert "safe is started in its place (on_failure)" in told.hint
    assert launched(machine)[-2:] == ["guarded", "safe"]
    assert (supervisor.state.order.id, supervisor.state.order.committed) == (number, True)
    assert machine.violations == []


def test_what_stands_in_becomes_the_order_without_a_restart_when_it_is_ordered() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    assert supervisor.switch(SAFE) == 2
    supervisor.run(60.0)
    order = supervisor.state.order
    assert (order.id, order.profile, order.stand_in, order.committed) == (2, "safe", None, True)
    assert outcome(supervisor, 2).exit_code is ExitCode.DONE
    assert (launched(machine), machine.signals[2:]) == (["guarded", "safe"], machine.signals[2:])
    assert len([one for one in machine.signals if one[1] == "L2"]) == 0
    assert isinstance(supervisor.switch(SAFE), AlreadySo)
    supervisor.die()
    supervisor = Supervisor(machine)
    supervisor.until(Phase.SERVING)
    assert (supervisor.state.order.id, launched(machine)) == (2, ["guarded", "safe"])
    dies(machine)
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "safe", "safe"]


def test_what_becomes_the_order_by_being_ordered_is_to_blame_for_itself_from_then_on() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    dies(machine)
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    assert len(supervisor.state.failures) == 1
    supervisor.switch(SAFE)
    assert supervisor.state.failures == ()
    machine.let_go()
    machine.record = None
    supervisor.until(Phase.BACKOFF)
    assert "its record is gone; attempt 2 in" in supervisor.state.reason


def test_an_edited_stand_in_that_is_ordered_is_launched_anew() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    supervisor.switch(replace(SAFE, argv=("vllm", "serve", "edited")))
    supervisor.until(Phase.STOPPING, Phase.DRAINING)
    supervisor.until(Phase.SERVING)
    assert (supervisor.state.order.profile, launched(machine)[-1]) == ("safe", "safe")


def test_a_stop_ends_what_stands_in() -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    supervisor.stop()
    supervisor.until(Phase.STOPPED)
    assert machine.processes == {}
    assert supervisor.state.reason == "stopped as ordered"


# -- the next supervisor ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("unread", [False, True])
def test_the_next_supervisor_goes_on_with_what_stands_in(unread: bool) -> None:
    machine, supervisor = guarded(BROKEN)
    supervisor.until(Phase.SERVING)
    signals = len(machine.signals)
    supervisor.die()
    supervisor = Supervisor(machine)
    if unread:
        order = replace(supervisor.state.order, launch=None, fallback=None, resolving=True)
        supervisor.state = replace(supervisor.state, order=order)
    supervisor.until(Phase.SERVING)
    assert (launched(machine), len(machine.signals)) == (["guarded", "safe"], signals)
    order = supervisor.state.order
    assert (order.wanted, order.profile, order.resolving) == (SAFE, "guarded", unread)
    dies(machine)
    if unread:
        supervisor.until(Phase.CLEARING)
        supervisor.run(5.0)
        assert supervisor.state.phase is Phase.CLEARING, "until the profiles were read"
        read = replace(supervisor.state.order, launch=GUARDED, resolving=False)
        supervisor.state = replace(supervisor.state, order=read)
    supervisor.until(Phase.BACKOFF)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "safe", "safe"]
    assert machine.violations == []


def test_a_stand_in_that_cannot_be_read_any_more_is_latched_by_its_name() -> None:
    machine, supervisor = supervised()
    order = Order(1, Goal.RUN, "guarded", GUARDED, stand_in=StandIn("safe", "bad value"))
    machine.orders[1], machine.stand_ins[1] = (order, "committed"), StandIn("safe", "bad value")
    supervisor = Supervisor(machine)
    resolving = replace(supervisor.state, order=replace(order, resolving=True))
    assert decide(resolving, supervisor.world()).state.reason == "reading profile safe"
    supervisor.until(Phase.FAILED)
    assert supervisor.state.reason == "profile safe cannot be resolved, in place of guarded (bad value)"


# -- a card that is wedged --------------------------------------------------------------------------------------------
WEDGES = Conduct(dies_after=1.0, wedges=True)


def test_a_wedged_card_latches_and_nothing_runs_there_until_it_is_ordered() -> None:
    machine, supervisor = guarded(WEDGES)
    supervisor.until(Phase.WEDGED)
    supervisor.run(3600.0, step=10.0)
    assert (supervisor.state.phase, launched(machine), supervisor.locks) == (Phase.WEDGED, ["guarded"], frozenset())
    assert supervisor.state.order.stand_in is None
    failure = supervisor.state.failure
    assert failure is not None
    assert failure.cause is Cause.GPU_WEDGED
    machine.conduct.clear()
    assert supervisor.restart() == 2
    supervisor.until(Phase.SERVING)
    assert machine.violations == []


def test_a_stand_in_on_another_card_does_not_mind_that_one_is_wedged() -> None:
    other = launch("other", port=8001, locks=("/card/1",), cards=("0000:04:00.0",))
    machine, supervisor = guarded(WEDGES, fallback=other)
    supervisor.until(Phase.SERVING)
    assert launched(machine) == ["guarded", "other"]
    assert machine.violations == []


def test_a_switch_that_wedges_the_card_does_not_go_back_on_it() -> None:
    machine, supervisor = serving(conduct={"beta": WEDGES})
    supervisor.switch(launch("beta"))
    supervisor.until(Phase.WEDGED)
    supervisor.run(600.0, step=10.0)
    told = outcome(supervisor, 2)
    assert (told.exit_code, told.returned_to) == (ExitCode.WEDGED, "alpha")
    assert told.hint == "see `arcops logs`; alpha is ordered again, and not started: it needs the same card"
    assert (supervisor.state.order.profile, launched(machine)) == ("alpha", ["alpha", "beta"])
    assert "alpha is ordered again, and not started" in supervisor.state.reason
    machine.conduct.clear()
    assert supervisor.restart() == 3
    supervisor.until(Phase.SERVING)
    assert (launched(machine), machine.violations) == (["alpha", "beta", "alpha"], [])


def test_a_switch_that_wedges_another_card_goes_back() -> None:
    other = launch("other", port=8001, locks=("/card/1",), cards=("0000:04:00.0",))
    machine, supervisor = serving(conduct={"other": WEDGES})
    supervisor.switch(other)
    supervisor.until(Phase.STARTING)
    supervisor.until(Phase.SERVING)
    assert (launched(machine), machine.violations) == (["alpha", "other", "alpha"], [])
    assert outcome(supervisor, 2).exit_code is ExitCode.WEDGED


def test_a_first_switch_that_wedges_the_card_stands_and_is_latched() -> None:
    machine, supervisor = supervised(conduct={"beta": WEDGES})
    machine.fallbacks["beta"] = SAFE
    supervisor.switch(launch("beta", on_failure="safe"))
    supervisor.until(Phase.WEDGED)
    assert (outcome(supervisor, 1).exit_code, outcome(supervisor, 1).hint) == (ExitCode.WEDGED, "see `arcops logs`")
    assert (supervisor.state.order.committed, launched(machine)) == (True, ["beta"])


def test_an_order_that_is_refused_leaves_the_wedge_as_it_is() -> None:
    machine, supervisor = guarded(WEDGES)
    supervisor.until(Phase.WEDGED)
    machine.silent_card = "card 0000:03:00.0 does not answer: rebind it"
    assert supervisor.restart() == 2
    supervisor.run(10.0)
    assert (supervisor.state.phase, supervisor.state.order.id) == (Phase.WEDGED, 1)
    told = outcome(supervisor, 2)
    assert told.exit_code is ExitCode.WEDGED
    assert "card 0000:03:00.0 does not answer: rebind it" in told.summary
    machine.silent_card = ""
    machine.conduct.clear()
    assert supervisor.restart() == 3
    supervisor.until(Phase.SERVING)
    assert machine.violations == []


@pytest.mark.parametrize("cause", [Cause.GPU_WEDGED, Cause.DEVICE_LOST])
def test_whether_to_go_back_where_nobody_knows_the_cards_yet(cause: Cause) -> None:
    ending = replace(ENDING, cause=cause)
    unread = Order(1, Goal.RUN, "alpha", resolving=True)
    known = Order(1, Goal.RUN, "alpha", launch("alpha"))
    expected = cause is Cause.DEVICE_LOST
    assert may_return(unread, Order(2, Goal.RUN, "beta", launch("beta")), ending) is expected
    assert may_return(known, Order(2, Goal.RUN, "beta", problem="gone"), ending) is expected


# -- a card that is lost and comes back -------------------------------------------------------------------------------
def test_a_lost_device_is_waited_for_and_launched_on_by_itself_once_it_answers() -> None:
    machine, supervisor = serving()
    dies(machine)
    supervisor.until(Phase.BACKOFF)
    # The look of before it fell silent is quite new, and is not believed.
    machine.silent_card = "card 0000:03:00.0 does not answer (ENODEV)"
    looked = False
    while supervisor.state.phase is Phase.BACKOFF:
        looked = any(isinstance(action, Look) for action in supervisor.step(0.05).actions) or looked
    assert (supervisor.state.phase, looked) == (Phase.BLOCKED, True)
    supervisor.run(7200.0, step=1.0)
    assert (supervisor.state.phase, len(machine.spawns)) == (Phase.BLOCKED, 1)
    assert "does not answer (ENODEV)" in supervisor.state.reason
    machine.silent_card = ""
    supervisor.until(Phase.SERVING, within=30.0)
    assert machine.violations == []


# -- words ------------------------------------------------------------------------------------------------------------
def test_the_offer_is_made_once_and_only_where_there_is_one() -> None:
    order = Order(1, Goal.RUN, "guarded", GUARDED)
    to_blame = replace(ENDING, points_at_draft=True)
    offered = with_offer(order, to_blame)
    assert offered.hint == "look at it; `arcops switch plain` is the same launch without the draft"
    assert with_offer(order, offered) == offered
    assert with_offer(order, replace(to_blame, hint="")).hint.startswith("`arcops switch plain`")
    assert with_offer(order, ENDING) == ENDING
    assert with_offer(replace(order, launch=SAFE), to_blame) == to_blame
    assert with_offer(replace(order, launch=None), to_blame) == to_blame


def test_the_reason_of_what_stands_in_says_for_whom_and_why() -> None:
    order = Order(1, Goal.RUN, "guarded", GUARDED, fallback=SAFE)
    assert back_from(State(order=order)) == ""
    standing = State(order=replace(order, stand_in=StandIn("safe", "x" * 300)))
    assert back_from(standing) == f", in place of guarded ({'x' * 99}…)"


@pytest.mark.parametrize("cause", [Cause.GPU_WEDGED, Cause.BAD_VALUE])
def test_the_exit_code_tells_a_wedged_card_from_a_failed_backend(cause: Cause) -> None:
    told = failed_outcome(Order(1, Goal.RUN, "guarded", GUARDED), replace(ENDING, cause=cause), None)
    assert told.exit_code is (ExitCode.WEDGED if cause is Cause.GPU_WEDGED else ExitCode.BACKEND_FAILED)


def test_standing_in_is_no_move_of_its_own_and_nothing_is_spawned_by_it() -> None:
    order = Order(1, Goal.RUN, "guarded", GUARDED, fallback=SAFE)
    state = State(Phase.CLEARING, order=order, failure=ENDING, failures=(1.0,), asked_at=3.0)
    decision = for_good(state, supervised()[1].world(), ENDING, "bad value")
    assert (decision.state.phase, decision.actions) == (Phase.CLEARING, ())
    assert (decision.state.failure, decision.state.failures, decision.state.asked_at) == (None, (), None)
    assert not any(isinstance(action, Spawn) for action in decision.actions)


def test_a_restart_names_the_ordered_profile_while_another_stands_in() -> None:
    order = Order(1, Goal.RUN, "guarded", GUARDED, fallback=SAFE, stand_in=StandIn("safe", "bad value"))
    state = State(Phase.SERVING, order=order)
    answer = admit(state, Request(Verb.RESTART, GUARDED, fallback=SAFE), 9, "L1")
    assert isinstance(answer, Decision)
    accepted = answer.state.order
    assert (accepted.wanted, accepted.fallback, accepted.stand_in, accepted.returns) == (GUARDED, SAFE, None, True)
    assert accepted.previous == order
