"""What is asked before something is done."""

import msgspec
import pytest

from arcops import wire
from arcops.core.rates import Rates
from arcops.tui import questions
from arcops.tui.snapshot import Snapshot
from tests.tui import scenes
from tests.tui.screens import no_daemon, snapshot_of

PLAN = wire.Accepted(order_id=None, plan=("let open requests go on for up to 60 s", "start target-only"))


def busy(running: float | None, waiting: float | None) -> Snapshot:
    rates = Rates(at=1.0, launch_id=scenes.LAUNCH, running=running, waiting=waiting)
    return snapshot_of(msgspec.structs.replace(scenes.busy(), rates=rates))


def test_a_switch_says_what_is_open_what_the_daemon_would_do_and_how_long_loading_takes():
    question = questions.of_switch("target-only", busy(3, 1), PLAN, 95.0)
    assert question.title == "Switch to target-only?"
    assert question.sentences == (
        "3 running and 1 waiting requests are open.",
        *PLAN.plan,
        "Loading target-only usually takes 1 min 35 s.",
    )


def test_a_load_time_that_nobody_knows_is_said_to_be_unknown():
    assert "is unknown" in questions.of_switch("target-only", busy(0, 0), PLAN, None).sentences[-1]


def test_a_switch_to_what_runs_already_says_so():
    done = wire.Accepted(order_id=None, done="target-only serves already")
    assert "target-only serves already" in questions.of_switch("target-only", busy(0, 0), done, 1.0).sentences


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (busy(0, 0), "No request is open."),
        (busy(2, 0), "2 running and 0 waiting requests are open. They get the profile's drain time to finish."),
        (busy(None, 0), "How many requests are open is unknown. They get the profile's drain time to finish."),
        (snapshot_of(scenes.stopped()), "No backend is there."),
        (no_daemon(), "No backend is there."),
    ],
)
def test_a_stop_says_what_becomes_of_open_requests(snapshot: Snapshot, said: str):
    assert questions.of_stop(snapshot).sentences[0] == said
    assert questions.of_restart(snapshot).sentences[0] == said


def test_the_question_names_what_runs_else_what_is_ordered():
    assert questions.of_stop(busy(0, 0)).title == "Stop dflash2?"
    assert questions.of_restart(snapshot_of(scenes.failed())).title == "Restart dflash2?"
    assert questions.of_stop(no_daemon()).title == "Stop the backend?"
