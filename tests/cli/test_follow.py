"""Waiting for an order: what is shown meanwhile, and how it ends."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import cast

import msgspec
import pytest

from arcops import wire
from arcops.cli import follow
from arcops.cli.follow import outcome_in, wait_for
from arcops.client import Client
from arcops.core.errors import ArcopsError, NoDaemonError
from arcops.core.phase import Phase
from tests.tui import scenes

ORDER = 9


class Daemon:
    """In the place of a client: each `follow_status` plays the next scene, of statuses and of what is raised."""

    def __init__(self, *plays: Iterable[wire.Status | BaseException]) -> None:
        self._plays = iter(plays)

    def follow_status(self) -> Iterator[wire.Status]:
        for one in next(self._plays):
            if isinstance(one, BaseException):
                raise one
            yield one


def moment(phase: Phase, reason: str, **fields: object) -> wire.Status:
    order = wire.OrderInfo(id=ORDER, goal="run", profile="dflash2", committed=False)
    return scenes.status(phase, **{"reason": reason, "order": order, **fields})


def settled(code: int = 0, summary: str = "dflash2 serves", **fields: object) -> tuple[wire.OutcomeInfo, ...]:
    made = wire.OutcomeInfo(
        order_id=ORDER, exit_code=code, summary=summary, hint="", evidence="", superseded=False, returned_to=None
    )
    return (msgspec.structs.replace(made, **fields),)


def ended(daemon: Daemon) -> int:
    with pytest.raises(SystemExit) as end:
        wait_for(cast("Client", daemon), ORDER)
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(seconds: float) -> None:
        assert seconds > 0

    monkeypatch.setattr("time.sleep", at_once)


Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What was written to stderr; stdout has to stay empty."""

    def read() -> str:
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    return read


def test_every_change_is_a_line_and_what_was_before_the_order_is_none(said: Said) -> None:
    start = scenes.starting().start
    daemon = Daemon(
        [
            moment(Phase.STOPPED, "nothing is ordered to run"),
            moment(Phase.STARTING, "launching dflash2", start=start),
            moment(Phase.STARTING, "launching dflash2", start=start),
            moment(Phase.CHECKING, "asking for an answer", start=start),
            moment(Phase.SERVING, "serving demo", settled=settled()),
        ]
    )
    assert ended(daemon) == 0
    assert said() == ("starting: weights\nchecking: asking for an answer\nserving: serving demo\ndflash2 serves\n")


def test_a_failed_order_gives_evidence_return_and_reason_in_this_order(said: Said) -> None:
    failed = settled(7, "out of memory", hint="use less", evidence="ERROR oom", returned_to="target-only")
    daemon = Daemon(
        [moment(Phase.CLEARING, "clearing", settled=failed)],
        [
            moment(Phase.STARTING, "launching target-only", settled=failed),
            moment(Phase.SERVING, "serving demo", settled=failed, backend=scenes.backend(profile="target-only")),
        ],
    )
    assert ended(daemon) == 7
    lines = said().splitlines()
    assert lines[-4].startswith("log: ERROR oom")
    assert lines[-3].startswith("back to target-only: serving target-only for ")
    assert lines[-2:] == ["arcops: out of memory", "hint: use less"]


def test_a_daemon_that_goes_while_the_old_profile_comes_back_does_not_hide_the_failure(said: Said) -> None:
    failed = settled(7, "out of memory", returned_to="target-only")
    daemon = Daemon([moment(Phase.CLEARING, "clearing", settled=failed)], [NoDaemonError("gone")])
    assert ended(daemon) == 7
    assert "out of memory" in said()


def test_a_daemon_that_is_restarted_is_waited_for(said: Said) -> None:
    done = moment(Phase.SERVING, "serving demo", settled=settled())
    daemon = Daemon([moment(Phase.STARTING, "launching")], [NoDaemonError("gone")], [], [done])
    assert ended(daemon) == 0
    assert said().endswith("dflash2 serves\n")


