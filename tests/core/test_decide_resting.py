"""What a launch needs beforehand: the environment of its setup script, made before the look and never within a turn."""

from dataclasses import replace

import pytest

from arcops.core.action import Prepare, Spawn
from arcops.core.decide import decide
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.state import Goal, Order
from tests.core.simulated import Machine, holder, launch
from tests.core.supervised import Supervisor, serving, supervised

SCRIPTED = launch("alpha", setup="/opt/setvars.sh")


def test_a_setup_script_is_run_once_and_before_the_launch() -> None:
    machine, supervisor = supervised()
    supervisor.switch(SCRIPTED)
    seen: list[type] = []
    while supervisor.state.phase is not Phase.SERVING:
        seen += [type(action) for action in supervisor.step(0.05).actions]
    assert seen.index(Prepare) < seen.index(Spawn)
    machine.end(machine.of("L1", "main")[0])
    supervisor.run(0.5)
    supervisor.until(Phase.SERVING)
    assert (len(machine.spawns), machine.violations) == (2, [])


def test_a_script_that_takes_long_holds_up_nothing_and_the_look_is_still_new_at_the_launch() -> None:
    machine, supervisor = supervised()
    machine.setup_takes = 50.0
    supervisor.switch(SCRIPTED)
    supervisor.run(40.0)
    assert (supervisor.state.phase, supervisor.state.reason) == (
        Phase.STOPPED,
        "running the setup script /opt/setvars.sh",
    )
    supervisor.stop()
    supervisor.run(0.5)
    assert supervisor.state.outcome_of(2) is not None, "a stop does not wait for the script"
    supervisor.switch(SCRIPTED)
    supervisor.until(Phase.SERVING, within=70.0)
    assert (len(machine.spawns), machine.violations) == (1, [])


def test_a_switch_whose_setup_script_fails_is_refused_in_the_scripts_words() -> None:
    machine, supervisor = serving()
    machine.setup_fails = "the set-up script fails with exit code 3: no oneAPI here"
    number = supervisor.switch(launch("beta", setup="/opt/setvars.sh"))
    assert isinstance(number, int)
    supervisor.run(2.0)
    supervisor.until(Phase.SERVING)
    outcome = supervisor.state.outcome_of(number)
    assert outcome is not None
    assert (outcome.exit_code, outcome.returned_to) == (ExitCode.INVALID, "alpha")
    assert "no oneAPI here" in outcome.summary
    assert [profile for _, _, profile in machine.spawns] == ["alpha", "alpha"]


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.BLOCKED, Phase.BACKOFF])
def test_a_standing_order_whose_setup_script_fails_is_latched_with_the_scripts_words(phase: Phase) -> None:
    machine = Machine()
    machine.orders[1] = (Order(1, Goal.RUN, "alpha", SCRIPTED), "committed")
    supervisor = Supervisor(machine)
    if phase is Phase.BACKOFF:
        supervisor.until(Phase.SERVING)
        supervisor.setups.clear()
        machine.end(machine.of("L1", "main")[0])
        supervisor.until(Phase.BACKOFF)
    elif phase is Phase.BLOCKED:
        machine.residue = True
        supervisor.until(Phase.BLOCKED)
        machine.residue = False
        supervisor.setups.clear()
    machine.setup_fails = "no oneAPI here"
    spawned = len(machine.spawns)
    supervisor.until(Phase.FAILED, within=30.0)
    supervisor.run(60.0)
    assert (supervisor.state.phase, supervisor.locks) == (Phase.FAILED, frozenset())
    failure = supervisor.state.failure
    assert failure is not None
    assert (failure.cause.value, failure.summary) == ("spawn_failed", "no oneAPI here")
    assert (len(machine.spawns), machine.violations) == (spawned, [])
    machine.setup_fails = ""
    supervisor.restart()
    supervisor.until(Phase.SERVING)


@pytest.mark.parametrize("ordered", ["alpha", "beta"])
def test_a_backend_whose_end_was_asked_for_by_an_earlier_supervisor_is_ended_and_nothing_has_failed(
    ordered: str,
) -> None:
    machine, _ = serving()
    machine.orders[2] = (Order(2, Goal.RUN, ordered, launch(ordered)), "committed")
    supervisor = Supervisor(machine)
    world, backend = supervisor.world(), machine.backend()
    assert backend is not None
    decision = decide(supervisor.state, replace(world, backend=replace(backend, stopping=True)))
    assert (decision.state.phase, decision.state.failure) == (Phase.STOPPING, None)
    why = "launch L1 was being stopped; it is launched anew" if ordered == "alpha" else "ordered to switch to beta"
    assert decision.state.reason == why


@pytest.mark.parametrize(
    ("trouble", "todo"),
    [
        ({"silent_card": "the card does not answer"}, "bring the card back"),
        ({"foreign_listener": holder("port 8000")}, "end the holder"),
        ({"unreadable": {"lock"}}, "see to it that arcops can look there"),
    ],
)
@pytest.mark.parametrize("stands", [False, True], ids=["refused", "it stands and waits"])
def test_what_is_to_be_done_fits_what_is_in_the_way(trouble: dict[str, object], todo: str, stands: bool) -> None:
    machine, supervisor = serving()
    order = supervisor.switch(launch("beta"), rollback=not stands)
    assert isinstance(order, int)
    supervisor.until(Phase.STOPPING, Phase.CLEARING)
    for name, value in trouble.items():
        setattr(machine, name, value)
    while supervisor.state.outcome_of(order) is None:
        supervisor.step()
    outcome = supervisor.state.outcome_of(order)
    assert outcome is not None
    assert outcome.hint == todo + (", and it goes ahead; or order something else" if stands else ", then try again")
