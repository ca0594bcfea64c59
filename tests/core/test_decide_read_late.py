"""A new supervisor reads profiles beside its loop: what `on_failure` names may be known only after the latch fell."""

from dataclasses import replace

import pytest

from arcops.core.action import Spawn
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order
from tests.core.simulated import Conduct, Machine, launch
from tests.core.supervised import Supervisor

SAFE = launch("safe")
ELSEWHERE = launch("safe", port=8001, locks=("/card/1",), cards=("0000:04:00.0",))
GUARDED = launch("guarded", on_failure="safe")
FOR_GOOD = Conduct(dies_after=1.0, deterministic=True)
WEDGES = Conduct(dies_after=1.0, wedges=True)


def latched(conduct: Conduct, phase: Phase, ordered: Launch = GUARDED) -> tuple[Machine, Supervisor]:
    """A supervisor whose launch has failed for good before anybody could read what stands in for it."""
    machine = Machine()
    machine.conduct["guarded"] = conduct
    machine.orders[1] = (Order(1, Goal.RUN, "guarded", ordered), "committed")
    supervisor = Supervisor(machine)
    supervisor.until(phase)
    return machine, supervisor


def read(supervisor: Supervisor, fallback: Launch | None = None, *, unguarded: str = "") -> None:
    """The profile was read: this stands in, or nothing can."""
    order = replace(supervisor.state.order, fallback=fallback, unguarded=unguarded)
    supervisor.state = replace(supervisor.state, order=order)


def launched(machine: Machine) -> list[str]:
    return [profile for _, _, profile in machine.spawns]


def test_what_stands_in_is_launched_though_it_was_read_only_after_the_latch_fell() -> None:
    machine, supervisor = latched(FOR_GOOD, Phase.FAILED)
    supervisor.run(3600.0, step=1.0)
    assert (launched(machine), supervisor.locks) == (["guarded"], frozenset())
    read(supervisor, SAFE)
    decision = supervisor.step()
    assert decision.state.phase is Phase.STOPPED
    assert "safe takes its place, as its on_failure says" in decision.state.reason
    assert not any(isinstance(action, Spawn) for action in decision.actions), "lock, port and card are looked at first"
    supervisor.until(Phase.SERVING)
    order = supervisor.state.order
    assert order.stand_in is not None
    assert (order.id, order.profile, order.stand_in.profile) == (1, "guarded", "safe")
    assert order.stand_in.because == "guarded ended with exit code 1"
    assert (launched(machine), supervisor.state.failures) == (["guarded", "safe"], ())
    assert machine.violations == []


def test_it_stands_in_once() -> None:
    machine, supervisor = latched(FOR_GOOD, Phase.FAILED)
    machine.conduct["safe"] = FOR_GOOD
    read(supervisor, SAFE)
    supervisor.step()
    supervisor.until(Phase.FAILED)
    supervisor.run(3600.0, step=1.0)
    assert launched(machine) == ["guarded", "safe"]
    assert "it stood in for guarded, which had failed before" in supervisor.state.reason
    assert not supervisor.state.fallback_awaited


def test_where_it_turns_out_that_nothing_can_stand_in_the_latch_holds() -> None:
    machine, supervisor = latched(FOR_GOOD, Phase.FAILED)
    read(supervisor, unguarded="on_failure of guarded cannot stand in: no such model")
    supervisor.run(600.0, step=1.0)
    assert (supervisor.state.phase, launched(machine)) == (Phase.FAILED, ["guarded"])


@pytest.mark.parametrize("named_when_it_failed", [False, True])
def test_what_a_profile_did_not_name_when_it_failed_waits_for_an_order(named_when_it_failed: bool) -> None:
    ordered = GUARDED if named_when_it_failed else launch("guarded")
    machine, supervisor = latched(FOR_GOOD, Phase.FAILED, ordered)
    assert supervisor.state.fallback_awaited is named_when_it_failed
    read(supervisor, SAFE)
    supervisor.run(60.0)
    assert launched(machine) == (["guarded", "safe"] if named_when_it_failed else ["guarded"])


@pytest.mark.parametrize(("fallback", "runs"), [(SAFE, False), (ELSEWHERE, True)], ids=["same card", "another card"])
def test_on_a_wedged_card_nothing_is_launched_whenever_it_was_read(fallback: Launch, runs: bool) -> None:
    machine, supervisor = latched(WEDGES, Phase.WEDGED)
    read(supervisor, fallback)
    supervisor.run(60.0)
    assert supervisor.state.phase is (Phase.SERVING if runs else Phase.WEDGED)
    assert launched(machine) == (["guarded", "safe"] if runs else ["guarded"])
    assert machine.violations == []


def test_an_order_in_between_is_what_counts() -> None:
    machine, supervisor = latched(FOR_GOOD, Phase.FAILED)
    supervisor.stop()
    supervisor.step()
    read(supervisor, SAFE)
    supervisor.run(60.0)
    assert (supervisor.state.phase, launched(machine)) == (Phase.STOPPED, ["guarded"])
    assert not supervisor.state.fallback_awaited


def test_a_failure_that_is_tried_again_waits_for_no_profile_to_be_read() -> None:
    """A home directory that hangs must not keep a backend down that can be started without it."""
    machine, supervisor = latched(Conduct(dies_after=1.0), Phase.BACKOFF)
    supervisor.until(Phase.STARTING)
    assert launched(machine) == ["guarded", "guarded"]