def test_a_daemon_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RECONNECT_WITHIN", -1.0)
    with pytest.raises(NoDaemonError):
        wait_for(cast("Client", Daemon([NoDaemonError("gone")])), ORDER)


def test_ctrl_c_leaves_the_order_alone_and_says_so(said: Said) -> None:
    daemon = Daemon([moment(Phase.STARTING, "launching"), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        wait_for(cast("Client", daemon), ORDER)
    assert f"order {ORDER} goes on: " in said()


def test_foreign_text_in_an_outcome_cannot_move_the_cursor(said: Said) -> None:
    hostile = "a\x1b[2Jb\x07\u202e"
    failed = settled(7, hostile, hint=hostile, evidence=hostile)
    daemon = Daemon([moment(Phase.STARTING, hostile), moment(Phase.FAILED, hostile, settled=failed)])
    assert ended(daemon) == 7
    assert all(line.isprintable() for line in said().splitlines())


def test_an_exit_code_of_a_newer_daemon_is_a_failure(said: Said) -> None:
    assert ended(Daemon([moment(Phase.FAILED, "x", settled=settled(99))])) == 1
    assert said()


# -- what a status says about an order --------------------------------------------------------------------------------
COMMITTED = wire.OrderInfo(id=ORDER, goal="run", profile="dflash2", committed=True)
STOP = wire.OrderInfo(id=ORDER, goal="stop", profile=None, committed=True)
OTHER = wire.OrderInfo(id=ORDER - 2, goal="run", profile="target-only", committed=True)


@pytest.mark.parametrize(
    ("phase", "order", "restarted", "code"),
    [
        (Phase.SERVING, COMMITTED, True, 0),
        (Phase.STOPPED, COMMITTED, True, None),  # the new daemon has not turned yet
        (Phase.STARTING, COMMITTED, True, None),
        (Phase.SUSPECT, COMMITTED, True, None),
        (Phase.BACKOFF, COMMITTED, True, 1),
        (Phase.BLOCKED, COMMITTED, True, 1),
        (Phase.STOPPED, STOP, True, 0),
        (Phase.STOPPING, STOP, True, None),
        (Phase.STUCK, STOP, True, 1),
        (Phase.SERVING, OTHER, True, 1),
        (Phase.STOPPING, OTHER, False, None),  # a daemon that is leaving shows an order of its own
    ],
)
def test_an_order_without_an_outcome_is_judged_by_the_status(
    phase: Phase, order: wire.OrderInfo, restarted: bool, code: int | None
) -> None:
    outcome = outcome_in(scenes.status(phase, order=order), ORDER, restarted=restarted)
    assert (None if outcome is None else outcome.exit_code) == code


def test_an_order_that_is_under_way_has_no_outcome() -> None:
    for phase in Phase:
        assert outcome_in(moment(phase, "x"), ORDER, restarted=True) is None


# -- on a terminal ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("columns", [20, 80])
def test_on_a_terminal_one_line_rewrites_itself_within_its_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = scenes.starting().start
    daemon = Daemon(
        [
            moment(Phase.STARTING, "launching dflash2", start=start),
            moment(Phase.CHECKING, "a reason that is far too long for so narrow a terminal, and goes on and on"),
            ArcopsError("the daemon does not answer in time"),
        ]
    )
    shown = on_a_terminal(columns, monkeypatch, daemon)
    pieces = shown.split("\r\x1b[K")
    assert [piece[:9] for piece in pieces] == ["", "starting:", "checking ", ""]
    assert all(len(piece) < columns for piece in pieces)
    assert shown.endswith("\r\x1b[K"), "the line is cleared before anything else is said"


def on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> str:
    """What a terminal of this width gets; stdout is none, as with `arcops switch x | cat`."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with os.fdopen(side, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with pytest.raises(ArcopsError):
            wait_for(cast("Client", daemon), ORDER)
        monkeypatch.undo()
    shown = b""
    with suppress(OSError):  # EIO is how a terminal without a writer ends
        while chunk := os.read(main, 65536):
            shown += chunk
    os.close(main)
    return shown.decode()
