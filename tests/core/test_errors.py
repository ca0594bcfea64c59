"""Errors for people, and the exit codes that scripts depend on."""

import pytest

from arcops.core.errors import ArcopsError, BlockedError, BusyError, ExitCode, InvalidProfileError, NoDaemonError


def test_exit_codes_are_an_interface() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0, "FAILED": 1, "USAGE": 2, "NOT_RUNNING": 3, "BUSY": 4, "BLOCKED": 5, "INVALID": 6,
        "BACKEND_FAILED": 7, "NO_DAEMON": 8, "WEDGED": 9, "TIMED_OUT": 124,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ArcopsError, ExitCode.FAILED),
        (InvalidProfileError, ExitCode.INVALID),
        (BlockedError, ExitCode.BLOCKED),
        (BusyError, ExitCode.BUSY),
        (NoDaemonError, ExitCode.NO_DAEMON),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind: type[ArcopsError], code: ExitCode) -> None:
    error = kind("it is so", hint="do this")
    assert (error.exit_code, error.message, error.hint) == (code, "it is so", "do this")
    assert str(error) == "it is so\nhint: do this"
    assert str(kind("it is so")) == "it is so"


def test_an_exit_code_of_a_newer_daemon_is_the_plain_failure() -> None:
    assert [ExitCode.of(code) for code in (0, 9, 124, 99, -1)] == [
        ExitCode.DONE,
        ExitCode.WEDGED,
        ExitCode.TIMED_OUT,
        ExitCode.FAILED,
        ExitCode.FAILED,
    ]
